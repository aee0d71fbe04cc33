// A sheet of paper to carry to where tests are made: every test that is out, with an empty box for each of its results.

import { h, named } from "../library/dom.js";
import { hasPlaces, metricsOf } from "../library/measuring.js";
import { nounOf } from "../library/nouns.js";
import { date, dateTime, plural } from "../library/words.js";

/** The tests of each holder together; free tests last. */
function byHolder(tests) {
  const groups = new Map();
  for (const test of tests) {
    const holder = test.expires === 0 ? "" : test.holder;
    groups.set(holder, [...(groups.get(holder) ?? []), test]);
  }
  return [...groups].sort(([a], [b]) => (a === "") - (b === "") || a.localeCompare(b));
}

function table(tests, hasItems, hints, arm) {
  const line = (test) => metricsOf(test).map((metric, k) => h("tr", { class: k ? "same" : null },
    h("td", { class: "num" }, k ? "" : test.id), h("td", {}, k ? "" : named(test.arm)),
    hasItems ? h("td", {}, k || test.item === null ? "" : named(test.item)) : null,
    h("td", {}, named(metric)), h("td", { class: "box" }, h("span", { class: "fill" }, hints[metric]?.hint ?? "")),
    h("td", {}, k || !test.due ? "" : date(test.due))));
  const titles = ["Test", arm, hasItems ? "Where" : null, "Metric", "Result", "Due"].filter(Boolean);
  return h("table", {}, h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col", class: title === "Test" ? "num" : null }, title)))),
    h("tbody", {}, tests.flatMap(line)));
}

/** Have the browser print the sheet instead of the page. */
export function printSheet(status, tests) {
  const hasItems = hasPlaces(status.plan);
  const sheet = h("section", { class: "sheet", "aria-label": "Sheet of tests" },
    h("h1", {}, named(status.study)),
    h("p", {}, `${plural(tests.length, "test")} without a result, printed ${dateTime(Date.now() / 1000)}. Enter each result under the number of its test.`),
    byHolder(tests).map(([holder, theirs]) => h("section", {},
      h("h2", {}, holder === "" ? "Free" : named(holder)), table(theirs, hasItems, status.results, nounOf(status).One))));
  document.querySelector(".sheet")?.remove();
  document.body.append(sheet);
  document.body.classList.add("prints-sheet");
  window.addEventListener("afterprint", () => {
    document.body.classList.remove("prints-sheet");
    sheet.remove();
  }, { once: true });
  window.print();
}
