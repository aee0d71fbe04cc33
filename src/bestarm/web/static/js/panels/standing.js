// The first card: what we know, what is open, how long it will take, whether the data is healthy, what to do now.

import { h, named, replace, sentence } from "../library/dom.js";
import { confidenceBar, shareBar } from "../library/bars.js";
import { lacking, whatToDo } from "../library/todo.js";
import { visitorName } from "../library/visitor.js";
import { healthPanel } from "./health.js";
import {
  about, ageWords, certainWords, count, isAbout, isDecided, isVoid, number, percent, plural, promised, roughly,
} from "../library/words.js";

const MOST_OPEN = 3;

/** What a certificate is about, by name. */
function subject(question) {
  if (question.kind === "rival") return [named(question.arm), " against ", named(question.against)];
  return question.metric === null ? [named(question.arm)] : [named(question.metric), " of ", named(question.arm)];
}

function openItem(question) {
  const words = question.tests === null ? "no end in sight" : `about ${plural(roughly(question.tests), "test")}`;
  return h("li", {}, h("span", { class: "open-what" }, subject(question)), shareBar(question.share),
    h("span", { class: "open-tests" }, words));
}

/** What takes longest first. */
const longest = (open) => [...open].sort((a, b) => (b.tests ?? Infinity) - (a.tests ?? Infinity) || 0);

function knownWords(status) {
  if (status.known) return sentence(`${status.known}.`, [status.leader]);
  return certainWords(status).trim() || (status.tests ? "Nothing is certain yet." : "Nothing yet: there are no results.");
}

/** Whether it can be simulated how the study goes on: that takes a result of every metric of every arm. */
const isForeseeable = (status) => status.arms.every((arm) => arm.metrics.every((metric) => metric.tests > 0));

/** How long it will take. */
function durationWords(status, forecast) {
  const { plan } = status;
  if (isDecided(status)) return [`It took ${plural(status.tests, "test")}, at a cost of ${number(status.cost)}.`];
  if (status.state === "budget_spent") {
    const lacks = lacking(status);
    return ["The budget is spent.", lacks === null ? "" : ` The open questions lack about ${plural(roughly(lacks), "more test", "more tests")}.`];
  }
  if (!isForeseeable(status)) return ["Not known yet: a forecast needs a result of every metric of every arm."];
  if (forecast === null) return ["Not known."];
  if (forecast === undefined || !isAbout(forecast, status)) return ["Being simulated …"];
  const age = ageWords(forecast, status);
  if (forecast.state === "too early") return [`Too early to say: there are only a few results of each metric of each arm.${age}`];
  const [arm, share] = Object.entries(forecast.answers || {}).sort((a, b) => b[1] - a[1])[0] ?? [null, 0];
  const ends = arm === null ? "" : [` ${count(Math.round(share * forecast.runs))} of ${count(forecast.runs)} simulated continuations end with `,
    arm === "none" ? "no feasible arm" : named(arm), "."];
  if (forecast.median_tests === null) {
    return [plan.budget ? "Long: most simulated continuations do not end within the budget." : "Very long: most simulated continuations did not end.", ends, age];
  }
  const nine = forecast.p90_tests === null ? "1 in 10: far more" : `9 in 10: at most ${about(forecast.p90_tests)}`;
  return [`About ${plural(roughly(forecast.median_tests), "test")} to go (${nine}).`, ends, age];
}

/** `free(test)` frees a test, `save()` makes a button that downloads the report, `extend(tests)` offers a larger budget. */
export function standingPanel(context, { free, save, extend }) {
  const health = healthPanel();
  const known = h("p", { class: "known" });
  const waiting = h("p", { class: "muted small" });
  const progress = h("div", { class: "open-all" });
  const open = h("ul", { class: "open-list" });
  const restTitle = h("summary", {});
  const rest = h("ul", { class: "open-list" });
  const more = h("details", { class: "open-more" }, restTitle, rest);
  const nothing = h("p", {});
  // It comes late and has its room from the start, so that nothing below moves then.
  const long = h("p", { class: "late" });
  const now = h("p", { class: "todo" });
  const sure = h("div", { class: "sure-bar" });
  const sureWords = h("p", { class: "muted small" });
  const single = h("details", { class: "sure-details" }, h("summary", {}, "How sure we are as one number"), sure, sureWords);

  const row = (kind, title, ...content) => h("div", { class: `row ${kind}` }, h("dt", {}, title), h("dd", {}, ...content));
  const element = h("div", { class: "standing" },
    h("dl", {},
      row("know", "What do we know?", known, waiting),
      row("open", "What is still open?", progress, open, more, nothing),
      row("long", "How long will it take?", long),
      row("healthy", "Is the data healthy?", health.element),
      row("now", "What should I do now?", now)),
    single);
  let forecast;
  let tests = [];

  function drawOpen(status) {
    const isOver = isDecided(status);
    const questions = isOver ? [] : longest(status.open);
    replace(progress, questions.length ? [shareBar(status.progress), h("span", { class: "muted small" }, `${Math.floor(100 * status.progress)}% of the evidence needed`)] : null);
    progress.hidden = !questions.length;
    open.hidden = !questions.length;
    replace(open, questions.slice(0, MOST_OPEN).map(openItem));
    replace(rest, questions.slice(MOST_OPEN).map(openItem));
    more.hidden = questions.length <= MOST_OPEN;
    restTitle.textContent = `${count(questions.length - MOST_OPEN)} more`;
    nothing.hidden = questions.length > 0;
    replace(nothing, isOver ? (isVoid(status) ? "Whether this is right: the policy has stopped, on results that prove nothing." : "Nothing.") : !status.tests ? "Everything: every arm can be the answer."
      : status.candidates.length ? `${plural(status.candidates.length, "arm")} can still be the answer.` : "What the answer is.");
  }

  function drawNow() {
    const { status } = context;
    const words = h("p", {}, whatToDo(status, { tests, visitor: visitorName(), free, save: save(), extend }));
    // A button that is made anew while it is pressed would do nothing.
    if (words.textContent !== now.textContent) replace(now, [...words.childNodes]);
    replace(waiting, waitingWords(status));
    waiting.hidden = !waiting.textContent;
  }

  function waitingWords(status) {
    if (!status.waiting || !status.awaited) return "";
    return `${plural(status.waiting, "result")} recorded but not counted in what this page shows: waiting for test ${status.awaited.test}.`;
  }

  function drawForecast(status) {
    replace(long, durationWords(status, forecast));
    long.classList.toggle("comes-late", status.state === "running" && isForeseeable(status));
  }

  function drawSure(status) {
    single.hidden = isDecided(status) || isVoid(status) || !status.tests;
    const target = 1 - status.plan.delta;
    replace(sure, confidenceBar(status.confidence, target));
    replace(sureWords, `${percent(status.confidence)}, with ${promised(status.plan.delta)} asked for: one minus the least chance of error at which ${status.leader === null ? "this" : "the leader"} would be certified now. It holds at any time and says little about progress: it stays near 0 until what lacks most has almost all its evidence, and falls when another arm takes the lead.`);
  }

  // Times grow without anything being recorded.
  setInterval(() => { if (!document.hidden && !now.contains(document.activeElement)) drawNow(); }, 2000);

  return {
    element,
    update(status) {
      replace(known, knownWords(status));
      drawOpen(status);
      drawForecast(status);
      health.update(status);
      drawSure(status);
      drawNow();
    },
    showForecast(found) {
      // Nothing was simulated as long as results were lacking. Once they are there, it is under way.
      forecast = found ?? (isForeseeable(context.status) ? null : undefined);
      drawForecast(context.status);
    },
    showPending(found) {
      tests = found;
      drawNow();
    },
  };
}
