// Which page to show, the choice of colors, and signing in and out.

import { get, signIn, signOut, whenRefused } from "./library/api.js";
import { h, replace } from "./library/dom.js";
import { at, root } from "./library/root.js";
import * as compare from "./pages/compare.js";
import * as list from "./pages/list.js";
import * as creation from "./pages/new.js";
import * as reference from "./pages/reference.js";
import * as study from "./pages/study.js";

const PAGES = { list, new: creation, compare, reference, study };

const main = document.getElementById("main");

function chooseColors() {
  const select = document.getElementById("theme");
  select.value = document.documentElement.dataset.theme;
  select.addEventListener("change", () => {
    document.documentElement.dataset.theme = select.value;
    try {
      localStorage.setItem("bestarm.theme", select.value);
    } catch {
      // The choice then lasts until the page is left.
    }
    document.dispatchEvent(new CustomEvent("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.dispatchEvent(new CustomEvent("themechange"));
  });
}

/** `isOver` if the visitor was signed in before. */
function askForToken(isOver) {
  document.title = "Token · bestarm";
  document.getElementById("sign-out").hidden = true;
  const input = h("input", {
    id: "token", type: "password", autocomplete: "current-password", required: true, class: "wide", "aria-describedby": "token-error token-help",
  });
  const error = h("p", { id: "token-error", class: "error", role: "alert" });
  const form = h("form", { class: "card token" },
    h("h1", {}, "This service asks for a token"),
    h("p", { id: "token-help", class: "muted" }, isOver ? "Your session is over. " : "Ask the person who started the service. ",
      "This browser stays signed in for a week, or until you sign out. It does not keep the token."),
    h("div", { class: "field" }, h("label", { for: "token" }, "Token"), input, error),
    h("button", { class: "primary" }, "Go on"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await signIn(input.value.trim());
      location.reload();
    } catch (refusal) {
      input.setAttribute("aria-invalid", "true");
      error.textContent = refusal.status === 401 ? "The service did not accept this token." : refusal.message;
    }
  });
  replace(main, form);
  input.focus();
}

/** Say who is signed in, and let them sign out. */
function showVisitor(visitor) {
  if (visitor.through !== "session") return;
  const button = document.getElementById("sign-out");
  button.title = `Signed in as ${visitor.name}`;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await signOut();
    location.reload();
  });
}

function explain(error) {
  replace(main, h("section", { class: "card" },
    h("h1", {}, error.status === 404 ? "There is no such study" : "This page cannot be shown"),
    h("p", {}, error.message || String(error)),
    h("p", {}, h("a", { href: at("/") }, "All studies"))));
}

async function start() {
  chooseColors();
  const asked = { shown: false };
  let visitor = null;
  whenRefused(() => {
    if (asked.shown) return;
    asked.shown = true;
    askForToken(visitor !== null);
  });
  // A proxy may have taken the root off the address, or not.
  const path = location.pathname.slice(location.pathname.startsWith(root) ? root.length : 0).replace(/\/+$/, "") || "/";
  const number = /^\/studies\/(\d+)$/.exec(path);
  const page = number ? "study" : { "/new": "new", "/compare": "compare", "/reference": "reference" }[path] ?? "list";
  const current = document.querySelector(`nav a[data-page="${page}"]`);
  current?.setAttribute("aria-current", "page");
  try {
    visitor = await get("/api/session");
    showVisitor(visitor);
    await PAGES[page].show(main, number ? Number(number[1]) : null);
  } catch (error) {
    if (asked.shown) return;
    console.warn(error);
    explain(error);
  }
}

start();
