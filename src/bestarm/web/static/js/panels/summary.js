// At a glance: the question, the answer or the leader, how sure we are, and what it has taken.

import { download, post } from "../library/api.js";
import { announce, h, named, replace } from "../library/dom.js";
import { visitorName } from "../library/visitor.js";
import { confidenceBar } from "../library/confidence.js";
import { aboutItems, aboutMeasurements, itemCount, testWords } from "../library/measuring.js";
import { healthPanel } from "./health.js";
import { about, count, date, duration, ENDED, headline, number, plural, promised, question, STATES } from "../library/words.js";

const SHOWN_AFTER = 4;

/** A file name that any system takes. */
function fileName(status, ending) {
  const stem = status.study.normalize("NFKC").replace(/[^\p{L}\p{N} ._-]+/gu, "").trim().slice(0, 60);
  return `${stem || `study-${status.id}`}.${ending}`;
}

export function summaryPanel(context) {
  const state = h("span", {});
  const first = h("p", { class: "answer" });
  const second = h("p", { class: "answer-more" });
  const bar = h("div", { class: "sure-bar" });
  const facts = h("dl", { class: "facts big" });
  const notes = h("div", { class: "notes" });
  const asked = h("p", { class: "question" });
  const measured = h("p", { class: "muted about-tests" });
  const archive = h("button", { onclick: putAway });
  const health = healthPanel();
  let forecast = null;

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

  const save = (path, ending, title) => h("button", {
    onclick: async () => {
      try {
        await download(`${context.base}/${path}`, fileName(context.status, ending));
      } catch (error) {
        announce(error.message, { urgent: true });
      }
    },
  }, title);

  const element = h("div", { class: "summary" },
    h("p", { class: "crumbs" }, h("a", { href: "/" }, "Studies"), " / ", h("span", {}, named(context.status.study))),
    h("div", { class: "page-head" },
      h("h1", {}, named(context.status.study), " ", state),
      h("div", { class: "actions", role: "group", "aria-label": "Download and archive" },
        save("report", "html", "Report"), save("export?format=csv", "csv", "CSV"),
        save("export?format=json", "json", "JSON"), archive)),
    asked, measured,
    h("div", { class: "card hero" },
      h("div", { class: "hero-text" }, first, second, bar),
      facts),
    notes,
    health.element);

  const fact = (term, value, more) => h("div", {},
    h("dt", {}, term), h("dd", {}, value, more ? h("span", { class: "muted small" }, ` ${more}`) : null));

  function update(status) {
    const { plan } = status;
    const target = 1 - plan.delta;
    const decided = status.state === "certified" || status.state === "no_feasible_arm";
    const words = headline(status, plan.delta);
    replace(first, words.first);
    replace(second, words.second || (decided ? `Wrong with probability at most ${plan.delta}, if tests are independent and scatter as stated` : ""),
      words.second && status.tests && status.state === "running" ? h("span", { class: "muted" }, ` · asked for: ${promised(plan.delta)}`) : null);
    replace(bar, decided ? null : confidenceBar(status.confidence, target));
    state.className = `badge ${status.state}`;
    replace(state, status.archived ? "archived" : STATES[status.state] || "…");
    element.querySelector(".hero").className = `card hero ${status.state}`;
    replace(asked, question(plan));
    const items = itemCount(plan);
    replace(measured, aboutMeasurements(status.measured.map(({ metrics }) => metrics)), items === null ? "" : aboutItems(items, plan.repeats));
    measured.hidden = !measured.textContent;
    replace(facts,
      fact("Tests", count(status.tests), plan.budget?.tests ? `of ${count(plan.budget.tests)}` : null),
      fact("Cost", number(status.cost), plan.budget?.cost ? `of ${number(plan.budget.cost)}` : null),
      fact("In flight", count(status.pending)),
      decided || status.state === "budget_spent"
        ? fact("Begun", date(status.created))
        : fact("To go", forecastWords(), forecast?.p90_tests ? `(9 in 10: ≤ ${about(forecast.p90_tests)})` : null));
    drawNotes(status);
    health.update(status);
    archive.textContent = status.archived ? "Bring back" : "Archive";
  }

  function drawNotes(status) {
    const { plan } = status;
    replace(notes,
      awaitedNote(status),
      plan.order === "arrival" ? h("p", { class: "note" }, "Results count in the order in which they arrive: the plan says that how long a test takes has nothing to do with its result.") : null,
      status.archived ? h("p", { class: "note" }, "This study is archived: it can be read and not changed.") : null);
  }

  // Times grow without anything being recorded.
  setInterval(() => { if (!document.hidden && !notes.contains(document.activeElement)) drawNotes(context.status); }, 2000);

  /** What everything waits for, and the means to free it. */
  function awaitedNote(status) {
    const test = status.awaited;
    if (!test) return null;
    const now = Date.now() / 1000;
    // What was asked for a moment ago needs nobody's attention yet.
    const asleep = !["measuring", "free"].includes(test.state);
    if (!status.waiting && !(asleep && (ENDED[test.state] || now - test.since > SHOWN_AFTER))) return null;
    const wait = status.waiting
      ? `${plural(status.waiting, "result")} recorded but not counted in what this page shows: waiting for test ${test.test} (`
      : `The next result to count is that of test ${test.test} (`;
    const ago = duration(now - test.since);
    const held = test.state === "free" ? ["nobody holds it"]
      : ENDED[test.state] ? ["the attempt of ", named(test.holder), ` ${ENDED[test.state]} ${ago} ago`, test.reason ? [": ", h("bdi", {}, test.reason)] : ""]
        : [named(test.holder), ` has held it for ${ago}`, test.state === "overdue" ? ` and wanted to tell it ${duration(now - test.due)} ago` : ""];
    const act = !asleep || status.archived ? null : [
      ENDED[test.state] ? [" Type below what that counts, or, if it has nothing to do with results, have the test made again: "]
        : [" If its result will not come: "],
      h("button", { class: "small", onclick: () => free(test.test) }, `Free test ${test.test}`), " or ", h("code", {}, test.command)];
    return h("p", { class: "note" }, wait, testWords(test), "); ", held, ".", act);
  }

  async function free(test) {
    try {
      await post(`${context.base}/release`, { tests: [test], holder: visitorName() });
      announce(`Test ${test} will be handed out again`);
      await context.refresh();
    } catch (error) {
      announce(error.message);
    }
  }

  function forecastWords() {
    if (!forecast) return "–";
    return forecast.median_tests === null || forecast.median_tests === undefined ? "many" : `≈ ${about(forecast.median_tests)}`;
  }

  return {
    element,
    update,
    showForecast(found) {
      forecast = found;
      update(context.status);
    },
  };
}
