// Tests and cost over time, and what remains by simulation.

import { h, named, replace } from "../library/dom.js";
import { nounOf } from "../library/nouns.js";
import { released } from "../library/press.js";
import { about, ageWords, count, dateTime, isAbout, number, overWords, plural } from "../library/words.js";
import uPlot from "../../vendor/uplot/uPlot.esm.js";

const HEIGHT = 260;

/** The browser resolves light-dark() only where it is used: on an element. */
function resolved(variable) {
  const probe = h("span", { hidden: true });
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

const formats = [
  { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 1, hour12: false },
  { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false },
  { hour: "2-digit", minute: "2-digit", hour12: false },
  { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false },
  { day: "numeric", month: "short", year: "numeric" },
].map((options) => new Intl.DateTimeFormat("en-GB", options));

/** A moment as finely as the span of the chart needs. */
function moment(at, span) {
  return formats[span < 10 ? 0 : span < 600 ? 1 : span < 86_400 ? 2 : span < 864_000 ? 3 : 4].format(at * 1000);
}

/** The last of the points at one moment, such as those of one plate. */
function momentsOf({ time, ...amounts }) {
  const last = (_, k) => time[k] !== time[k + 1];
  return Object.fromEntries(Object.entries({ time, ...amounts }).map(([name, values]) => [name, values.filter(last)]));
}

/** Whether a forecast can be made: one from before may not be known here yet. */
const isEachTested = (status) => status.arms.every((arm) => arm.metrics.every((metric) => metric.tests));

export function progressPanel(context) {
  const holder = h("div", { class: "history" });
  const words = h("p", { class: "muted" });
  const rows = h("tbody", {});
  // Content loaded later may push the rest of the page down, but must never pull it up under the pointer.
  const table = h("details", { hidden: true }, h("summary", {}, "The same as a table"),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Tests and cost over time" },
      h("table", {}, h("caption", { class: "sr" }, "Tests and cost over time"),
        h("thead", {}, h("tr", {}, ["Time", "Tests", "Cost"].map((title, k) => h("th", { scope: "col", class: k ? "num" : null }, title)))),
        rows)));
  const forecastWords = h("div", { class: "forecast" });
  const element = h("div", { class: "card" }, forecastWords, holder, words, table);
  let history = null;
  let plot = null;
  let withCost = false;
  let started = false;
  let forecast;

  function options(width) {
    const [ink, grid, first, second] = ["--muted", "--line", "--accent", "--second"].map(resolved);
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: "12px system-ui" };
    const moments = (_, values) => {
      const texts = values.map((at) => moment(at, history.time.at(-1) - history.time[0]));
      // Moments that read alike are named once.
      return texts.map((text, k) => (text === texts[k - 1] ? null : text));
    };
    const amounts = (_, values) => values.map((value) => (value >= 1e6 ? `${value / 1e6} M` : count(value)));
    return {
      width, height: HEIGHT,
      legend: { live: true },
      cursor: { drag: { x: true, y: false } },
      scales: { x: { time: true }, tests: { range: (_, low, high) => [0, Math.max(high, 1)] }, cost: { range: (_, low, high) => [0, Math.max(high, 1)] } },
      axes: [
        { ...axis, values: moments, space: 90 },
        { ...axis, scale: "tests", values: amounts, size: 62 },
        ...(withCost ? [{ ...axis, scale: "cost", side: 1, values: amounts, size: 62, grid: { show: false } }] : []),
      ],
      series: [
        { label: "Time", value: (_, at) => dateTime(at) },
        { label: withCost ? "Tests (left)" : "Tests", scale: "tests", stroke: first, width: 2, value: (_, n) => count(n), points: { show: false } },
        ...(withCost ? [{ label: "Cost (right)", scale: "cost", stroke: second, width: 2, dash: [7, 4], value: (_, n) => number(n), points: { show: false } }] : []),
      ],
    };
  }

  function data() {
    return withCost ? [history.time, history.tests, history.cost] : [history.time, history.tests];
  }

  /** How many results wait, if that is all there is. */
  const waitingNow = () => (context.status.waiting ? `${plural(context.status.waiting, "result")} saved and not counted yet.` : "");

  async function draw() {
    if (!history || !started) return;
    const enough = history.time.length > 1;
    // It is drawn when it comes near: often just when the user has scrolled to a button below it.
    await released();
    holder.hidden = !enough;
    table.hidden = !enough;
    if (!enough) {
      replace(words, history.time.length ? "One moment so far; the chart begins with the second." : `${waitingNow() || "No results yet."}`);
      return;
    }
    const costs = history.cost.some((cost, k) => Math.abs(cost - history.tests[k]) > 1e-9 * Math.max(1, cost));
    if (plot && costs === withCost) {
      plot.setData(data());
    } else {
      withCost = costs;
      rebuild();
    }
    const last = history.time.length - 1;
    replace(words, `${plural(history.tests[last], "test")} at a cost of ${number(history.cost[last])}, from ${dateTime(history.time[0])} to ${dateTime(history.time[last])}.`,
      withCost ? "" : " Every test costs 1, so cost and tests are one line.");
    holder.setAttribute("aria-label", `Chart of tests and cost over time. ${words.textContent}`);
    if (table.open) fillTable();
  }

  function rebuild() {
    plot?.destroy();
    replace(holder);
    holder.setAttribute("role", "img");
    plot = new uPlot(options(Math.max(200, holder.clientWidth)), data(), holder);
  }

  function fillTable() {
    const step = Math.max(1, Math.ceil(history.time.length / 40));
    const chosen = history.time.map((_, k) => k).filter((k) => k % step === 0 || k === history.time.length - 1);
    replace(rows, chosen.map((k) => h("tr", {}, h("td", {}, dateTime(history.time[k])),
      h("td", { class: "num" }, count(history.tests[k])), h("td", { class: "num" }, number(history.cost[k])))));
  }

  table.addEventListener("toggle", () => { if (table.open && history) fillTable(); });
  document.addEventListener("themechange", rebuild);
  new ResizeObserver(() => {
    if (plot && holder.clientWidth) plot.setSize({ width: holder.clientWidth, height: HEIGHT });
  }).observe(holder);
  // The chart library is loaded when the chart comes near: the page does not need it at once.
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    started = true;
    draw();
  }, { rootMargin: "400px" }).observe(element);

  function drawForecast() {
    const { status } = context;
    const found = forecast;
    if (found === undefined) return;
    if (status.state !== "running" || found === null) {
      replace(forecastWords, h("p", {}, status.state === "running"
        ? isEachTested(status) ? "What remains is being simulated." : `A forecast needs at least one result of every metric of every ${nounOf(status).one}. ${waitingNow()}`
        : overWords(status)));
      return;
    }
    if (!isAbout(found, status) || found.state === "too early") {
      replace(forecastWords, h("p", {}, isAbout(found, status) ? "It is too early to say how many tests remain." : "The study has changed; what remains is being simulated again."));
      return;
    }
    const most = Object.entries(found.answers || {}).sort((a, b) => b[1] - a[1]).slice(0, 3);
    const enough = found.median_tests !== null && found.median_tests !== undefined;
    const nine = found.p90_tests !== null && found.p90_tests !== undefined;
    replace(forecastWords,
      h("p", { class: "lead" }, enough
        ? `About ${about(found.median_tests)} more ${found.median_tests === 1 ? "test" : "tests"} to go (cost about ${about(found.median_cost)}).`
        : found.at_budget ? "Probably more tests to go than the budget leaves."
          : "More than half of the simulated studies were not finished: many more tests to go."),
      h("p", { class: "muted" },
        `From ${plural(found.runs, "simulation")} in worlds that the results leave possible.${ageWords(found, status)} `,
        nine ? `Nine in ten end within ${about(found.p90_tests)} more tests (cost ${about(found.p90_cost)}). ` : "",
        found.at_budget ? `${plural(Math.round(found.at_budget * found.runs), "simulation stops", "simulations stop")} at the budget without an answer. ` : "",
        most.length ? [found.at_budget ? "The others end with " : "They end with ", most.map(([arm, share], k) => [k ? ", " : "",
          arm === "none" ? `no feasible ${nounOf(status).one}` : named(arm), ` (${plural(Math.round(share * found.runs), "time")})`]), "."] : ""));
  }

  return {
    element,
    update() {
      drawForecast();
      if (history && !history.time.length) draw();
    },
    showHistory(found) {
      history = momentsOf(found);
      draw();
    },
    showForecast(found) {
      forecast = found;
      drawForecast();
    },
  };
}
