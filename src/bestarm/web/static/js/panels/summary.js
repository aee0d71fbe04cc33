// The top of a study's page: its name, the question, the answer or the leader, and the first card.

import { download, post } from "../library/api.js";
import { announce, h, named, replace } from "../library/dom.js";
import { askHowMany, askReason, confirmByName, GIVING_UP, signature } from "../library/dialogs.js";
import { aboutBlocks, aboutItems, aboutMeasurements, assumed, itemCount } from "../library/measuring.js";
import { noun, nounOf } from "../library/nouns.js";
import { projectCrumb } from "../library/projects.js";
import { at } from "../library/root.js";
import { extension } from "../library/todo.js";
import { standingPanel } from "./standing.js";
import { count, date, dateTime, headline, isVoid, number, percentOf, plural, question, stateBadge } from "../library/words.js";

/** A file name that any system takes. */
function fileName(status, ending) {
  const stem = status.study.normalize("NFKC").replace(/[^\p{L}\p{N} ._-]+/gu, "").trim().slice(0, 60);
  return `${stem || `study-${status.id}`}.${ending}`;
}

export function summaryPanel(context) {
  const state = h("span", {});
  const place = h("span", {});
  const first = h("p", { class: "answer" });
  const second = h("p", { class: "answer-more" });
  const facts = h("dl", { class: "facts big" });
  const notes = h("div", { class: "notes" });
  const asked = h("p", { class: "question" });
  const measured = h("p", { class: "muted about-tests" });
  const archive = h("button", { "data-needs": "manage", onclick: putAway });
  const remove = h("button", { "data-needs": "manage", onclick: deleteStudy }, "Delete");
  const standing = standingPanel(context, { free, giveUp, extend, save: () => save("report", "html", "Download the report", "small") });

  async function putAway() {
    const undo = Boolean(context.status.archived);
    archive.disabled = true;
    try {
      await post(`${context.base}/archive`, { undo });
      announce(undo ? "The study is back" : "The study is archived: it can be read and not changed");
      await context.refresh();
    } catch (error) {
      announce(error.message, { urgent: true });
    }
    archive.disabled = false;
  }

  async function deleteStudy() {
    const { study } = context.status;
    const why = ["All results of ", named(study), " will be lost, for good. Type its name to delete it."];
    if (await confirmByName("Delete the study", why, study, "Delete for good", () => post(`${context.base}/delete`, { name: study }))) {
      location.assign(at("/"));
    }
  }

  const save = (path, ending, title, size = null) => h("button", {
    class: size,
    onclick: async () => {
      try {
        await download(`${context.base}/${path}`, fileName(context.status, ending));
      } catch (error) {
        announce(error.message, { urgent: true });
      }
    },
  }, title);

  const element = h("div", { class: "summary" },
    h("p", { class: "crumbs" }, h("a", { href: at("/") }, "Studies"), " / ", place, h("span", {}, named(context.status.study))),
    h("div", { class: "page-head" },
      h("h1", {}, named(context.status.study), " ", state),
      h("div", { class: "actions", role: "group", "aria-label": "Download, archive and delete" },
        save("report", "html", "Report"), save("export?format=csv", "csv", "CSV"),
        save("export?format=json", "json", "JSON"), archive, remove)),
    asked, measured,
    h("section", { class: "card hero", "aria-label": "Where the study stands" },
      h("div", { class: "hero-head" }, h("div", {}, first, second), facts),
      standing.element),
    notes);

  const fact = (term, value, more) => h("div", { class: term.toLowerCase().replaceAll(" ", "-") },
    h("dt", {}, term), h("dd", {}, value, more ? h("span", { class: "muted small" }, ` ${more}`) : null));

  function update(status) {
    const { plan } = status;
    const badge = stateBadge(status);
    const decided = status.guarantee === "holds";
    replace(first, headline(status, plan.delta).first);
    replace(second, decided ? `Wrong in at most ${percentOf(plan.delta)} of such studies, if ${assumed(plan)}` : "");
    second.hidden = !decided;
    replace(place, projectCrumb(status.project));
    state.className = badge.class;
    replace(state, badge.words);
    element.querySelector(".hero").className = `card hero ${isVoid(status) ? "void" : status.state}`;
    replace(asked, question(plan));
    const items = itemCount(plan);
    replace(measured, aboutMeasurements(status.measured.map(({ metrics }) => metrics)), plan.blocks ? aboutBlocks(plan.blocks, nounOf(plan)) : items === null ? "" : aboutItems(items, plan.repeats));
    measured.hidden = !measured.textContent;
    replace(facts,
      fact("Tests", count(status.tests), plan.budget?.tests ? `of ${count(plan.budget.tests)}` : null),
      status.blocks ? fact(noun(status.blocks.name).Many, count(status.blocks.made), status.blocks.allowed ? `of ${count(status.blocks.allowed)}` : null) : null,
      fact("Cost", number(status.cost), plan.budget?.cost ? `of ${number(plan.budget.cost)}` : null),
      status.ends ? fact("Time", status.state === "running" && status.ends * 1000 <= Date.now() ? "is up" : dateTime(status.ends), "no test begins after it") : null,
      fact("Out", count(status.pending)),
      fact("Begun", date(status.created)));
    drawNotes(status);
    standing.update(status);
    archive.textContent = status.archived ? "Bring back" : "Archive";
    remove.hidden = !status.archived;
  }

  function drawNotes(status) {
    const { plan } = status;
    replace(notes,
      status.held ? h("p", { class: "note" }, `${status.held.words}.${status.held.test === null ? " Ask for tests to measure it." : ""}`) : null,
      status.unasked ? h("p", { class: "note" }, `${status.unasked}.`) : null,
      plan.order === "arrival" ? h("p", { class: "note" }, "Results count in the order in which they arrive: the plan says that a test's duration has nothing to do with its result.") : null,
      status.archived ? h("p", { class: "note" }, "This study is archived: it can be read and not changed.") : null);
  }

  async function free(test) {
    try {
      await post(`${context.base}/release`, { tests: [test], holder: await signature() });
      announce(`Test ${test} will be handed out again`);
      await context.refresh();
    } catch (error) {
      announce(error.message);
    }
  }

  async function giveUp(test) {
    const reason = await askReason(`Give up test ${test}`, GIVING_UP);
    if (reason === null) return;
    try {
      await post(`${context.base}/abandon`, { test, reason, holder: await signature() });
      announce(`Test ${test} is given up`);
      await context.refresh();
    } catch (error) {
      announce(error.message);
    }
  }

  async function extend(suggested) {
    const { unit, more } = extension(context.status);
    const save = async (number) => post(`${context.base}/extend`, { [unit]: number, holder: await signature() });
    const why = "The study goes on where its budget ended. That does not weaken the guarantee, because the evidence that ends a study is valid at all times at once.";
    if (await askHowMany(`Allow ${more}`, why, `How many ${more}`, suggested ?? "", save)) {
      announce("The study goes on");
      await context.refresh();
    }
  }

  return { element, update, showForecast: standing.showForecast, showPending: standing.showPending };
}
