// The tests that are out, as a grid of boxes for their results; asking for more, giving up and making again.

import { download, get, post } from "../library/api.js";
import { announce, h, named, newId, setText } from "../library/dom.js";
import { askReason, GIVING_UP, MAKING_AGAIN, recordTyped, signature } from "../library/dialogs.js";
import { draftsOf } from "../library/drafts.js";
import { typed } from "../library/fields.js";
import { moveAsInSheet, pasteTargets } from "../library/grid.js";
import { TOGETHER } from "../library/measuring.js";
import { hasComma, pastedRows } from "../library/numbers.js";
import { testNumbers } from "../library/todo.js";
import { cellList, savedCell, testCell } from "./cells.js";
import { printSheet } from "./sheet.js";
import { rememberVisitor, tokenName, typedName, visitorName } from "../library/visitor.js";
import { count, overWords, plural } from "../library/words.js";

const AT_ONCE = 100;
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

/** The form that asks for tests. `onAsked(tests)` is called with those that were handed out. */
function askingForm(context, complain, onAsked) {
  const { blocks } = context.status.plan;
  const number = h("input", { id: newId("n"), inputmode: "numeric", autocomplete: "off", value: "1", class: "tiny" });
  const who = h("input", { id: newId("who"), value: typedName(), autocomplete: "name", maxlength: 100, class: "name-box" });
  who.addEventListener("change", () => rememberVisitor(who.value));
  const days = h("input", { id: newId("days"), inputmode: "decimal", placeholder: "no limit", class: "tiny", autocomplete: "off" });
  const ask = h("button", { id: "ask", class: "primary" }, blocks ? `Ask for the next ${blocks.name}` : "Ask for tests");
  const asking = h("form", { class: "inline asking", "data-needs": "work" },
    tokenName() ? h("p", { class: "field" }, h("span", { class: "label" }, "Your name"), h("span", { class: "as-typed" }, named(tokenName()), h("span", { class: "muted small" }, " as you are signed in")))
      : h("div", { class: "field" }, h("label", { for: who.id }, "Your name"), who),
    blocks ? null : h("div", { class: "field" }, h("label", { for: number.id }, "How many"), number),
    h("div", { class: "field" }, h("label", { for: days.id }, "Back in (days)"), days),
    ask);

  asking.addEventListener("submit", async (event) => {
    event.preventDefault();
    complain(null);
    if (!tokenName()) rememberVisitor(who.value);
    ask.disabled = true;
    try {
      const terms = days.value.trim() ? { days: typed(days.value) } : {};
      const answer = await post(`${context.base}/ask`, { ...(blocks ? { block: true } : { n: typed(number.value) }), holder: await signature(), ...terms });
      if (answer.tests.length) announce(`${plural(answer.tests.length, "test")} to make`);
      else if (!answer.done) announce("Nothing to test now: wait for results that are out");
      await context.refresh();
      if (answer.done) announce(overWords(context.status));
      onAsked(answer.tests);
    } catch (error) {
      complain(error);
    }
    ask.disabled = Boolean(context.status.archived);
  });
  return { element: asking, ask };
}

export function pendingPanel(context) {
  const { blocks } = context.status.plan;
  const words = (metric) => context.status.results[metric];
  const drafts = draftsOf(context.status);
  const cells = new Map();
  const saved = new Map();
  const lists = new Map();
  let tests = [];
  let waiting = [];
  let out = 0;
  let shown = Math.max(AT_ONCE, blocks?.size ?? 0);

  const problem = h("p", { class: "error", role: "alert" });
  const wrong = h("p", { class: "error", role: "alert" });
  const lost = h("p", { class: "muted", role: "status" });
  const complain = (error) => { setText(problem, error ? error.message : ""); };
  const { element: asking, ask } = askingForm(context, complain, (asked) => { if (asked.length) cells.get(asked[0].id)?.values.first.focus(); });
  const area = h("div", { class: "flight" });
  const tell = h("button", { class: "primary", type: "submit", "data-needs": "work" }, "Save results");
  const unsaved = h("p", { class: "unsaved" });
  // Hidden until there is a test: a page that grows shorter moves buttons under the pointer.
  const form = h("form", { class: "results", novalidate: true, hidden: true }, area, h("div", { class: "save-bar", "data-needs": "work" }, tell, unsaved, wrong));
  const note = h("p", { class: "muted" }, "No test is out.");
  // Twice as many at every press: thousands of tests are a few presses away.
  const more = h("button", { hidden: true, onclick: () => { shown *= 2; panel.onMore(); } }, "Show more");
  const print = h("button", { onclick: () => printAll() }, "Print a sheet");
  const excel = h("button", { onclick: () => saveSheet() }, "Excel sheet");
  const choose = h("button", { "data-needs": "work", "aria-expanded": "false", onclick: () => choosing(chooser.hidden) }, "Give up or make again");
  const tools = h("div", { class: "buttons", hidden: true }, choose, excel, print);
  const chosen = h("span", { role: "status" });
  const buttons = { fail: h("button", { class: "small", onclick: () => end("fail") }, "Make again"), abandon: h("button", { class: "small", onclick: () => end("abandon") }, "Give up") };
  const chooser = h("div", { class: "chooser", role: "group", "aria-label": "Tests that have no result to enter", hidden: true, "data-needs": "work" },
    chosen, buttons.fail, buttons.abandon,
    h("button", { class: "small quiet", onclick: () => pickAll(true) }, "Choose all"), h("button", { class: "small quiet", onclick: () => choosing(false) }, "Cancel"));
  const element = h("div", { class: "card" }, h("h3", {}, "Tests that are out"), asking, problem,
    h("div", { class: "flight-head" }, note, tools), chooser, lost, form, more);

  /** A sheet with all tests that are out, to be filled in where they are made. */
  async function printAll() {
    complain(null);
    try {
      printSheet(context.status, await readPending(context.base, Infinity));
    } catch (error) {
      complain(error);
    }
  }

  /** A sheet to fill in with a spreadsheet, which "From a file" takes back. */
  async function saveSheet() {
    complain(null);
    try {
      await download(`${context.base}/sheet?format=xlsx`);
    } catch (error) {
      complain(error);
    }
  }

  // ------------------------------------------------------------------------------------------- typing and pasting

  const cellOf = (input) => [...cells.values()].find((cell) => cell.values.boxes.some((box) => box.input === input));

  function noteTyped(cell) {
    drafts.keep(cell.id, cell.values.texts());
    sayUnsaved();
  }

  function sayUnsaved() {
    const typedIn = [...cells.values()].reduce((sum, { values }) => sum + values.filled(), 0);
    setText(unsaved, typedIn ? `${plural(typedIn, "value")} not saved yet; kept in this browser` : "");
  }

  area.addEventListener("input", (event) => {
    const cell = cellOf(event.target);
    if (cell) noteTyped(cell);
  });
  drafts.onChange((test) => {
    const cell = cells.get(test);
    if (!cell || cell.element.contains(document.activeElement)) return;
    cell.values.restore(drafts.find(test));
    sayUnsaved();
  });

  // Enter in the last box saves when all are filled in, and otherwise leads to what is missing.
  moveAsInSheet(area, () => {
    const empty = [...cells.values()].flatMap((cell) => cell.values.boxes).find((box) => box.input.value.trim() === "");
    if (empty) empty.input.focus();
    else form.requestSubmit(tell);
  });

  /** Fill in cells that were copied from a spreadsheet: a column, or a rectangle, from the box it is pasted into. */
  area.addEventListener("paste", (event) => {
    const rows = pastedRows(event.clipboardData?.getData("text") ?? "");
    const first = cellOf(event.target);
    if (!first || (rows.length < 2 && rows[0].length < 2)) return;
    event.preventDefault();
    setText(wrong, "");
    const k = first.values.boxes.findIndex(({ input }) => input === event.target);
    const { found, asPlate } = pasteTargets(rows, inOrder(), first, k);
    const commas = found.some(({ text }) => hasComma(text));
    const outside = found.filter(({ cell, box }) => !cell || box >= cell.metrics.length);
    const other = found.filter((one) => one.cell?.isSaved && !outside.includes(one) && !one.cell.says(one.text, one.box, commas));
    if (outside.length || other.length) {
      setText(wrong, outside.length
        ? `Nothing was filled in: ${count(outside.length)} of the ${count(found.length)} pasted values have no box. Copy as many rows as there are tests from this one on, and no other columns.`
        : `Nothing was filled in: ${other.map(({ cell }) => cell.well.place).join(", ")} ${other.length === 1 ? "is" : "are"} saved with another value. Correct saved values in the log.`);
      return;
    }
    const filled = found.filter(({ cell }) => !cell.isSaved);
    for (const { text, cell, box } of filled) {
      cell.values.boxes[box].input.value = text;
      cell.values.boxes[box].mark(null);
      noteTyped(cell);
    }
    const order = first.well?.row ? asPlate ? ", as they lie on the plate" : ", in the order of the list: row by row" : "";
    announce(`${plural(filled.length, "value")} filled in${order}`);
    filled.at(-1)?.cell.values.boxes[filled.at(-1).box].input.focus();
  });

  // ---------------------------------------------------------------------------------------------------- saving

  function focusWrong() {
    const said = area.querySelector(".cell > .error:not(:empty)");
    (area.querySelector("[aria-invalid]") ?? said?.closest(".cell").querySelector("input.value"))?.focus();
  }

  /** Which values are wrong and why is said beside each; here, that there are any. */
  function sayWrong() {
    const marked = area.querySelectorAll("[aria-invalid]").length;
    setText(wrong, `Nothing is saved: look at ${marked > 1 ? `the ${count(marked)} boxes` : "the box"} marked in red.`);
    focusWrong();
  }

  /** Put what the service says about results, sent for these cells, beside them. Whether any of it could be. */
  function markAll(error, sent) {
    const placed = (error.complaints ?? []).map((one) => {
      const place = /^(?:results|told)\[(\d+)\]/.exec(one.field || "");
      const cell = place ? sent[Number(place[1])] : cells.get(one.field === "test" ? one.value : null);
      return { one, cell, box: cell?.values.about(one) };
    });
    for (const { one, cell, box } of placed) {
      if (box) box.mark(one.reason);
      else cell?.mark(one.sentence);
    }
    return placed.some(({ cell }) => cell);
  }

  /** What the service would refuse of values that can be read, while others cannot: all is said at once. */
  async function checkOthers(readable, commas) {
    try {
      if (readable.length) await post(`${context.base}/check-far`, { told: resultsOf(readable, commas), holder: visitorName() || undefined });
    } catch (error) {
      if (error.kind !== "far value") markAll(error, readable);
    }
  }

  const resultsOf = (given, commas) => given.map((cell) => ({ test: cell.id, value: cell.values.read(commas) }));

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    setText(wrong, "");
    const given = [...cells.values()].filter((cell) => !cell.values.isEmpty());
    for (const cell of cells.values()) cell.mark(null);
    if (!given.length) {
      setText(wrong, "Type at least one result.");
      return;
    }
    // What 1,234 means depends on the others, so each value is read with all of them in view.
    const commas = given.some((cell) => cell.values.hasComma());
    const unread = given.filter((cell) => !cell.values.check(commas));
    for (const cell of unread) if (cell.values.lacksSome()) cell.say(TOGETHER);
    if (unread.length) {
      await checkOthers(given.filter((cell) => !unread.includes(cell)), commas);
      sayWrong();
      return;
    }
    tell.disabled = true;
    try {
      const results = resultsOf(given, commas);
      const isSaved = await recordTyped(context.base, { told: results }, async () => post(`${context.base}/tell`, { results, holder: await signature() }));
      if (isSaved) {
        for (const cell of given) {
          cell.values.clear();
          drafts.forget(cell.id);
        }
        announce(`${plural(results.length, "result")} saved`);
        await context.refresh();
        const next = [...cells.values()][0];
        if (next) next.values.first.focus();
        else ask.focus();
      } else given[0].values.first.focus();
    } catch (error) {
      if (markAll(error, given)) sayWrong();
      else setText(wrong, error.message);
    }
    tell.disabled = Boolean(context.status.archived);
  });

  // ------------------------------------------------------------------------------------- giving up, making again

  const picked = () => [...cells.values()].filter(({ pick }) => pick.checked);

  function sayChosen() {
    const number = picked().length;
    setText(chosen, number ? `${plural(number, "test")} chosen` : "Choose the tests that have no result to enter");
    for (const button of Object.values(buttons)) button.disabled = !number;
  }

  function pickAll(checked) {
    for (const { pick } of cells.values()) pick.checked = checked;
    sayChosen();
  }

  function choosing(isOn) {
    chooser.hidden = !isOn;
    element.classList.toggle("choosing", isOn);
    choose.setAttribute("aria-expanded", String(isOn));
    pickAll(false);
    if (isOn) [...cells.values()][0]?.pick.focus();
    else choose.focus();
  }
  area.addEventListener("change", sayChosen);

  /** Have the chosen tests made again, or give them up, for one reason. */
  async function end(kind) {
    const ids = picked().map(({ id }) => id);
    const [title, explanation, said] = kind === "fail" ? ["Make again", MAKING_AGAIN, "will be handed out again"] : ["Give up", GIVING_UP, ids.length === 1 ? "is given up" : "are given up"];
    const reason = await askReason(`${title}: ${testNumbers(ids)}`, explanation);
    if (reason === null) return;
    try {
      await post(`${context.base}/${kind}`, { tests: ids, reason, holder: await signature() });
      if (kind === "abandon") for (const id of ids) drafts.forget(id);
      const named = testNumbers(ids);
      announce(`${named.charAt(0).toUpperCase()}${named.slice(1)} ${said}`);
      choosing(false);
      await context.refresh();
    } catch (error) {
      complain(error);
    }
  }

  // --------------------------------------------------------------------------------------------------- drawing

  /** All cells in the order of the sheet, those with saved results among them. */
  function inOrder() {
    const blocksOut = new Set([...cells.values()].map(({ well }) => well?.label));
    const beside = blocks ? [...saved.values()].filter(({ well }) => well && blocksOut.has(well.label)) : [];
    return [...cells.values(), ...beside].sort((a, b) => a.id - b.id);
  }

  /** Keep one thing for each of `wanted`, by number, and make what is missing. */
  function keepCells(kept, wanted, make) {
    const ids = new Set(wanted.map(({ id }) => id));
    for (const id of [...kept.keys()]) if (!ids.has(id)) kept.delete(id);
    for (const one of wanted) if (!kept.has(one.id)) kept.set(one.id, make(one));
  }

  /** How many tests are out. Not all of them may have been loaded, and the status may be older than what was. */
  function sayOut() {
    const some = tests.length > shown;
    setText(note, tests.length ? `${plural(some ? Math.max(out, tests.length) : tests.length, "test")} without a result${some ? `; the first ${count(shown)} are shown` : ""}.` : "No test is out.");
  }

  function draw() {
    const wanted = tests.slice(0, shown);
    keepCells(cells, wanted, (test) => {
      const cell = testCell(test, blocks, words);
      cell.values.restore(drafts.find(test.id));
      return cell;
    });
    keepCells(saved, waiting, (result) => savedCell(result, blocks, words));
    for (const test of wanted) cells.get(test.id).test = test;
    const groups = Map.groupBy(inOrder(), ({ well }) => well?.label ?? "");
    for (const [label, list] of lists) {
      if (groups.has(label)) continue;
      list.element.remove();
      lists.delete(label);
    }
    for (const [label, members] of groups) {
      if (!lists.has(label)) {
        lists.set(label, cellList());
        area.append(lists.get(label).element);
      }
      lists.get(label).show(members);
    }
    form.hidden = tests.length === 0;
    tools.hidden = form.hidden;
    more.hidden = tests.length <= shown;
    sayOut();
    sayUnsaved();
    if (!chooser.hidden) sayChosen();
    if (!chooser.hidden && form.hidden) choosing(false);
  }

  /** What was typed for tests that have a result by now, or were given up, is dropped, and said. */
  function dropDrafts() {
    const ids = new Set(tests.map(({ id }) => id));
    const last = tests.length > shown ? tests.at(-1).id : Infinity;
    const gone = drafts.tests().filter((id) => !ids.has(id) && id <= last);
    if (!gone.length) return;
    const typedIn = gone.map((id) => Object.values(drafts.find(id)).join(" and "));
    for (const id of gone) drafts.forget(id);
    setText(lost, `What was typed here and not saved is dropped, because the test has a result by now or was given up: ${gone.map((id, k) => `${typedIn[k]} (test ${id})`).join(", ")}.`);
  }

  setInterval(() => { if (!document.hidden) draw(); }, 30_000);

  const panel = {
    element,
    wanted: () => shown,
    onMore: () => {},
    update(status) {
      const closed = Boolean(status.archived);
      out = status.pending;
      sayOut();
      ask.disabled = closed || status.state !== "running";
      tell.disabled = closed;
    },
    /** `found` are the tests that are out, null if that is not known; `late` the results that wait. */
    show(found, late) {
      tests = found ?? tests;
      // Results that wait for the turn of their items belong to no list of tests that is out.
      waiting = late.filter(({ held }) => !held);
      if (found) dropDrafts();
      draw();
    },
  };
  return panel;
}
