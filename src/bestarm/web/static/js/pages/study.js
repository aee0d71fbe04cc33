// A study's page: its parts, and the loading that keeps them up to date.

import { get, getNewer, listen } from "../library/api.js";
import { armsPanel } from "../panels/arms.js";
import { chartsPanel } from "../panels/charts.js";
import { connectionBar } from "../panels/connection.js";
import { announce, h, isolated, replace } from "../library/dom.js";
import { entryPanel } from "../panels/entry.js";
import { filterPanel } from "../panels/filter.js";
import { pendingPanel, readPending } from "../panels/pending.js";
import { logPanel } from "../panels/log.js";
import { progressPanel } from "../panels/progress.js";
import { reservePanel } from "../panels/reserve.js";
import { summaryPanel } from "../panels/summary.js";
import { nounOf } from "../library/nouns.js";
import { readWaiting, waitingValues } from "../library/waiting.js";
import { headlineText } from "../library/words.js";

const QUIET = 20_000;

/** Reload on request, never twice at once, and less often the longer it takes. */
function loader(load, shortest, patience) {
  let current = null;
  let resting = 0;
  let wanted = false;

  async function once() {
    const from = performance.now();
    try {
      await load();
    } catch (error) {
      // What the service said, or that it is out of reach, is shown by the bar; the rest would be a fault of this page.
      if (error.status === undefined) console.error(error);
    }
    const rest = Math.max(shortest, patience * (performance.now() - from));
    current = null;
    resting = setTimeout(() => {
      resting = 0;
      if (wanted && !document.hidden) run();
    }, rest);
  }

  function run() {
    if (current || resting) {
      wanted = true;
      return current;
    }
    wanted = false;
    current = once();
    return current;
  }

  /** Without the rest in between, after something that the user did. */
  run.now = async () => {
    if (current) await current;
    clearTimeout(resting);
    resting = 0;
    return run();
  };
  return run;
}

function section(id, title, ...children) {
  return h("section", { id, class: "part", "aria-labelledby": `${id}-title` },
    h("h2", { id: `${id}-title` }, title), ...children);
}

export async function show(main, id) {
  const base = `/api/studies/${id}`;
  // What is out is loaded with the status: the list of it stands above much that can be pressed.
  const [status, out, late] = await Promise.all([get(base), readPending(base).catch(() => null), readWaiting(base).catch(() => [])]);
  const context = { id, base, status, refresh: null, waiting: waitingValues([]) };
  const name = context.status.study;
  document.title = `${isolated(name)} · bestarm`;

  const filter = filterPanel(() => { charts.update(context.status); arms.first(); });
  context.chosen = filter.chosen;
  const summary = summaryPanel(context);
  const charts = chartsPanel(context);
  const arms = armsPanel(context);
  const reserve = reservePanel(context);
  const pending = pendingPanel(context);
  const entry = entryPanel(context);
  const progress = progressPanel(context);
  const log = logPanel(context);
  const drawn = [filter, summary, charts, arms, reserve, pending, entry, progress, log];

  const title = nounOf(status).Many;
  const links = [["tests", "Tests"], ["charts", "Metrics"], ["arms", title], ["progress", "Progress"], ["log", "Log"]];
  replace(main,
    summary.element,
    h("nav", { class: "jump", "aria-label": "Parts of this page" },
      links.map(([part, title]) => h("a", { href: `#${part}` }, title))),
    section("tests", "Tests", pending.element, entry.element),
    section("charts", "Metrics", filter.element, charts.element),
    section("arms", title, arms.element, reserve.element),
    section("progress", "Progress", progress.element),
    section("log", "Log", log.element));

  let toldReaders = 0;

  function draw(status) {
    const before = context.status;
    context.status = status;
    for (const panel of drawn) panel.update(status);
    const words = headlineText(status, status.plan.delta);
    if (before.state !== status.state) {
      announce(words);
    } else if (before.leader !== status.leader && Date.now() - toldReaders > QUIET) {
      // Leaders change often in the beginning: readers hear of it now and then.
      toldReaders = Date.now();
      announce(words, { show: false });
    }
  }

  const loadStatus = loader(async () => {
    const newer = await getNewer(base, context.status.version);
    if (newer) draw(newer);
  }, 400, 4);
  const showPending = (tests, waiting) => {
    context.waiting = waitingValues(waiting);
    pending.show(tests, waiting);
    summary.showPending(tests ?? []);
    for (const panel of [charts, arms, progress]) panel.update(context.status);
  };
  const loadPending = loader(async () => showPending(...await Promise.all([readPending(base, pending.wanted()), readWaiting(base, context.status)])), 400, 4);
  const loadLog = loader(async () => log.show(await get(`${base}/log?last=${log.wanted()}`)), 1000, 5);
  const loadHistory = loader(async () => progress.showHistory(await get(`${base}/history?points=500`)), 1500, 5);
  // A forecast is a simulation on the server, so it is rare, and runs only while the page is visible.
  const loadForecast = loader(async () => {
    const forecast = context.status.state === "running" ? await get(`${base}/forecast`) : null;
    summary.showForecast(forecast);
    progress.showForecast(forecast);
  }, 10_000, 20);
  log.onMore = () => loadLog.now();
  pending.onMore = () => loadPending.now();

  context.refresh = async () => {
    await Promise.all([loadStatus.now(), loadPending.now()]);
    loadLog();
    loadHistory();
  };

  draw(context.status);
  showPending(out, late);
  const all = [loadStatus, loadPending, loadLog, loadHistory, loadForecast];
  const bar = connectionBar(() => stream.retry());
  const stream = listen(`${base}/events`, () => { for (const load of all) load(); }, bar);
  loadLog();
  loadHistory();
  loadForecast();
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}
