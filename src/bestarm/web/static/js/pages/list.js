// The list of studies.

import { get, listen } from "../library/api.js";
import { connectionBar } from "../panels/connection.js";
import { h, keepingFocus, named, replace } from "../library/dom.js";
import { shareBar } from "../library/bars.js";
import { nounOf } from "../library/nouns.js";
import { findProjects, inProject, projectChoice, projectHere } from "../library/projects.js";
import { at } from "../library/root.js";
import { address } from "./compare.js";
import { startPanel } from "./start.js";
import { count, dateTime, headline, isDecided, isVoid, number, plural, promised, stateBadge } from "../library/words.js";

const AT_ONCE = 100;

/** A study that the service cannot read: only the reason. */
function faultyCard(study) {
  return h("li", { class: "card study-card unknown" },
    h("div", { class: "card-main" },
      h("h2", {}, h("a", { href: at(`/studies/${study.id}`), "data-key": `study-${study.id}` }, named(study.name))),
      h("p", { class: "where" },
        h("span", { class: "badge" }, study.archived ? "archived" : "cannot be read"), " ", study.error)),
    h("dl", { class: "facts" },
      h("div", {}, h("dt", {}, "Created"), h("dd", {}, dateTime(study.created)))));
}

/** Who leads, or has won, by name. */
function leaderFact(study) {
  if (study.state === "certified") return ["Answer", study.answered?.length > 1 ? nounOf(study).counted(study.answered.length) : named(study.answer ?? study.leader)];
  if (study.state === "no_feasible_arm") return ["Answer", "none is feasible"];
  if (study.decided) return ["Answer", "not yet"];
  return ["Leader", study.leader === null || !study.tests ? "–" : named(study.leader)];
}

function card(study, chosen, choose, showsProject) {
  if (study.error) return faultyCard(study);
  const { first, second } = headline(study, study.delta);
  const decided = isDecided(study);
  const badge = stateBadge(study);
  const far = decided ? promised(study.delta) : `${Math.floor(100 * (study.progress ?? 0))}%`;
  const fact = (term, value) => h("div", {}, h("dt", {}, term), h("dd", {}, value));
  return h("li", { class: `card study-card ${isVoid(study) ? "void" : study.state || "unknown"}` },
    h("div", { class: "card-main" },
      h("h2", {}, h("a", { href: at(`/studies/${study.id}`), "data-key": `study-${study.id}` }, named(study.name))),
      h("p", { class: "where" },
        h("span", { class: badge.class }, badge.words), " ",
        first, second && study.tests ? null : second ? `. ${second}` : null)),
    h("div", { class: "card-sure" },
      isVoid(study) ? [h("span", { class: "sure void" }, "void"), h("span", { class: "muted" }, "guarantee")]
        : study.tests ? [h("span", { class: "sure" }, far), shareBar(decided ? 1 : study.progress),
          h("span", { class: "muted" }, decided ? "confidence" : "of the evidence")] : null),
    h("dl", { class: "facts" },
      fact(...leaderFact(study)),
      fact("Tests", count(study.tests)),
      fact("Cost", number(study.cost)),
      fact("Out", count(study.pending)),
      fact("Size", `${nounOf(study).counted(study.arms)} × ${plural(study.metrics, "metric")}`),
      showsProject ? fact("Project", named(study.project)) : null,
      fact("Created", dateTime(study.created))),
    h("label", { class: "choose" },
      h("input", { type: "checkbox", checked: chosen.has(study.id), "data-key": `choose-${study.id}`, onchange: (event) => choose(study.id, event.target.checked) }),
      "Compare", h("span", { class: "sr" }, " ", named(study.name))));
}

export async function show(main) {
  document.title = "Studies · bestarm";
  const projects = await findProjects();
  let project = projectHere();
  let archived = false;
  let text = "";
  let pages = 1;
  let hasMore = false;
  let studies = [];
  let fetched = 0;

  const search = h("input", { id: "search", type: "search", placeholder: "Part of a name", autocomplete: "off" });
  const box = h("input", { id: "archived", type: "checkbox" });
  // A bookmark may name one that has no study any more.
  const filter = projectChoice([...new Set(["", ...projects.map(({ name }) => name), project])], project, "All projects", { id: "project" });
  const list = h("ul", { class: "cards", id: "studies" });
  const more = h("button", { hidden: true, onclick: () => { pages += 1; load(true).catch(console.warn); } }, "Show more");
  const start = startPanel();
  const chosen = new Set();
  const compare = h("a", { class: "button", hidden: true });
  const note = h("p", { class: "muted", role: "status" });

  function choose(id, is) {
    if (is) chosen.add(id);
    else chosen.delete(id);
    compare.hidden = chosen.size < 2;
    compare.href = address([...chosen]);
    compare.textContent = `Compare ${plural(chosen.size, "study", "studies")}`;
  }

  function draw() {
    keepingFocus(list, () => replace(list, studies.map((study) => card(study, chosen, choose, projects.length > 0 && !project))));
    more.hidden = !hasMore;
    start.hidden = studies.length > 0 || Boolean(text) || archived || Boolean(project);
    if (studies.length === 0 && text) {
      replace(note, "No study has this in its name.");
    } else if (studies.length === 0) {
      replace(note, archived ? "Nothing is archived." : project ? "There is no study in this project." : "There is no study yet.");
    } else {
      replace(note, hasMore ? `The newest ${count(studies.length)} studies` : plural(studies.length, "study", "studies"));
    }
  }

  let typing = 0;
  let loading = null;
  let again = false;
  async function load(soon = false) {
    if (loading) { again = soon ? "soon" : again || "later"; return; }
    loading = (async () => {
      const from = performance.now();
      const found = [];
      for (let page = 0; page < pages; page += 1) {
        const query = new URLSearchParams({ archived: archived ? "only" : "false", limit: AT_ONCE, contains: text });
        if (project) query.set("project", project);
        if (found.length) query.set("before", found[found.length - 1].id);
        const some = await get(`/api/studies?${query}`);
        found.push(...some);
        hasMore = some.length === AT_ONCE;
        if (!hasMore) break;
      }
      studies = found;
      fetched = performance.now() - from;
      draw();
    })();
    try {
      await loading;
    } finally {
      loading = null;
      if (again) {
        const pause = again === "soon" ? 0 : Math.max(1000, 5 * fetched);
        again = false;
        setTimeout(() => load().catch(console.warn), pause);
      }
    }
    // While figures are being computed the service leaves them out.
    if (studies.some((study) => study.state === null && !study.error)) setTimeout(() => load().catch(console.warn), 1500);
  }

  search.addEventListener("input", () => {
    text = search.value.trim();
    pages = 1;
    clearTimeout(typing);
    typing = setTimeout(() => load(true).catch(console.warn), 200);
  });
  box.addEventListener("change", () => { archived = box.checked; pages = 1; load(true).catch(console.warn); });

  const making = h("a", { class: "button primary", href: inProject(at("/new"), project), "data-needs": "manage" }, "New study");
  await load();
  replace(main,
    h("div", { class: "page-head" }, h("h1", {}, "Studies"), making),
    h("div", { class: "toolbar" },
      projects.length || project ? [h("label", { for: "project", class: "sr" }, "Project"), filter] : null,
      h("label", { for: "search", class: "sr" }, "Find a study by name"), search,
      h("label", { class: "check" }, box, " Archived"),
      compare, note),
    start, list, more);

  const bar = connectionBar(() => stream.retry());
  let waiting = 0;
  const follow = () => listen(inProject("/api/events", project), () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => load().catch(console.warn), 200);
  }, bar);
  let stream = follow();
  filter.addEventListener("change", () => {
    project = filter.value;
    pages = 1;
    // The address is that of what is shown, for bookmarks.
    history.replaceState(null, "", inProject(at("/"), project));
    making.href = inProject(at("/new"), project);
    stream.close();
    stream = follow();
    load(true).catch(console.warn);
  });
}
