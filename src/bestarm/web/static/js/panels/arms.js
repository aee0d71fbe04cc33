// The table of arms: where each stands, and why it is out. Sorted, filtered, and a page of it at a time.

import { h, keepingFocus, named, replace, sentence } from "../library/dom.js";
import { badge, hollowBadge } from "../library/markers.js";
import { testsOf } from "../library/measuring.js";
import { nounOf } from "../library/nouns.js";
import { waitingWords } from "../library/waiting.js";
import { count, interval, isVoid, number, headingOf, requirement, shareWords, VERDICTS } from "../library/words.js";

const PAGE = 50;

export function armsPanel(context) {
  const plan = context.status.plan;
  const parts = [plan.objective, ...(plan.constraints || [])];
  const noun = nounOf(plan);
  let status = context.status;
  const tests = (arm) => testsOf(status, arm);
  let sort = { key: "standing", down: false };
  let page = 0;

  const columns = [
    { key: "standing", title: noun.One, value: null },
    { key: "verdict", title: "Verdict", value: (arm) => VERDICTS.indexOf(arm.verdict) },
    { key: "reason", title: "Reason", value: (arm) => arm.reason },
    { key: "tests", title: "Tests", numeric: true, value: tests },
    ...parts.map((part, k) => ({
      key: `metric-${k}`, title: headingOf(part), more: requirement(part, plan.goal), numeric: true, name: true,
      value: (arm) => arm.metrics[k].mean,
    })),
  ];
  const heads = columns.map((column) => {
    const button = h("button", { class: "sort", "data-key": `sort-${column.key}`, onclick: () => sortBy(column.key) },
      h("span", { class: "nowrap" }, column.name ? named(column.title) : column.title, h("span", { class: "arrow", "aria-hidden": "true" })),
      column.more ? h("span", { class: "aim" }, column.more) : null);
    return h("th", { scope: "col", role: "columnheader", class: column.numeric ? "num" : null }, button);
  });
  const body = h("tbody", { role: "rowgroup" });
  const caption = h("caption", { class: "sr" }, `${noun.Many}: verdict, reason, tests, and for each metric the mean, or the quantile that is limited, and its interval`);
  // On a phone each row is a block. Browsers would no longer treat it as a table, so its parts have explicit roles.
  const table = h("table", { class: "arms", role: "table" }, caption, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)), body);
  const scroller = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table of ${noun.many}` }, table);
  const note = h("p", { class: "muted", role: "status" });
  const earlier = h("button", { onclick: () => turn(-1) }, "Previous");
  const later = h("button", { onclick: () => turn(1) }, "Next");
  const pager = h("div", { class: "pager", role: "group", "aria-label": `Pages of the table of ${noun.many}` }, earlier, later);
  const element = h("div", {}, scroller, h("p", { class: "muted small" }, status.about_means), h("div", { class: "table-foot" }, note, pager));

  function turn(by) {
    page += by;
    draw();
    scroller.scrollIntoView({ block: "nearest" });
  }

  function sortBy(key) {
    sort = { key, down: sort.key === key ? !sort.down : false };
    page = 0;
    draw();
  }

  function sorted(arms) {
    const sign = sort.down ? -1 : 1;
    const column = columns.find((one) => one.key === sort.key);
    if (!column.value) {
      // As the user listed them, the answer or leader first.
      const rows = [...arms];
      if (sort.down) rows.reverse();
      return rows.sort((a, b) => (b.name === status.leader) - (a.name === status.leader));
    }
    const keyed = arms.map((arm) => [column.value(arm), arm]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
    });
    return keyed.map(([, arm]) => arm);
  }

  const labels = parts.map((part) => (part.goal ? part.metric : `${part.metric} (${requirement(part)})`));

  function cell(arm, metric, k) {
    const labeled = { role: "cell", "data-label": labels[k] };
    const waiting = parts[k].per ? [] : context.waiting(arm.name, parts[k].metric);
    const wait = waiting.length ? h("span", { class: "range" }, hollowBadge(), ` ${waitingWords(waiting)}`) : null;
    if (!metric.tests) {
      const mean = waiting.reduce((sum, value) => sum + value / waiting.length, 0);
      return h("td", { class: "num muted", ...labeled }, h("div", {}, h("span", {}, wait ? number(mean) : "–"), wait));
    }
    const side = metric.verdict === "violated" ? "violated" : metric.verdict === "holds" ? "holds" : null;
    return h("td", { class: "num", ...labeled }, h("div", {},
      h("span", { class: side }, number(metric.mean, 4, metric.high - metric.low)),
      side ? h("span", { class: `mark ${side}` }, side === "holds" ? " ✓" : " ✕", h("span", { class: "sr" }, side)) : null,
      h("span", { class: "range" }, parts[k].noise === "exact" ? "certain" : interval(metric.low, metric.high, "to")),
      metric.share ? h("span", { class: "range" }, shareWords(parts[k], metric.share)) : null, wait));
  }

  function row(arm) {
    const answer = !isVoid(status) && status.answered.includes(arm.name);
    const leads = !answer && !status.decided && arm.name === status.leader;
    return h("tr", { role: "row", class: answer ? "answered" : leads && status.tests ? "leads" : null },
      h("th", { scope: "row", role: "rowheader" }, named(arm.name),
        answer ? h("span", { class: "tag" }, "answer") : leads && status.tests ? h("span", { class: "tag" }, "leads") : null),
      h("td", { role: "cell" }, h("span", { class: `verdict ${arm.verdict}` }, badge(arm.verdict, answer), arm.verdict)),
      h("td", { role: "cell", class: "reason" }, sentence(arm.reason, [status.leader])),
      h("td", { role: "cell", class: "num", "data-label": "Tests" }, count(tests(arm))),
      arm.metrics.map((metric, k) => cell(arm, metric, k)));
  }

  function draw() {
    const matching = context.chosen(status.arms);
    const pages = Math.max(1, Math.ceil(matching.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    const rows = sorted(matching).slice(page * PAGE, (page + 1) * PAGE);
    keepingFocus(table, () => replace(body, rows.map(row)));
    heads.forEach((head, k) => {
      if (columns[k].key === sort.key) head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const from = page * PAGE;
    const some = matching.length === status.arms.length ? noun.counted(matching.length)
      : `${count(matching.length)} of ${noun.counted(status.arms.length)}`;
    const shown = matching.length > PAGE ? `${count(from + 1)} to ${count(from + rows.length)} of ${some}` : some;
    if (note.textContent !== shown) note.textContent = shown;
    pager.hidden = pages === 1;
    earlier.disabled = page === 0;
    later.disabled = page === pages - 1;
  }

  return {
    element,
    first() {
      page = 0;
      draw();
    },
    update(now) {
      status = now;
      draw();
    },
  };
}
