// The service: requests, errors as the service words them, and live events with reconnection.

import { released } from "./press.js";
import { at } from "./root.js";

/** What the service refused, in its words; `complaints` has each thing that is wrong, with its field and value. */
export class ApiError extends Error {
  constructor(status, reason, error = {}) {
    super(reason);
    this.status = status;
    this.field = error.field ?? null;
    this.kind = error.kind ?? null;
    this.complaints = error.complaints ?? [];
  }
}

/** The service wants this header with whatever changes something: a page of another site cannot send it. */
const BY_SCRIPT = { "X-Requested-With": "bestarm" };

let onRefused = () => {};

/** Called when the service wants a token, or another one. */
export function whenRefused(action) {
  onRefused = action;
}

async function failure(response) {
  let error = {};
  let reason = `the service answered ${response.status} ${response.statusText}`.trim();
  try {
    const body = await response.json();
    error = body.error ?? {};
    reason = error.reason ?? reason;
  } catch {
    // A proxy in between may answer with anything; the status says enough.
  }
  if (response.status === 401) onRefused();
  return new ApiError(response.status, reason, error);
}

/** Pages offer only what the token's role allows: `data-needs` and `data-lacks` in css/base.css. Its name need not be typed. */
function noteRole(response) {
  const role = response.headers.get("Bestarm-Role");
  const name = response.headers.get("Bestarm-Name");
  if (role) document.documentElement.dataset.role = role;
  if (name) document.documentElement.dataset.visitor = decodeURIComponent(name);
}

/** Whether the visitor may look and nothing else, as far as is known. */
export const readsOnly = () => document.documentElement.dataset.role === "read";

/** The answer to a request, whatever its status. */
async function request(path, options) {
  let response;
  try {
    response = await fetch(at(path), { ...options, headers: { ...BY_SCRIPT, ...options.headers }, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "the service cannot be reached");
  }
  noteRole(response);
  return response;
}

async function send(path, options) {
  const response = await request(path, options);
  if (!response.ok) throw await failure(response);
  return response;
}

/** The content of an answer. It fails if the connection is lost meanwhile. */
async function read(response) {
  try {
    return await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "the answer of the service broke off");
  }
}

/** Load what a page is about to show. The page does not change while a button is pressed. */
async function readToShow(response) {
  const answer = await read(response);
  await released();
  return answer;
}

export async function get(path, { signal } = {}) {
  return readToShow(await send(path, { signal }));
}

/** What is at `path`, or null if it still is what it was at `version`. */
export async function getNewer(path, version, { signal } = {}) {
  const known = version ? { "If-None-Match": `"${version}"` } : {};
  const response = await request(path, { signal, headers: known });
  if (response.status === 304) return null;
  if (!response.ok) throw await failure(response);
  return readToShow(response);
}

/** Keys of what was sent and has no answer, by what it is: sent again under its key, it is done once. */
const unanswered = new Map();

function newKey() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16).padStart(8, "0")).join("");
}

async function postOnce(path, type, body, about = body) {
  const what = `${path}\n${about}`;
  const key = unanswered.get(what) ?? newKey();
  unanswered.set(what, key);
  try {
    const response = await send(path, {
      method: "POST",
      headers: { "Content-Type": type, "Idempotency-Key": key },
      body,
    });
    const answer = await read(response);
    unanswered.delete(what);
    return answer;
  } catch (error) {
    // After anything but a refusal, it is unknown whether the request was carried out.
    if (error instanceof ApiError && error.status >= 400 && error.status < 500) unanswered.delete(what);
    throw error;
  }
}

export async function post(path, body) {
  return postOnce(path, "application/json", JSON.stringify(body));
}

export async function postFile(path, file) {
  // An Excel workbook is a zip file, and says so in its first letters, whatever its name.
  const isWorkbook = (await file.slice(0, 2).text()) === "PK";
  return postOnce(path, isWorkbook ? "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" : "text/csv", file, `${file.name} ${file.size} ${file.lastModified}`);
}

/** Exchange a token for a cookie, which the browser sends from then on and no script can read. */
export async function signIn(token) {
  await send("/api/session", {
    method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` }, body: "{}",
  });
  const response = await request("/api/session", {});
  if (response.status === 401) throw new ApiError(0, "This browser keeps no cookie of this page, and signing in takes one.");
}

export async function signOut() {
  await send("/api/session/end", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
}

/** Save a file of the service's, which names it unless `filename` does. */
export function download(path, filename = "") {
  const link = document.createElement("a");
  link.download = filename;
  link.href = at(path);
  link.click();
}

const SILENCE = 45_000;
const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 30_000;

/**
 * Live events from `path`. `onEvent(kind, data)` is called for each, `onState({connected, retryAt})` when the connection
 * is made or lost. The connection is closed while the page is hidden: browsers open only six to a host, and
 * forgotten tabs would use them up. Returns an object with close() and retry().
 */
export function listen(path, onEvent, onState) {
  let closed = false;
  let wait = FIRST_WAIT;
  let controller = null;
  let timer = 0;

  async function connect() {
    clearTimeout(timer);
    if (closed || document.hidden || controller) return;
    const mine = new AbortController();
    controller = mine;
    let watchdog = setTimeout(() => mine.abort(), SILENCE);
    try {
      const response = await send(path, { signal: mine.signal, headers: { Accept: "text/event-stream" } });
      onState({ connected: true });
      wait = FIRST_WAIT;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => mine.abort(), SILENCE);
        const blocks = (text + value).split(/\r\n\r\n|\n\n|\r\r/);
        text = blocks.pop();
        for (const block of blocks) handle(block, onEvent);
      }
    } catch (error) {
      if (error.status === 401 || error.status === 404) closed = true;
    }
    clearTimeout(watchdog);
    if (controller === mine) controller = null;
    if (closed || document.hidden) return;
    const pause = wait * (0.7 + 0.6 * Math.random());
    wait = Math.min(2 * wait, LONGEST_WAIT);
    onState({ connected: false, retryAt: Date.now() + pause });
    timer = setTimeout(connect, pause);
  }

  function stop() {
    clearTimeout(timer);
    controller?.abort();
    controller = null;
  }

  function look() {
    if (document.hidden) stop();
    else connect();
  }

  document.addEventListener("visibilitychange", look);
  window.addEventListener("online", look);
  connect();
  return {
    close() {
      closed = true;
      document.removeEventListener("visibilitychange", look);
      window.removeEventListener("online", look);
      stop();
    },
    retry() {
      wait = FIRST_WAIT;
      connect();
    },
  };
}

function handle(block, onEvent) {
  let kind = "message";
  const data = [];
  for (const line of block.split(/\r\n|\n|\r/)) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (!data.length) return;
  try {
    onEvent(kind, JSON.parse(data.join("\n")));
  } catch (error) {
    console.error(error);
  }
}
