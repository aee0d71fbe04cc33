// Numbers, times and conclusions in words.

import { isolated, named } from "./dom.js";
import { nounOf } from "./nouns.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const digits = [3, 4].map((n) => new Intl.NumberFormat("en", { maximumSignificantDigits: n, useGrouping: true }));

export const count = (n) => (n === null || n === undefined ? "–" : whole.format(n));

/** Enough digits to distinguish numbers of this size at this distance: two more than they have in common. */
function digitsFor(size, spread, least) {
  if (!(size > 0 && spread > 0 && Number.isFinite(spread))) return least;
  return Math.min(Math.max(least, Math.floor(Math.log10(size)) - Math.floor(Math.log10(spread)) + 2), 17);
}

/** A measured number with three or four digits that count, or as many as show a `spread`. */
export function number(x, significant = 4, spread = 0) {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  const needed = digitsFor(size, spread, significant);
  if (needed > Math.max(significant, 6)) return String(Number(x.toPrecision(needed)));
  if (size !== 0 && (size < 1e-6 || size >= 1e9)) return x.toExponential(2);
  if (size === 0) return "0";
  return size >= 1e3 ? whole.format(x) : digits[significant - 3].format(x).replace(/^-0$/, "0");
}

/** The ends of an interval, as finely as its width deserves. */
function range(low, high) {
  const ends = [low, high];
  if (low !== null && high !== null && high > low) {
    const step = 10 ** (Math.floor(Math.log10(high - low)) - 2);
    ends.forEach((end, k) => { ends[k] = Math.round(end / step) * step || 0; });
  }
  return ends.map((end) => (end === null ? "no limit" : number(end, 4, (high ?? end) - (low ?? end))));
}

/** An interval in words, its ends joined by `word`. */
export function interval(low, high, word) {
  return low === null && high === null ? "no interval" : range(low, high).join(` ${word} `);
}

/** A number exactly as the user gave it. */
export const exact = (x) => (x === null || x === undefined ? "–" : String(x));

const rounded = (n) => (n < 100 ? Math.round(n) : Number(n.toPrecision(n < 1e4 ? 2 : 3)));

/** Whether the study is still of the kind that was simulated: the same plan and past, and the same arms left. */
export const isAbout = (forecast, status) => forecast.basis === status.basis;

/** How many results have been counted that the forecast does not know; empty if there are none. */
export function ageWords(forecast, status) {
  const newer = status.tests - status.waiting - forecast.after;
  return newer > 0 ? ` Forecast of ${plural(newer, "result")} ago.` : "";
}

/** A forecast is no better than two or three digits. */
export const about = (n) => count(rounded(n));

/** A number of tests as good as a forecast of it, at least one. */
export const roughly = (n) => Math.max(1, rounded(Math.ceil(n)));

export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** A share in per cent, rounded down: what is not certain is never called 100%. */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const per = 100 * share + 1e-9;
  if (share < 0.01) return "under 1%";
  return `${per > 99 && per < 100 ? Math.floor(per * 10) / 10 : Math.floor(per)}%`;
}

/** A share in percent, as the user gave it. */
export const percentOf = (share) => `${parseFloat((100 * share).toPrecision(10))}%`;

/** 1 − δ as the user gave δ. */
export function promised(delta) {
  return `${parseFloat((100 * (1 - delta)).toPrecision(10))}%`;
}

const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
export const dateTime = (seconds) => (seconds === null || seconds === undefined ? "–" : moment.format(seconds * 1000));

export const date = (seconds) => (seconds === null || seconds === undefined ? "–" : day.format(seconds * 1000));

/** A time of day, or the date with it if it is not today. */
export function time(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const then = new Date(seconds * 1000);
  return then.toDateString() === new Date().toDateString() ? clock.format(then) : moment.format(then);
}

export function duration(seconds) {
  if (seconds < 60) return plural(Math.max(1, Math.round(seconds)), "second");
  if (seconds < 5400) return plural(Math.round(seconds / 60), "minute");
  if (seconds < 129600) return plural(Math.round(seconds / 3600), "hour");
  return plural(Math.round(seconds / 86400), "day");
}

export const STATES = {
  running: "running",
  certified: "certified",
  no_feasible_arm: "certified: none feasible",
  budget_spent: "budget spent",
  void: "guarantee void",
};

/** Whether the policy has stopped. Whether its answer is guaranteed is another question. */
export const isDecided = (study) => ["certified", "no_feasible_arm", "void"].includes(study.state);

/** Why no more tests are made. */
export const overWords = (study) => (isDecided(study) ? "The study is done: no more tests are needed." : "The budget is spent, and there is no answer: no more tests are made until it is raised.");

/** Whether the results contradict what the guarantee rests on. */
export const isVoid = (study) => study.guarantee === "void";

/** The class and the words of a study's badge; amber if the guarantee is void, in any state. */
export function stateBadge(study) {
  const state = STATES[study.state] || "…";
  const words = isVoid(study) && study.state !== "void" ? `${state}, ${STATES.void}` : state;
  return { class: `badge ${isVoid(study) ? "void" : study.state}`, words: study.archived ? "archived" : words };
}

const MOST_REASONS = 2;

/** Why the guarantee is void; nothing if it is not. */
function voidWords(study) {
  if (!isVoid(study)) return "";
  const because = study.void_because;
  const more = because.length > MOST_REASONS ? [`and ${count(because.length - MOST_REASONS)} more`] : [];
  return `; the guarantee is void, because ${[...because.slice(0, MOST_REASONS), ...more].join("; ")}`;
}

/** Those that can be the answer first. */
export const VERDICTS = ["feasible", "open", "worse", "infeasible", "baseline", "retired"];
/** Those of arms that are not part of the question. */
export const ASIDE = ["baseline", "retired"];
export const VERDICT_WORDS = {
  feasible: "Feasible: satisfies every constraint",
  open: "Open: not decided yet",
  worse: "Worse: beaten by another",
  infeasible: "Infeasible: violates a constraint",
  baseline: "Baseline: sets the limits of the others",
  retired: "Retired: no longer part of the question",
};

/** What an arm is whose constraints are certified. A line of the list says whether there is slack, a study which. */
function feasibleWords(study) {
  const slack = study.slack === true || Object.keys(study.slack || {}).length > 0;
  return slack ? "feasible within its slack" : "feasible";
}

/** What a certified arm is: as good as tolerance and slack ask for. */
function goodWords(study) {
  const best = study.tolerance > 0 ? `within ${exact(study.tolerance)} of the best` : "best";
  return `${feasibleWords(study)} and ${best}`;
}

/** How far a study is: the one measure of progress, wherever it is shown. */
export const evidenceWords = (study) => `${Math.floor(100 * (study.progress ?? 0))}% of the evidence needed`;

/** What is certain without an answer: how many arms are out, in a study or in its line in the list. */
export function certainWords(study) {
  if (isVoid(study)) return "";
  const arms = study.arms?.length ?? study.arms;
  const out = arms - (study.candidates?.length ?? study.left ?? arms);
  const known = [
    study.feasible?.includes(study.leader) ? `it is ${feasibleWords(study)}` : null,
    out > 0 ? `${count(out)} of ${nounOf(study).counted(arms)} ${out === 1 ? "is" : "are"} excluded` : null,
  ].filter(Boolean);
  return known.length ? `Certain: ${known.join(", ")}. ` : "";
}

/** Names in a sentence, not too many of them, as pieces of it. */
function namesOf(names, name) {
  const shown = names.length > 8 ? names.slice(0, 7) : names;
  const last = names.length > 8 ? ` and ${count(names.length - 7)} more` : "";
  return [...shown.map((one, k) => [
    k === 0 ? "" : k === shown.length - 1 && !last ? " and " : ", ", name(one)]).flat(), last].filter((piece) => piece !== "");
}

const SETTLED = { certified: true, no_feasible_arm: true };

/** Where a study stands, as pieces of a headline: text and names. */
function pieces(study, delta, name) {
  const leader = study.leader;
  const far = evidenceWords(study);
  const none = `No ${nounOf(study).one}`;
  // Where every feasible arm is asked for, no arm leads.
  if (study.decided && !(study.state in SETTLED) && study.tests) {
    const spent = study.state === "budget_spent" ? "The budget is spent; " : "";
    return [[`${spent}${study.decided}${voidWords(study)}`], `There is ${far}`];
  }
  switch (study.state) {
    case "certified":
      if (study.answered?.length > 1) {
        return [[namesOf(study.answered, name), `: ${study.claim}, ${promised(delta)} confidence`].flat(), null];
      }
      return [[name(study.answer ?? leader), ` is ${study.claim || goodWords(study)}, ${promised(delta)} confidence`], null];
    case "no_feasible_arm":
      return [[`${study.claim ? `N${study.claim.slice(1)}` : `${none} is feasible`}, ${promised(delta)} confidence`], null];
    case "void":
      return [[leader === null ? `${none} looks feasible` : [name(leader), " leads"], voidWords(study)].flat(), null];
    case "budget_spent": {
      const second = `No answer is certified. ${certainWords(study)}There is ${far}`;
      return leader === null
        ? [[`The budget is spent; n${none.slice(1)} looks feasible${voidWords(study)}`], second]
        : [["The budget is spent; ", name(leader), ` leads${voidWords(study)}`], second];
    }
    case "running":
      if (!study.tests) return [["No results yet"], "Ask for tests, or enter results, to begin"];
      if (study.tests <= (study.waiting ?? 0)) return [["No results count yet"], "The results that are saved wait for others"];
      if (leader === null && Array.isArray(study.arms) && !study.arms.some((arm) => arm.metrics.some((one) => one.tests))) {
        return [["No results count yet"], "The results that are saved count later, when it is their turn"];
      }
      return leader === null
        ? [[`${none} looks feasible so far${voidWords(study)}`], `${certainWords(study)}There is ${far}`]
        : [[name(leader), ` leads${voidWords(study)}`], `${certainWords(study)}There is ${far}`];
    default:
      return [["Being computed …"], null];
  }
}

export function headline(study, delta) {
  const [first, second] = pieces(study, delta, named);
  return { first, second };
}

/** The same for readers: where a study stands, and what is certain. */
export function headlineText(study, delta) {
  const [first] = pieces(study, delta, isolated);
  return first.join("") + (study.known ? `. ${study.known}` : "");
}

/** How an attempt ended, as long as it is not known what it counts as. */
export const ENDED = { failed: "failed", "timed out": "timed out", refused: "gave a value that was refused", lost: "was lost with its process" };

/** Whether arms are asked for by their constraints alone. */
export const ignoresPerformance = (goal) => goal === "any feasible" || goal === "every feasible";

/** What is asked, in the user's words. */
export function question(plan) {
  const objective = plan.objective;
  const constraints = plan.constraints || [];
  // The baseline is not asked about if any or every feasible arm is.
  const asked = plan.arms.map((arm) => arm.name ?? arm)
    .filter((name) => !ignoresPerformance(plan.goal) || plan.rules === 1 || name !== plan.baseline);
  const arms = nounOf(plan).counted(asked.length);
  const limits = [constraints.slice(0, 6).map((part, k) => [
    k === 0 ? "" : k === constraints.length - 1 ? " and " : ", ", named(titleOf(part)), ` ${requirement(part)}`]),
  constraints.length > 6 ? ` and ${constraints.length - 6} more constraints` : ""];
  if (asked.length === 1 && (plan.arms.length === 2 || plan.goal === "every feasible")) return ["Does ", named(asked[0]), " have ", limits, "?"];
  if (plan.goal === "any feasible") return ["Which of ", arms, ", whichever it is, has ", limits, "?"];
  if (plan.goal === "every feasible") return ["Which of ", arms, " have ", limits, "?"];
  const aim = objective.goal === "maximize" ? "largest " : "smallest ";
  const several = plan.top > 1;
  const which = !several ? ["Which of ", arms, " has the "]
    : plan.goal === "top" ? [`Which ${plan.top} of `, arms, " have the "]
      : [`Which short list of at most ${plan.top} of `, arms, " contains the one that has the "];
  const duel = objective.noise === "duel";
  return [which, aim, duel ? "win rate of " : "", named(objective.metric), duel ? ` against ${plan.baseline}` : "", constraints.length ? [" with ", limits] : "", "?"];
}

/** The quantile, or the rate of wins, that a constraint is about, in words; nothing if it is about the mean. */
export function quantile(part) {
  if (part.noise === "duel") return "win rate ";
  const q = part.noise?.quantile;
  if (typeof q !== "number" || !(q > 0 && q < 1)) return "";
  return q === 0.5 ? "median " : `${parseFloat((100 * q).toPrecision(10))}% quantile `;
}

/** What a part of a plan is about: a metric, or one divided by another. */
export const titleOf = (part) => `${part.per ? `${part.metric} per ${part.per}` : part.metric}${onSlice(part)}`;

/** Which items a limit is about, if not all. */
const onSlice = ({ where }) => (where ? ` where ${Object.entries(where).map(([name, value]) => `${name} = ${value}`).join(" and ")}` : "");

/** The same for headings of tables and charts, with the unit. */
export const headingOf = (part) => (part.unit && !part.per ? `${part.metric} (${part.unit})${onSlice(part)}` : titleOf(part));

const isUpper = (part) => part.at_most !== null && part.at_most !== undefined;

/** What a metric must do, as the user said it. */
export function requirement(part, goal = "best") {
  if (part.goal && goal === "every feasible") return "not asked about";
  if (part.goal) return part.goal === "maximize" ? "as large as possible" : "as small as possible";
  return `${quantile(part)}${isUpper(part) ? "at most" : "at least"} ${bound(part)}`;
}

/** The limit as the user states it. */
function bound(part) {
  const threshold = isUpper(part) ? part.at_most : part.at_least;
  if (!part.relative_to_baseline) return exact(threshold);
  const margin = part.margin ?? null;
  if (margin === null) return `${exact(threshold)} × the baseline`;
  const sign = (isUpper(part) ? margin : -margin) < 0 ? "−" : "+";
  return `${threshold === 1 ? "" : `${exact(threshold)} × `}the baseline ${sign} ${exact(typeof margin === "number" ? Math.abs(margin) : margin)}`;
}

/** The share of results beyond the threshold of a quantile, and what it must stay below. */
export function shareWords(part, share) {
  const inPercent = (value) => `${parseFloat((100 * value).toPrecision(3))}%`;
  const beyond = isUpper(part) ? `above ${exact(part.at_most)}` : `below ${exact(part.at_least)}`;
  return `share ${beyond}: ${inPercent(share.value)} of at most ${inPercent(share.limit)}`;
}
