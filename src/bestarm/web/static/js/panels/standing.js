// The first card: what we know, what is open, how long it will take, whether the data is healthy, what to do now.

import { h, named, replace, sentence } from "../library/dom.js";
import { shareBar } from "../library/bars.js";
import { lacking, whatToDo } from "../library/todo.js";
import { noun, nounOf } from "../library/nouns.js";
import { visitorName } from "../library/visitor.js";
import { healthPanel } from "./health.js";
import {
  about, ageWords, certainWords, count, evidenceWords, isAbout, isDecided, isVoid, number, plural, roughly,
} from "../library/words.js";

const MOST_OPEN = 3;

/** What a certificate is about, by name. */
function subject(question) {
  if (question.kind === "rival") return [named(question.arm), " against ", named(question.against)];
  return question.metric === null ? [named(question.arm)] : [named(question.metric), " of ", named(question.arm)];
}

/** A question takes no more tests than are to go `inAll`. */
function openItem(question, inAll) {
  const tests = Math.min(question.tests ?? Infinity, inAll);
  const words = tests === Infinity ? "no end in sight" : `about ${plural(roughly(tests), "test")}`;
  return h("li", {}, h("span", { class: "open-what" }, subject(question)), shareBar(question.share),
    h("span", { class: "open-tests" }, words));
}

function knownWords(status) {
  if (status.known) return sentence(`${status.known}.`, [status.leader]);
  // What is worse is out only once that which it is worse than is certain to be feasible.
  const worse = isVoid(status) ? 0 : status.arms.filter((arm) => arm.verdict === "worse").length;
  const than = status.tolerance ? "not better than another by more than the tolerance" : "worse than another";
  const open = worse ? `No ${nounOf(status).one} is out yet. ${count(worse)} ${worse === 1 ? "is" : "are"} ${than}, of which it is not certain yet that it is feasible.` : "Nothing is certain yet.";
  return certainWords(status).trim() || (status.tests ? open : "Nothing yet: there are no results.");
}

/** Whether it can be simulated how the study goes on: that takes a result of every metric of every arm. */
const isForeseeable = (status) => status.arms.every((arm) => arm.metrics.every((metric) => metric.tests > 0));

/** How long it will take, and what the budget leaves. */
function durationWords(status, forecast) {
  const left = status.budget_left ? ` The budget leaves ${status.budget_left}.` : "";
  return [...forecastWords(status, forecast), left];
}

function forecastWords(status, forecast) {
  const { plan } = status;
  if (isDecided(status)) {
    const { tests, cost } = status.conclusion ?? status;
    const after = status.tests > tests ? `; ${count(status.tests - tests)} more came after the decision` : "";
    return [`It took ${plural(tests, "test")}, at a cost of ${number(cost)}${after}.`];
  }
  if (status.state === "budget_spent") {
    const lacks = lacking(status);
    return ["The budget is spent.", lacks === null ? "" : ` The open questions lack about ${plural(roughly(lacks), "more test", "more tests")}.`];
  }
  if (!isForeseeable(status)) return [`Not known yet: a forecast needs a result of every metric of every ${nounOf(status).one}.`];
  if (forecast === null) return ["Not known."];
  if (forecast === undefined || !isAbout(forecast, status)) return ["Being simulated …"];
  const age = ageWords(forecast, status);
  if (forecast.state === "too early") return [`Too early to say: there are only a few results of each metric.${age}`];
  const [arm, share] = Object.entries(forecast.answers || {}).sort((a, b) => b[1] - a[1])[0] ?? [null, 0];
  const times = (part) => count(Math.round(part * forecast.runs));
  const stopped = forecast.at_budget ? ` ${times(forecast.at_budget)} of ${count(forecast.runs)} simulations stop at the budget without an answer.` : "";
  const ends = arm === null ? stopped : [" Likely answer: ", arm === "none" ? `no feasible ${nounOf(status).one}` : named(arm),
    `, with which ${times(share)} of ${count(forecast.runs)} simulations end; that is a forecast, not evidence.${stopped}`];
  if (forecast.median_tests === null) {
    return [forecast.at_budget ? "Probably more tests to go than the budget leaves." : "Very long: most simulated continuations did not end.", ends, age];
  }
  const far = forecast.at_budget ? "9 in 10: more than the budget leaves" : "1 in 10: far more";
  const nine = forecast.p90_tests === null ? far : `9 in 10: at most ${about(forecast.p90_tests)}`;
  const { blocks } = plan;
  const full = blocks ? `, ${plural(Math.ceil(forecast.median_tests / blocks.size), blocks.name, noun(blocks.name).many)},` : "";
  return [`About ${plural(roughly(forecast.median_tests), "test")}${full} to go (${nine}).`, ends, age];
}

/** `free(test)` frees a test, `giveUp(test)` gives it up, `save()` makes a button that downloads the report, `extend(tests)` offers a larger budget. */
export function standingPanel(context, { free, giveUp, save, extend }) {
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

  const row = (kind, title, ...content) => h("div", { class: `row ${kind}` }, h("dt", {}, title), h("dd", {}, ...content));
  const judges = h("div", {});
  const judged = row("judged", "What are the judges worth?", judges);
  const element = h("div", { class: "standing" },
    h("dl", {},
      row("know", "What do we know?", known, waiting),
      row("open", "What is still open?", progress, open, more, nothing),
      row("long", "How long will it take?", long),
      judged, row("healthy", "Is the data healthy?", health.element),
      row("now", "What should I do now?", now)));
  let forecast;
  let tests = [];

  function drawOpen(status) {
    const isOver = isDecided(status);
    const questions = isOver ? [] : status.open;
    replace(progress, questions.length ? [shareBar(status.progress), h("span", { class: "muted small" }, evidenceWords(status))] : null);
    progress.hidden = !questions.length;
    open.hidden = !questions.length;
    const inAll = (forecast && isAbout(forecast, status) && forecast.median_tests) || Infinity;
    const items = questions.map((question) => openItem(question, inAll));
    replace(open, items.slice(0, MOST_OPEN));
    replace(rest, items.slice(MOST_OPEN));
    more.hidden = questions.length <= MOST_OPEN;
    restTitle.textContent = `${count(questions.length - MOST_OPEN)} more`;
    nothing.hidden = questions.length > 0;
    replace(nothing, isOver ? (isVoid(status) ? "Whether this is right: the study has stopped, on results that prove nothing." : "Nothing.") : !status.tests ? `Everything: every ${nounOf(status).one} can be the answer.`
      : status.candidates.length ? `${nounOf(status).counted(status.candidates.length)} can still be the answer.` : "What the answer is.");
  }

  function drawJudges(status) {
    const known = status.judges ?? [];
    judged.hidden = !known.length;
    replace(judges, known.map((one) => [
      h("p", {}, named(one.judge), one.agreement === null ? ": " : " ", one.words, "."),
      one.bias_words ? h("p", { class: "muted small" }, "Its mean score, less that of ", named(one.metric), `: ${one.bias_words}.`) : null]));
  }

  function drawNow() {
    const { status } = context;
    const words = h("p", {}, whatToDo(status, { tests, visitor: visitorName(), free, giveUp, save: save(), extend }));
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
    replace(long, [...durationWords(status, forecast), status.endless ? sentence(` ${status.endless}.`, []) : ""]);
    long.classList.toggle("comes-late", status.state === "running" && isForeseeable(status));
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
      drawJudges(status);
      drawNow();
    },
    showForecast(found) {
      // Nothing was simulated as long as results were lacking. Once they are there, it is under way.
      forecast = found ?? (isForeseeable(context.status) ? null : undefined);
      drawOpen(context.status);
      drawForecast(context.status);
    },
    showPending(found) {
      tests = found;
      drawNow();
    },
  };
}
