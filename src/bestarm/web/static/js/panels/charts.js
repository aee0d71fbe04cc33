// One chart for each metric: every arm's interval against the threshold.
//
// Verdicts differ in color, in the shape of the marker and in the line, so that any one of them is enough. Only
// the rows in view are drawn: a thousand arms cost no more than forty.

import { h, isolated, named, replace, s } from "../library/dom.js";
import { hollow, marker } from "../library/markers.js";
import { extent, linear, ticks } from "../library/scale.js";
import { waitingWords } from "../library/waiting.js";
import { ASIDE, interval, isVoid, number, plural, requirement, shareWords, headingOf, titleOf, VERDICT_WORDS, VERDICTS } from "../library/words.js";

const ROW = 26;
const MOST_ROWS_WHOLE = 24;
const WINDOW_ROWS = 18;
const WINDOW_ROWS_NARROW = 10;

/** The answer or leader first, then by verdict, and the better mean first within each. */
function ordered(status, arms) {
  const sign = status.plan.objective.goal === "minimize" ? 1 : -1;
  const score = (arm) => (arm.metrics[0].mean === null ? Infinity : sign * arm.metrics[0].mean);
  return [...arms].sort((a, b) =>
    (b.name === status.leader) - (a.name === status.leader) ||
    VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict) || score(a) - score(b) || 0);
}

const MARKS = { holds: "feasible", violated: "infeasible", open: "open" };

/** How a chart of one metric marks an arm: a constraint by what is known of it, the objective by the arm's verdict. */
const verdictOn = (arm, metric) => (ASIDE.includes(arm.verdict) ? arm.verdict : MARKS[metric.verdict] ?? arm.verdict);

const pen = document.createElement("canvas").getContext("2d");

function textWidth(text, bold) {
  pen.font = `${bold ? "700 " : ""}13px ${family}`;
  return pen.measureText(text).width;
}
const family = getComputedStyle(document.body).fontFamily;

/** As much of a name as there is room for: its beginning and its end, by which numbered names differ. */
function fitted(name, room, bold) {
  if (textWidth(name, bold) <= room) return name;
  const letters = [...name];
  const cut = (keep) => `${letters.slice(0, Math.ceil(0.6 * keep)).join("")}…${letters.slice(letters.length - Math.floor(0.4 * keep)).join("")}`;
  let keep = 0;
  for (let step = 2 ** Math.floor(Math.log2(letters.length)); step >= 1; step /= 2) {
    if (keep + step < letters.length && textWidth(cut(keep + step), bold) <= room) keep += step;
  }
  return cut(keep);
}

function chart(context, index, scrolled) {
  const title = h("h3", {});
  const scroller = h("div", { class: "rows" });
  const space = h("div", { class: "rows-in" });
  const axis = s("svg", { class: "axis", "aria-hidden": "true" });
  const element = h("figure", { class: "chart" }, title, scroller, axis);
  scroller.append(space);
  let arms = [];
  let status = context.status;
  let picture = null;
  let pending = 0;
  let widest = 0;

  const part = () => (index === 0 ? status.plan.objective : status.plan.constraints[index - 1]);

  /** Values of an arm that are saved and do not count yet. One alone says nothing about a ratio. */
  const waitingOf = (arm) => (part().per ? [] : context.waiting(arm.name, part().metric));

  function scale() {
    const values = [];
    for (const arm of arms) {
      const m = arm.metrics[index];
      if (m.tests) values.push(m.low, m.high, m.mean);
      values.push(...waitingOf(arm));
    }
    const threshold = arms[0]?.metrics[index].threshold;
    if (threshold !== null && threshold !== undefined) values.push(threshold);
    const { low, high } = status.results[part().metric];
    return extent(values, low, high);
  }

  function draw() {
    pending = 0;
    const width = Math.max(element.clientWidth, 240);
    const label = Math.max(70, Math.min(0.4 * width, widest + 22));
    const inner = { left: label, right: width - 58 };
    const domain = scale();
    const x = linear(domain, [inner.left + 6, inner.right - 8]);
    const whole = arms.length <= MOST_ROWS_WHOLE;
    const rows = window.innerWidth < 640 ? WINDOW_ROWS_NARROW : WINDOW_ROWS;
    const from = whole ? 0 : Math.max(0, Math.floor(scroller.scrollTop / ROW) - 4);
    const to = whole ? arms.length : Math.min(arms.length, from + rows + 9);
    const height = (to - from) * ROW;
    const threshold = arms[0]?.metrics[index].threshold ?? null;
    const marks = ticks(domain, width < 420 ? 4 : 6);

    const drawing = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": describe(), "data-from": from });
    for (const at of marks) drawing.append(s("line", { class: "grid", x1: x(at), x2: x(at), y1: 0, y2: height }));
    if (threshold !== null) {
      const below = part().at_least !== undefined && part().at_least !== null;
      const at = x(threshold);
      drawing.append(below
        ? s("rect", { class: "forbidden", x: inner.left, width: Math.max(0, at - inner.left), y: 0, height })
        : s("rect", { class: "forbidden", x: at, width: Math.max(0, inner.right - at), y: 0, height }));
      drawing.append(s("line", { class: "threshold", x1: at, x2: at, y1: 0, y2: height }));
    }
    for (let k = from; k < to; k++) drawing.append(row(arms[k], (k - from + 0.5) * ROW, x, inner, width));
    space.style.height = `${arms.length * ROW}px`;
    scroller.style.maxHeight = whole ? "" : `${rows * ROW}px`;
    drawing.style.top = `${from * ROW}px`;
    if (picture) picture.replaceWith(drawing);
    else space.append(drawing);
    picture = drawing;

    axis.setAttribute("width", width);
    axis.setAttribute("height", 24);
    replace(axis, s("line", { class: "rule", x1: inner.left, x2: inner.right, y1: 0.5, y2: 0.5 }),
      marks.map((at) => s("text", { class: "tick", x: x(at), y: 16 }, number(at, 4, marks.at(-1) - marks[0]))));
  }

  function row(arm, y, x, inner, width) {
    const m = arm.metrics[index];
    const best = arm.name === status.leader;
    const verdict = verdictOn(arm, m);
    const group = s("g", { class: `arm ${verdict}${m.verdict === "violated" ? " violated" : ""}` },
      s("title", {}, spoken(arm)));
    const text = fitted(arm.name, inner.left - 16, best);
    group.append(s("text", { class: best ? "arm-name best" : "arm-name", x: inner.left - 8, y: y + 4 }, text));
    const waiting = waitingOf(arm);
    if (!m.tests) {
      if (waiting.length) group.append(...waiting.map((value) => hollow(x(value), y)), s("text", { class: "mean", x: width - 6, y: y + 4 }, `${waiting.length} ${waiting.length === 1 ? "waits" : "wait"}`));
      else group.append(s("text", { class: "untested", x: inner.left + 8, y: y + 4 }, "no result yet"));
      return group;
    }
    const low = m.low === null ? inner.left : Math.max(inner.left, x(m.low));
    const high = m.high === null ? inner.right : Math.min(inner.right, x(m.high));
    if (m.low !== null || m.high !== null) group.append(s("line", { class: "interval", x1: low, x2: high, y1: y, y2: y }));
    if (m.low !== null) group.append(s("line", { class: "cap", x1: low, x2: low, y1: y - 4, y2: y + 4 }));
    if (m.high !== null) group.append(s("line", { class: "cap", x1: high, x2: high, y1: y - 4, y2: y + 4 }));
    group.append(...waiting.map((value) => hollow(x(value), y)), marker(verdict, x(m.mean), y, best && status.answer !== null && !isVoid(status)));
    group.append(s("text", { class: "mean", x: width - 6, y: y + 4 }, number(m.mean, 3, m.high - m.low)));
    return group;
  }

  function spoken(arm) {
    const m = arm.metrics[index];
    const waiting = waitingWords(waitingOf(arm));
    const counted = m.tests ? `${number(m.mean, 4, m.high - m.low)}, ${m.low === null && m.high === null ? "" : "between "}${interval(m.low, m.high, "and")}, ${plural(m.tests, "test")}` : waiting ? "" : "no result yet";
    const measured = [counted, waiting].filter(Boolean).join("; ");
    const share = m.share && m.tests ? `; ${shareWords(part(), m.share)}` : "";
    return `${isolated(arm.name)}: ${measured}${share}; ${arm.verdict}${m.verdict ? `; this constraint ${m.verdict === "open" ? "is open" : m.verdict === "holds" ? "holds" : "is violated"}` : ""}`;
  }

  function describe() {
    const listed = arms.slice(0, 12).map(spoken).join(". ");
    const rest = arms.length > 12 ? `. And ${arms.length - 12} more, in the table` : "";
    return `${isolated(titleOf(part()))}, ${requirement(part(), status.plan.goal)}. ${listed}${rest}`;
  }

  function later() {
    if (!pending) pending = requestAnimationFrame(draw);
  }

  scroller.addEventListener("scroll", () => { scrolled(scroller); later(); }, { passive: true });
  new ResizeObserver(later).observe(element);

  return {
    element,
    scroller,
    update(now, sorted) {
      status = now;
      arms = sorted;
      widest = Math.max(0, ...arms.slice(0, 300).map((arm) => textWidth(arm.name, true)));
      replace(title, named(headingOf(part())), h("span", { class: "aim" }, requirement(part(), status.plan.goal)));
      if (status.arms.length > MOST_ROWS_WHOLE) {
        scroller.tabIndex = 0;
        scroller.setAttribute("role", "region");
        scroller.setAttribute("aria-label", `Intervals of ${isolated(titleOf(part()))}, to scroll`);
      }
      later();
    },
  };
}

export function chartsPanel(context) {
  const holder = h("div", { class: "charts" });
  const legend = h("ul", { class: "legend", "aria-label": "Markers" });
  const about = h("p", { class: "muted small about" });
  const element = h("div", {}, legend, holder, about);
  let charts = null;
  let following = false;

  // The same arms stand at the same height in every chart.
  function scrolled(source) {
    if (following) return;
    following = true;
    for (const { scroller } of charts) if (scroller !== source) scroller.scrollTop = source.scrollTop;
    requestAnimationFrame(() => { following = false; });
  }

  const key = (verdict, answer) => {
    const picture = s("svg", { width: 30, height: 16, viewBox: "0 0 30 16", "aria-hidden": "true" },
      s("g", { class: `arm ${verdict}` }, s("line", { class: "interval", x1: 2, x2: 28, y1: 8, y2: 8 }), marker(verdict, 15, 8, answer)));
    return h("li", {}, picture, answer ? "The answer" : VERDICT_WORDS[verdict]);
  };

  return {
    element,
    update(status) {
      if (!charts) {
        charts = [0, ...(status.plan.constraints || []).map((_, k) => k + 1)].map((k) => chart(context, k, scrolled));
        replace(holder, charts.map((one) => one.element));
      }
      replace(about, status.about_intervals, " ", status.about_means);
      const present = new Set(status.arms.flatMap((arm) => arm.metrics.map((metric) => verdictOn(arm, metric))));
      replace(legend, VERDICTS.filter((verdict) => present.has(verdict)).map((verdict) => key(verdict, false)),
        status.answer !== null && status.state === "certified" ? key("feasible", true) : null,
        status.waiting ? h("li", {}, s("svg", { width: 30, height: 16, viewBox: "0 0 30 16", "aria-hidden": "true" }, hollow(9, 8), hollow(19, 8)), "Results that are not counted yet") : null,
        (status.plan.constraints || []).length ? h("li", {},
          s("svg", { width: 30, height: 16, viewBox: "0 0 30 16", "aria-hidden": "true" },
            s("rect", { class: "forbidden", x: 15, y: 0, width: 15, height: 16 }),
            s("line", { class: "threshold", x1: 15, x2: 15, y1: 0, y2: 16 })), "Threshold, and its wrong side") : null);
      const sorted = ordered(status, context.chosen(status.arms));
      for (const one of charts) one.update(status, sorted);
    },
  };
}
