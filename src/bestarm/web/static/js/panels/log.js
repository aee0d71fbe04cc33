// What happened, the newest first, with the means to correct a result.

import { post } from "../library/api.js";
import { announce, h, keepingFocus, named, newId, replace } from "../library/dom.js";
import { askCorrection, recordTyped, signature } from "../library/dialogs.js";
import { metricsOf, testWords, valueBoxes, valueWords } from "../library/measuring.js";
import { nounOf } from "../library/nouns.js";
import { count, exact, plural, time } from "../library/words.js";

const STEP = 50;
const MOST = 2000;

const KINDS = {
  created: "study created", asked: "asked", given: "result without asking", told: "result", dropped: "given up",
  failed: "failed", "set aside": "set aside", released: "freed", "handed on": "handed on", corrected: "corrected", archived: "archived", restored: "brought back", remarked: "remark",
};

const keyOf = (event) => `correct-${event.test}-${event.time}`;

export function logPanel(context) {
  const body = h("tbody", {});
  const titles = ["Time", "What", "Test", `Metric of ${nounOf(context.status).one}`, "Value", "By", "Note"];
  const table = h("table", { class: "log" }, h("caption", { class: "sr" }, "Log, the newest first"),
    h("thead", {}, h("tr", {}, titles.map((title, k) => h("th", { scope: "col", class: k === 2 || k === 4 ? "num" : null }, title)),
      h("th", { scope: "col" }, h("span", { class: "sr" }, "Correct")))),
    body);
  const more = h("button", { hidden: true }, "Show earlier");
  const search = h("input", { id: newId("log-search"), type: "search", placeholder: "Part of a name, number or note", autocomplete: "off" });
  const found = h("span", { class: "muted", role: "status" });
  const element = h("div", {},
    h("div", { class: "toolbar", role: "search", "aria-label": "Log" }, h("label", { for: search.id, class: "sr" }, "Find in the log"), search, found),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Log" }, table), h("div", { class: "table-foot" }, more));
  let wanted = STEP;
  let known = [];
  let last = "";

  async function correct(event) {
    const metrics = metricsOf(event);
    const several = metrics.length > 1;
    const told = several ? metrics.map((metric) => exact(event.values[metric])) : [exact(event.value)];
    const values = valueBoxes(metrics, {
      words: (metric) => context.status.results[metric], single: "Right value", partly: several, placeholders: several ? told : [""],
    });
    const save = (value, reason) => recordTyped(context.base, { told: [{ test: event.test, value }] },
      async () => post(`${context.base}/correct`, { test: event.test, value, reason, holder: await signature() }));
    const recorded = several ? [": recorded as ", metrics.map((metric, k) => [k ? ", " : "", named(metric), ` ${told[k]}`]), ". What you leave empty stays as it is."]
      : `: recorded as ${told[0]}.`;
    const corrected = await askCorrection([`Test ${event.test}, `, testWords(event), recorded], values, save);
    // The log may have been drawn anew behind the dialog, and the button that had the focus with it.
    if (document.activeElement === document.body) {
      body.querySelector(`[data-key="${CSS.escape(keyOf(event))}"]`)?.focus({ preventScroll: true });
    }
    if (corrected) {
      announce(`Test ${event.test} is corrected`);
      await context.refresh();
    }
  }

  function row(event) {
    const can = ["told", "given", "corrected"].includes(event.kind) && event.test !== null && !context.status.archived;
    return h("tr", {},
      h("td", { class: "nowrap" }, time(event.time)),
      h("td", {}, KINDS[event.kind] || event.kind),
      h("td", { class: "num" }, event.test ?? ""),
      h("td", {}, event.arm ? testWords(event) : ""),
      h("td", { class: "num" }, valueWords(event)),
      h("td", {}, event.holder ? named(event.holder) : ""),
      h("td", { class: "reason" }, h("bdi", {}, event.detail || "")),
      h("td", {}, can ? h("button", { class: "small", "data-needs": "work", "data-key": keyOf(event), onclick: () => correct(event) },
        "Correct", h("span", { class: "sr" }, ` test ${event.test}`)) : ""));
  }

  const panel = {
    element,
    update() {},
    wanted: () => wanted,
    onMore: () => {},
    show(events) {
      const key = JSON.stringify([events.length, events.at(-1), context.status.archived, search.value]);
      if (key === last) return;
      last = key;
      known = events;
      const rows = [...events].reverse().map(row);
      const sought = search.value.trim().toLowerCase();
      const chosen = sought ? rows.filter((one) => one.textContent.toLowerCase().includes(sought)) : rows;
      keepingFocus(table, () => replace(body, chosen));
      more.hidden = events.length < wanted || wanted >= MOST;
      replace(found, sought ? `${plural(chosen.length, "entry", "entries")} of the ${more.hidden ? "" : "newest "}${count(rows.length)}` : "");
    },
  };
  search.addEventListener("input", () => {
    // What is sought may lie further back than what is shown.
    if (search.value && wanted < MOST && !more.hidden) { wanted = MOST; panel.onMore(); }
    panel.show(known);
  });
  more.addEventListener("click", () => {
    wanted = Math.min(MOST, wanted * 4);
    panel.onMore();
  });
  return panel;
}
