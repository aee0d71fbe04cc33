// The HTTP interface, from the service's own description of it.

import { download, get } from "../library/api.js";
import { h, newId, replace } from "../library/dom.js";
import { at } from "../library/root.js";
import { fieldTable, kindOf, prose, schemaId } from "../library/schemas.js";

const ROLES = {
  read: "to look",
  work: "to ask and tell, too",
  manage: "to make, change and archive studies, too",
};

function roleOf(operation) {
  return operation.security?.[0]?.token?.[0] ?? null;
}

function example(method, path, operation) {
  const address = path.replace("{study}", "1");
  const types = Object.keys(operation.requestBody?.content ?? {});
  const parts = [`curl ${location.origin}${at(address)}`];
  if (roleOf(operation)) parts.push('-H "Authorization: Bearer $BESTARM_TOKEN"');
  if (types.includes("text/csv")) parts.push("-H 'Content-Type: text/csv' --data-binary @results.csv");
  else if (types.length) parts.push(`-H 'Content-Type: ${types[0]}' -d @body.json`);
  else if (method === "post") parts.push("-X POST");
  return h("pre", { class: "example", tabindex: "0", "aria-label": "Example" }, h("code", {}, parts.join(" \\\n  ")));
}

function answers(operation) {
  const rows = Object.entries(operation.responses).map(([status, answer]) => {
    const contents = Object.entries(answer.content ?? {});
    return h("tr", {},
      h("th", { scope: "row" }, status),
      h("td", {}, answer.description === "Successful Response" ? "Done." : answer.description),
      h("td", {}, contents.map(([type, content]) => h("div", {}, kindOf(content.schema), h("span", { class: "muted small" }, ` ${type}`)))));
  });
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Answers" },
    h("table", {},
      h("thead", {}, h("tr", {}, ["status", "meaning", "content"].map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", {}, rows)));
}

function operationCard(method, path, operation) {
  const role = roleOf(operation);
  const parameters = operation.parameters ?? [];
  const body = Object.entries(operation.requestBody?.content ?? {});
  const id = newId("operation");
  return h("article", { class: "card operation", "aria-labelledby": id, "data-find": `${method} ${path} ${operation.description}`.toLowerCase() },
    h("h3", { id }, h("span", { class: `method ${method}` }, method.toUpperCase()), " ", h("code", {}, path)),
    h("p", { class: "muted small" }, role ? ["needs the role ", h("strong", {}, role)] : "needs no token"),
    prose(operation.description),
    h("details", {},
      h("summary", {}, "Fields, answers and an example"),
      parameters.length ? [h("h4", {}, "In the address and the headers"),
        fieldTable("Parameters", parameters.map((one) => [one.name, one.schema, one.required, one.description]))] : null,
      body.length ? [h("h4", {}, "Body"), body.map(([type, content]) =>
        h("p", {}, kindOf(content.schema), h("span", { class: "muted small" }, ` ${type}`)))] : null,
      h("h4", {}, "Answers"), answers(operation),
      h("h4", {}, "Example"), example(method, path, operation)));
}

function schemaCard(name, schema) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {});
  return h("article", { class: "card operation", id: schemaId(name), tabindex: "-1" },
    h("h3", {}, h("code", {}, name)),
    prose(schema.description),
    fields.length
      ? fieldTable(`Fields of ${name}`, fields.map(([field, one]) => [field, one, required.has(field), one.description]))
      : h("p", {}, kindOf(schema)));
}

/** Show what matches what is looked for. */
function filter(container, count, text) {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const card of container.querySelectorAll("[data-find]")) {
    card.hidden = !words.every((word) => card.dataset.find.includes(word));
    shown += card.hidden ? 0 : 1;
  }
  for (const section of container.querySelectorAll("section[data-group]")) {
    section.hidden = !section.querySelector("[data-find]:not([hidden])");
  }
  count.textContent = shown === 1 ? "1 request" : `${shown} requests`;
}

export async function show(main) {
  document.title = "API · bestarm";
  const description = await get("/openapi.json");
  const groups = new Map();
  for (const [path, operations] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const tag = operation.tags?.[0] ?? "other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(operationCard(method, path, operation));
    }
  }
  const search = h("input", { id: "find-request", type: "search", autocomplete: "off" });
  const count = h("span", { class: "muted", role: "status" });
  const requests = h("div", {}, [...groups].map(([tag, cards]) => h("section", { "data-group": tag, class: "cards" },
    h("h2", {}, tag[0].toUpperCase() + tag.slice(1)), cards)));
  search.addEventListener("input", () => filter(requests, count, search.value));
  replace(main,
    h("div", { class: "page-head" }, h("h1", {}, "API"),
      h("button", { type: "button", onclick: () => download("/openapi.json", "openapi.json") }, "Save the OpenAPI document")),
    h("div", { class: "reference" },
      prose(description.info.description),
      h("p", {}, "A token has one of three roles: ",
        Object.entries(ROLES).flatMap(([role, words], place) => [place ? "; " : "", h("strong", {}, role), ` ${words}`]), "."),
      h("p", { class: "muted small" }, `bestarm ${description.info.version}, OpenAPI ${description.openapi}`),
      h("div", { class: "toolbar" }, h("label", { for: "find-request" }, "Find requests"), search, count),
      requests,
      h("section", { class: "cards" }, h("h2", {}, "Schemas"),
        Object.entries(description.components.schemas).sort(([a], [b]) => a.localeCompare(b))
          .map(([name, schema]) => schemaCard(name, schema)))));
  filter(requests, count, "");
  // The page was empty when the browser looked for it.
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}
