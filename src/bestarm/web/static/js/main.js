// Which page to show, the choice of colors, and the token.

import { get, setToken, token, whenRefused } from "./library/api.js";
import { h, replace } from "./library/dom.js";

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

function askForToken(refused) {
  document.title = "Token · bestarm";
  const input = h("input", {
    id: "token", type: "password", autocomplete: "current-password", required: true, class: "wide",
    "aria-describedby": refused ? "token-error token-help" : "token-help", "aria-invalid": refused ? "true" : null,
  });
  const form = h("form", { class: "card token" },
    h("h1", {}, "This service asks for a token"),
    h("p", { id: "token-help", class: "muted" },
      "Ask the person who started the service. The token is kept in this tab only, until you close it."),
    h("div", { class: "field" },
      h("label", { for: "token" }, "Token"),
      input,
      refused ? h("p", { id: "token-error", class: "error" }, "The service did not accept this token.") : null),
    h("button", { class: "primary" }, "Go on"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    location.reload();
  });
  replace(main, form);
  input.focus();
}

function explain(error) {
  replace(main, h("section", { class: "card" },
    h("h1", {}, error.status === 404 ? "There is no such study" : "This page cannot be shown"),
    h("p", {}, error.message || String(error)),
    h("p", {}, h("a", { href: "/" }, "All studies"))));
}

async function start() {
  chooseColors();
  const asked = { shown: false };
  whenRefused(() => {
    if (asked.shown) return;
    asked.shown = true;
    const had = token() !== "";
    setToken("");
    askForToken(had);
  });
  const path = location.pathname.replace(/\/+$/, "") || "/";
  const study = /^\/studies\/(\d+)$/.exec(path);
  const page = study ? "study" : { "/new": "new", "/compare": "compare", "/reference": "reference" }[path] ?? "list";
  const current = document.querySelector(`nav a[data-page="${page}"]`);
  current?.setAttribute("aria-current", "page");
  try {
    const module = import(`./pages/${page}.js`);
    const health = await get("/api/health");
    if (health.token && !token()) {
      asked.shown = true;
      askForToken(false);
      return;
    }
    const { show } = await module;
    await show(main, study ? Number(study[1]) : null);
  } catch (error) {
    if (asked.shown) return;
    console.warn(error);
    explain(error);
  }
}

start();
