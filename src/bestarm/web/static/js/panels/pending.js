// The tests that are out: who holds which since when, a box for each result, and asking for more.

import { get, post } from "../library/api.js";
import { announce, h, named, newId, replace, setText } from "../library/dom.js";
import { askReason, recordTyped } from "../library/dialogs.js";
import { typed } from "../library/fields.js";
import { metricsOf, testWords, TOGETHER, valueBoxes } from "../library/measuring.js";
import { printSheet } from "./sheet.js";
import { rememberVisitor, visitorName } from "../library/visitor.js";
import { count, duration, ENDED, plural } from "../library/words.js";

const AT_ONCE = 50;
const IN_ONE_ANSWER = 1000;

/** The first `most` tests that are out, and one more if there is one; the service sends so many in one answer. */
export async function readPending(base, most = AT_ONCE) {
  const found = [];
  while (found.length <= most) {
    const limit = Math.min(most + 1 - found.length, IN_ONE_ANSWER);
    const part = await get(`${base}/pending?after=${found.at(-1)?.id ?? 0}&limit=${limit}`);
    found.push(...part);
    if (part.length < limit) break;
  }
  return found;
}

export function pendingPanel(context) {
  const rows = new Map();
  let tests = [];
  let out = 0;
  let shown = AT_ONCE;

  const number = h("input", { id: newId("n"), type: "number", min: 1, max: 1000, value: "1", class: "tiny" });
  const who = h("input", { id: newId("who"), value: visitorName(), autocomplete: "name", maxlength: 100, class: "name-box" });
  who.addEventListener("change", () => rememberVisitor(who.value));
  const days = h("input", { id: newId("days"), inputmode: "decimal", placeholder: "no limit", class: "tiny", autocomplete: "off" });
  const ask = h("button", { id: "ask", class: "primary" }, "Ask for tests");
  const asking = h("form", { class: "inline asking", "data-needs": "work" },
    h("div", { class: "field" }, h("label", { for: who.id }, "Your name"), who),
    h("div", { class: "field" }, h("label", { for: number.id }, "How many"), number),
    h("div", { class: "field" }, h("label", { for: days.id }, "Back in (days)"), days),
    ask);
  const problem = h("p", { class: "error", role: "alert" });
  const list = h("ul", { class: "flight" });
  const tell = h("button", { class: "primary", type: "submit", "data-needs": "work" }, "Save results");
  // Hidden until there is a test: a page that grows shorter moves buttons under the pointer.
  const form = h("form", { class: "results", novalidate: true, hidden: true }, list, tell);
  const note = h("p", { class: "muted" }, "No test is out.");
  // Twice as many at every press: thousands of tests are a few presses away.
  const more = h("button", { hidden: true, onclick: () => { shown *= 2; panel.onMore(); } }, "Show more");
  const print = h("button", { hidden: true, onclick: printAll }, "Print a sheet");
  const element = h("div", { class: "card" }, h("h3", {}, "In flight"), asking, problem,
    h("div", { class: "flight-head" }, note, print), form, more);

  /** A sheet with all tests that are out, to be filled in where they are made. */
  async function printAll() {
    complain(null);
    try {
      printSheet(context.status, await readPending(context.base, Infinity));
    } catch (error) {
      complain(error);
    }
  }

  function complain(error) {
    problem.textContent = error ? error.message : "";
  }

  asking.addEventListener("submit", async (event) => {
    event.preventDefault();
    complain(null);
    rememberVisitor(who.value);
    ask.disabled = true;
    try {
      const terms = days.value.trim() ? { days: typed(days.value) } : {};
      const answer = await post(`${context.base}/ask`, { n: typed(number.value), holder: visitorName(), ...terms });
      if (answer.tests.length) announce(`${plural(answer.tests.length, "test")} to make`);
      else if (answer.done) announce("The study is done: no more tests are needed");
      else announce("Nothing to test now: wait for results that are out");
      await context.refresh();
      if (answer.tests.length) rows.get(answer.tests[0].id)?.values.first.focus();
    } catch (error) {
      complain(error);
    }
    ask.disabled = Boolean(context.status.archived);
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    complain(null);
    const given = [...rows.values()].filter((row) => !row.values.isEmpty());
    for (const row of rows.values()) row.mark(null);
    for (const row of given) {
      if (!row.values.check()) {
        row.say(TOGETHER);
        return;
      }
    }
    if (!given.length) {
      problem.textContent = "Type at least one result.";
      return;
    }
    tell.disabled = true;
    try {
      const results = given.map((row) => ({ test: row.id, value: row.values.read() }));
      const saved = await recordTyped(context.base, { told: results }, () => post(`${context.base}/tell`, { results, holder: visitorName() }));
      if (saved) {
        for (const row of given) row.values.clear();
        announce(`${plural(results.length, "result")} saved`);
        await context.refresh();
        const next = [...rows.values()][0];
        if (next) next.values.first.focus();
        else ask.focus();
      } else given[0].values.first.focus();
    } catch (error) {
      const place = /results\[(\d+)\]/.exec(error.field || "");
      const about = error.complaints.find((one) => one.field === "test");
      const named = place ? [given[Number(place[1])]] : given;
      const box = error.complaints.flatMap((one) => named.map((row) => row?.values.about(one))).find(Boolean);
      const wrong = (place && given[Number(place[1])]) || rows.get(about?.value) ||
        (given.length === 1 ? given[0] : null);
      if (box) {
        box.mark(error.complaints[0].reason);
        box.input.focus();
      } else if (wrong) wrong.mark(error.message);
      else complain(error);
    }
    tell.disabled = false;
  });

  function makeRow(test) {
    const metrics = metricsOf(test);
    const several = metrics.length > 1;
    const values = valueBoxes(metrics, {
      id: `result-${test.id}`, single: null, described: `result-${test.id}-more`, words: (metric) => context.status.results[metric],
    });
    const wrong = h("p", { class: "error", id: `result-${test.id}-about` });
    const title = [h("span", { class: "sr" }, `Result of test ${test.id}: `), testWords(test, (name) => h("strong", {}, named(name)))];
    const titleId = `result-${test.id}-title`;
    if (several) {
      values.element.removeAttribute("aria-label");
      values.element.setAttribute("aria-labelledby", titleId);
    }
    for (const part of [values.element, values.first, values.boxes[0].hint]) part?.setAttribute("data-needs", "work");
    const held = h("span", { class: "muted small", id: `result-${test.id}-more` });
    const end = async (kind, title, explanation, said) => {
      const reason = await askReason(title, explanation);
      if (reason === null) return;
      try {
        await post(`${context.base}/${kind}`, { test: test.id, reason, holder: visitorName() });
        announce(said);
        await context.refresh();
      } catch (error) {
        row.mark(error.message);
      }
    };
    const what = ` test ${test.id}`;
    const row = {
      id: test.id,
      test,
      values,
      held,
      element: h("li", { class: several ? "several" : null },
        h("div", { class: "what" },
          several ? h("span", { id: titleId }, title) : h("label", { for: values.first.id }, title),
          held),
        several ? values.element : [values.first, values.boxes[0].hint],
        h("div", { class: "buttons", "data-needs": "work" },
          h("button", { type: "button", class: "small", onclick: () => end("fail", `Make test ${test.id} again`, "The attempt failed, or its result will not come: the test is handed out again, and the reason kept in the log. Fair only if that has nothing to do with what the result would have been; otherwise enter the value that a failure counts as.", `Test ${test.id} will be handed out again`) },
            "Make again", h("span", { class: "sr" }, what)),
          h("button", { type: "button", class: "small", onclick: () => end("abandon", `Give up test ${test.id}`, "Its result is no longer expected and will be refused. Fair only if the reason has nothing to do with what the result would have been.", `Test ${test.id} is given up`) },
            "Give up", h("span", { class: "sr" }, what))),
        several ? wrong : values.boxes[0].wrong),
      say: (words) => setText(wrong, words),
      /** Say what is wrong with the test, at its box if there is one. */
      mark(reason) {
        values.unmark();
        row.say(several ? reason || "" : "");
        if (!reason) return;
        if (!several) values.boxes[0].mark(reason);
        values.first.focus();
      },
    };
    return row;
  }

  function since(test) {
    const now = Date.now() / 1000;
    const who = named(test.holder || "no holder");
    const again = test.attempts > 1 ? `, attempt ${test.attempts}` : "";
    const ago = `${duration(now - test.since)}${again}`;
    if (test.expires === 0) return [`Test ${test.id} · free: last held by `, who, again];
    if (test.aside) return [`Test ${test.id} · set aside: the attempt of `, who, ` ${ENDED[test.aside]} ${ago} ago`, test.reason ? [": ", h("bdi", {}, test.reason)] : ""];
    const when = !test.due ? "" : test.due < now ? `; wanted to tell it ${duration(now - test.due)} ago` : `; due in ${duration(test.due - now)}`;
    return [`Test ${test.id} · `, who, ` for ${ago}${test.expires === null ? "" : ", at work"}${when}`];
  }

  function draw() {
    const wanted = tests.slice(0, shown);
    const ids = new Set(wanted.map((test) => test.id));
    for (const [id, row] of rows) {
      if (ids.has(id)) continue;
      row.element.remove();
      rows.delete(id);
    }
    wanted.forEach((test, k) => {
      let row = rows.get(test.id);
      if (!row) {
        row = makeRow(test);
        rows.set(test.id, row);
      }
      row.test = test;
      replace(row.held, since(test));
      if (list.children[k] !== row.element) list.insertBefore(row.element, list.children[k] || null);
    });
    form.hidden = tests.length === 0;
    print.hidden = tests.length === 0;
    more.hidden = tests.length <= shown;
    const all = Math.max(out, tests.length);
    const words = tests.length === 0 ? "No test is out." : `${plural(all, "test")} without a result${tests.length > shown ? `; the first ${count(shown)} are shown` : ""}.`;
    setText(note, words);
  }

  setInterval(() => { if (!document.hidden) draw(); }, 30_000);

  const panel = {
    element,
    wanted: () => shown,
    onMore: () => {},
    update(status) {
      const closed = Boolean(status.archived);
      out = status.pending;
      ask.disabled = closed || status.state !== "running";
      tell.disabled = closed;
    },
    show(found) {
      tests = found;
      draw();
    },
  };
  return panel;
}
