// What to do now, in one sentence with the means to do it.

import { readsOnly } from "./api.js";
import { h, named } from "./dom.js";
import { testWords } from "./measuring.js";
import { noun, nounOf } from "./nouns.js";
import { duration, ENDED, isDecided, isVoid, plural, roughly } from "./words.js";

const SHOWN_AFTER = 4;
const MOST_NUMBERS = 4;

function listed(names) {
  const shown = names.slice(0, MOST_NUMBERS).map(String);
  if (names.length > MOST_NUMBERS) shown.push(`${names.length - MOST_NUMBERS} more`);
  const last = shown.pop();
  return `${shown.length ? `${shown.join(", ")} and ` : ""}${last}`;
}

/** Numbers of tests in words: "test 3", "tests 3 and 4", "tests 3, 4, 5, 6 and 8 more". */
export const testNumbers = (ids) => `${ids.length === 1 ? "test" : "tests"} ${listed(ids)}`;

/** The same for people who measure in blocks, whose numbers they see: "plate 2 and plate 3". */
function whichTests(tests, { blocks }) {
  if (!blocks) return testNumbers(tests.map((test) => test.id));
  return listed([...new Set(tests.map((test) => test.item.replace(/ [^ ]+$/, "")))]);
}

/** A word as a shell takes it. */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\"'\"'")}'`;
}

/** How many tests the open certificates lack together; null if unknown. */
export function lacking(status) {
  return status.open.length && status.tests_left !== null ? Math.max(1, status.tests_left) : null;
}

/** The test that everything waits for, if it needs attention and is not the visitor's own. */
function needsCare(status, visitor) {
  const test = status.awaited;
  if (!test || test.state === "measuring") return false;
  if (test.state === "free") return status.waiting > 0;
  if (ENDED[test.state]) return true;
  // A test that was asked for a moment ago needs no attention yet.
  const isLong = Date.now() / 1000 - test.since > SHOWN_AFTER;
  return test.holder !== visitor && (status.waiting > 0 || (test.state === "overdue" && isLong));
}

/** Whose test it is, for how long, and what to do if its result will not come. */
function care(status, free, giveUp) {
  const test = status.awaited;
  const now = Date.now() / 1000;
  const ago = duration(now - test.since);
  const what = [`test ${test.test} (`, testWords(test), ")"];
  const freeing = [h("button", { class: "small", onclick: () => free(test.test) }, `Free test ${test.test}`), " or ", h("code", {}, test.command)];
  const { blocks } = status.plan;
  const waiting = blocks ? `the results of its ${blocks.name} count, once no other test of it is out` : status.waiting ? `${plural(status.waiting, "result")} that ${status.waiting === 1 ? "waits" : "wait"} for it ${status.waiting === 1 ? "counts" : "count"}` : "later results count";
  const dropping = [h("button", { class: "small", onclick: () => giveUp(test.test) }, `Give up test ${test.test}`), " or ", h("code", {}, test.give_up_command), ` (${waiting}${blocks ? "" : " at once"})`];
  if (test.state === "free") {
    return ["Make ", what, ", which is free: ask for tests. If it will not be made soon: ", dropping];
  }
  if (ENDED[test.state]) {
    return ["Say what ", what, " counts: the attempt of ", named(test.holder), ` ${ENDED[test.state]} ${ago} ago`,
      test.reason ? [": ", h("bdi", {}, test.reason)] : "", ". Type its result below or, if that has nothing to do with results, have it made again: ", freeing];
  }
  const late = test.state === "overdue" ? ` and wanted to tell it ${duration(now - test.due)} ago` : "";
  return ["Wait for ", what, ", which ", named(test.holder), ` has held for ${ago}${late}. If its result will not come: `, dropping, "; to make it again, while they wait for it: ", freeing];
}

/** A link to the first control there is of those named, which gets the focus. */
function leading(words, controls) {
  const go = (event) => {
    const control = controls.map((id) => document.getElementById(id)).find((one) => one && !one.disabled);
    if (!control) return;
    event.preventDefault();
    control.focus();
  };
  return h("a", { href: "#tests", onclick: go }, words);
}

function whenRunning(status, tests, visitor, free, giveUp) {
  const { plan } = status;
  const asking = (words) => leading(words, ["ask"]);
  if (needsCare(status, visitor)) return care(status, free, giveUp);
  const now = Date.now() / 1000;
  const mine = tests.filter((test) => test.holder === visitor && test.expires !== 0 && !test.aside);
  if (mine.length) {
    const late = mine.find((test) => test.due && test.due < now);
    const box = `result-${mine[0].id}`;
    return [leading(mine.length === 1 ? "Enter the result" : "Enter the results", [box, `${box}-1`]), ` of ${whichTests(mine, plan)}`,
      late ? `; you wanted to tell test ${late.id} ${duration(now - late.due)} ago.` : "."];
  }
  const held = tests.filter((test) => test.expires !== 0);
  if (held.length && held.length === tests.length) {
    const who = [...new Set(held.map((test) => test.holder))];
    const by = who.length > 2 ? plural(who.length, "holder") : who.map((name, k) => [k ? " and " : "", named(name)]);
    return [`Wait for ${whichTests(held, plan)}, held by `, by, ", or ", asking("ask for more tests"), "."];
  }
  const ask = plan.blocks ? [asking(`Ask for the next ${plan.blocks.name}`), ", make its tests"] : [asking("Ask for tests"), ", make them"];
  return [ask, `, and enter their results${status.tests ? "" : "; or enter those that you have"}.`];
}

/** What to raise a spent budget by: the unit, in the service's words and in the study's, and how many tests one has. */
export function extension({ plan, blocks, tests }) {
  // Some places of a block may stay empty.
  if (plan.budget?.blocks) return { unit: "blocks", more: `more ${noun(plan.blocks.name).many}`, size: blocks?.made ? tests / blocks.made : plan.blocks.size };
  const unit = ["tests", "cost", "hours"].find((name) => plan.budget?.[name]) ?? "tests";
  return { unit, more: { tests: "more tests", cost: "more cost", hours: "more hours" }[unit], size: unit === "tests" ? 1 : null };
}

function whenSpent(status, save, extend) {
  const lacks = lacking(status);
  const by = extension(status);
  const more = lacks === null || by.size === null ? null : roughly(Math.ceil(lacks / by.size - 1e-6));
  return ["Keep what is known: ", save, ". To go on, raise the budget, which does not weaken the guarantee: ",
    h("span", { "data-needs": "manage" }, h("button", { class: "small", onclick: () => extend(more) }, `Allow ${by.more}`), " or "),
    h("code", {}, `bestarm extend ${quoted(status.study)} --${by.unit} ${more ?? "N"}`),
    more === null ? "" : ", about as many as the open questions lack", "."];
}

/**
 * What to do now. `tests` are those that are out, as far as they are known, `visitor` is who looks; `free(test)` frees
 * one, `giveUp(test)` gives one up, `save` is a button that downloads the report, and `extend(tests)` offers to allow so many more.
 */
export function whatToDo(status, { tests, visitor, free, giveUp, save, extend }) {
  const isDone = isDecided(status);
  const first = isVoid(status) ? "First find out what is wrong with the data. " : "";
  if (status.archived) return ["Nothing: the study is archived. Bring it back to change it."];
  if (!isDone && readsOnly()) return [first, "Wait: your token is read-only; others measure."];
  if (!isDone) return [first, status.state === "budget_spent" ? whenSpent(status, save, extend) : whenRunning(status, tests, visitor, free, giveUp)];
  const out = status.pending ? ` ${plural(status.pending, "test")} without a result ${status.pending === 1 ? "is" : "are"} not needed any more.` : "";
  const other = status.state === "no_feasible_arm" ? ` Other ${nounOf(status).many} or limits need a new study.` : "";
  return [first || "Nothing: the study is done. ", save, other, out];
}
