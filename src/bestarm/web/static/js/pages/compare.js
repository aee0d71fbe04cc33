// Several studies side by side. The address holds the selection, so it can be shared.

import { get, listen } from "../library/api.js";
import { h, keepingFocus, named, replace, s, sentence } from "../library/dom.js";
import { badge, marker } from "../library/markers.js";
import { at } from "../library/root.js";
import { extent, linear } from "../library/scale.js";
import { count, dateTime, evidenceWords, interval, isDecided, isVoid, number, plural, promised, stateBadge } from "../library/words.js";
import { connectionBar } from "../panels/connection.js";

const MOST = 12;
const WIDTH = 200;

const chosenInAddress = () => {
  const given = new URLSearchParams(location.search).get("studies") || "";
  return [...new Set(given.split(",").filter((id) => /^[1-9]\d{0,8}$/.test(id)).map(Number))].slice(0, MOST);
};

export const address = (ids) => at(ids.length ? `/compare?studies=${ids.join(",")}` : "/compare");

/** One fact in each row, one study in each column. */
function factsTable(studies, remove) {
  const row = (title, cell) => h("tr", {}, h("th", { scope: "row" }, title), studies.map((study) => h("td", {}, cell(study, study.line))));
  const state = (study, line) => {
    const badge = stateBadge(line);
    return h("span", { class: badge.class }, badge.words);
  };
  const sure = (study, line) => (!line.tests ? "–" : isVoid(line) ? "the guarantee is void"
    : isDecided(line) ? promised(line.delta) : "–");
  const leads = (study, line) => (line.state === "no_feasible_arm" ? "none is feasible"
    : line.decided && line.state !== "certified" ? line.decided
      : !line.tests || line.leader === null ? "–"
      : (line.answered?.length > 1 ? line.answered : [line.answer ?? line.leader]).map((name, k) => [k ? ", " : "", named(name)]));
  return h("table", { class: "side-by-side" },
    h("caption", { class: "sr" }, "The studies side by side"),
    h("thead", {}, h("tr", {}, h("td", {}),
      studies.map(({ line }) => h("th", { scope: "col" },
        h("a", { href: at(`/studies/${line.id}`) }, named(line.name)), " ",
        h("button", { class: "small-button", "data-key": `remove-${line.id}`, onclick: () => remove(line.id) },
          "Remove", h("span", { class: "sr" }, " ", named(line.name))))))),
    h("tbody", {},
      row("Asked", (study) => study.question),
      row("State", state),
      row("Answer or leader", leads),
      row("Confidence", sure),
      row("Evidence there is", (study, line) => (isVoid(line) ? "–" : isDecided(line) ? "all that is needed" : evidenceWords(study))),
      row("Tests", (study, line) => count(line.tests)),
      row("Cost", (study, line) => number(line.cost)),
      row("Can still be the answer", (study, line) => (isVoid(line) ? "–" : `${count(line.left)} of ${count(line.arms)}`)),
      row("Below the best by at most", (study, line) => (isVoid(line) || study.regret_at_most === null ? "–" : number(study.regret_at_most))),
      row("Known", (study, line) => (study.known ? sentence(`${study.known}.`, [line.leader])
        : line.tests ? "Nothing is certain yet." : "There are no results yet.")),
      row("Created", (study, line) => dateTime(line.created))));
}

/** The interval as a line, on a scale that all studies of the group share. */
function picture(arm, range, verdict, answer) {
  const at = linear(range, [8, WIDTH - 8]);
  const low = at(arm.low ?? range[0]);
  const high = at(arm.high ?? range[1]);
  return s("svg", { class: "interval-line", viewBox: `0 0 ${WIDTH} 18`, width: WIDTH, height: 18, "aria-hidden": "true" },
    s("g", { class: `arm ${verdict}` },
      arm.low === null && arm.high === null ? null : s("line", { class: "whisker", x1: low, x2: Math.max(high, low + 1), y1: 9, y2: 9 }),
      marker(verdict, at(arm.mean), 9, answer)));
}

/** The arms of all studies with the same objective, with their intervals on one scale. */
function intervalsTable(studies) {
  const { objective, goal } = studies[0];
  const values = studies.flatMap((study) => study.arms.flatMap((arm) => [arm.low, arm.high, arm.mean]));
  const range = extent(values);
  const title = [named(objective), `, as ${goal === "maximize" ? "large" : "small"} as possible`];
  const label = `Intervals of ${objective}`;
  const rows = (study) => study.arms.map((arm, k) => {
    const answer = !isVoid(study.line) && (study.line.answered?.includes(arm.name) || study.line.answer === arm.name);
    return h("tr", { class: k === 0 ? "first-of-study" : null },
      h("th", { scope: "row" }, named(arm.name),
        answer ? h("span", { class: "tag" }, "answer")
          : !study.line.decided && arm.name === study.line.leader && study.line.tests ? h("span", { class: "tag" }, "leads") : null),
      h("td", {}, named(study.line.name)),
      h("td", {}, h("span", { class: `verdict ${arm.verdict}` }, badge(arm.verdict, answer), arm.verdict)),
      h("td", { class: "num" }, count(arm.tests)),
      h("td", { class: "num" }, arm.tests ? number(arm.mean, 4, arm.high - arm.low) : "–"),
      h("td", { class: "num" }, arm.tests ? interval(arm.low, arm.high, "to") : "–"),
      h("td", {}, arm.tests && arm.mean !== null ? picture(arm, range, arm.verdict, answer) : null));
  });
  const left = studies.reduce((sum, study) => sum + study.further, 0);
  return h("section", { class: "card" },
    h("h2", {}, title),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
      h("table", { class: "intervals" },
        h("caption", { class: "sr" }, label),
        h("thead", {}, h("tr", {}, ["Arm", "Study", "Verdict"].map((name) => h("th", { scope: "col" }, name)),
          ["Tests", "Mean", "Interval"].map((name) => h("th", { scope: "col", class: "num" }, name)),
          h("th", { scope: "col" }, h("span", { "aria-hidden": "true" }, `${number(range[0])} to ${number(range[1])}`), h("span", { class: "sr" }, "As a line")))),
        h("tbody", {}, studies.map(rows)))),
    left ? h("p", { class: "muted" }, `${count(left)} more not shown.`) : null);
}

const objectiveOf = (study) => JSON.stringify([study.objective, study.goal]);

export async function show(main) {
  document.title = "Compare studies · bestarm";
  let chosen = chosenInAddress();
  const facts = h("section", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "The studies side by side" });
  const intervals = h("div", { class: "compared" });
  const note = h("p", { class: "muted", role: "status" });
  const select = h("select", { id: "add" });
  const add = h("button", { onclick: () => { if (select.value) choose([...chosen, Number(select.value)]); } }, "Add");
  const adding = h("div", { class: "toolbar" }, h("label", { for: "add" }, "Another study"), select, add);

  async function draw() {
    const studies = chosen.length ? await get(`/api/comparison?studies=${chosen.join(",")}`) : [];
    facts.hidden = studies.length === 0;
    keepingFocus(facts, () => replace(facts, studies.length ? factsTable(studies, (id) => choose(chosen.filter((one) => one !== id))) : null));
    const groups = new Map();
    for (const study of studies) groups.set(objectiveOf(study), [...(groups.get(objectiveOf(study)) || []), study]);
    replace(intervals, [...groups.values()].map(intervalsTable));
    replace(note, studies.length === 0 ? "Choose the studies to put side by side."
      : `${plural(studies.length, "study", "studies")}. The address of this page holds the choice: share it to show the same studies.`);
  }

  async function offer() {
    const studies = (await get("/api/studies?limit=1000")).filter((study) => !study.error && !chosen.includes(study.id));
    replace(select, studies.map((study) => h("option", { value: study.id }, study.name)));
    adding.hidden = studies.length === 0 || chosen.length >= MOST;
  }

  async function choose(ids) {
    chosen = ids;
    history.replaceState(null, "", address(ids));
    await Promise.all([draw(), offer()]);
  }

  await Promise.all([draw(), offer()]);
  replace(main,
    h("div", { class: "page-head" }, h("h1", {}, "Compare studies")),
    note, adding, facts, intervals);
  const bar = connectionBar(() => stream.retry());
  let waiting = 0;
  const stream = listen("/api/events", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => draw().catch(console.warn), 500);
  }, bar);
}
