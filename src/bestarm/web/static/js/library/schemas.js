// Schemas of the service's description, as people read them: what kind of value it is, and within which limits.

import { h } from "./dom.js";

const PLACE = "#/components/schemas/";
const LIMITS = [
  ["minimum", "at least"], ["ge", "at least"], ["exclusiveMinimum", "above"],
  ["maximum", "at most"], ["le", "at most"], ["exclusiveMaximum", "below"], ["lt", "below"],
  ["minLength", "at least", "characters"], ["maxLength", "at most", "characters"],
  ["minItems", "at least", "entries"], ["maxItems", "at most", "entries"],
];

export const schemaId = (name) => `schema-${name}`;

function between(parts, word) {
  return parts.flatMap((part, place) => (place ? [word, part] : [part]));
}

/** What kind of value a schema describes; the names of other schemas are links to them. */
export function kindOf(schema) {
  if (!schema || Object.keys(schema).length === 0) return "anything";
  if (schema.$ref) {
    const name = schema.$ref.replace(PLACE, "");
    return h("a", { href: `#${schemaId(name)}` }, name);
  }
  if (schema.enum) return between(schema.enum.map((value) => h("code", {}, JSON.stringify(value))), " or ");
  if (schema.const !== undefined) return h("code", {}, JSON.stringify(schema.const));
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return between(several.map(kindOf), " or ");
  if (schema.type === "array") return schema.items ? ["list of ", kindOf(schema.items)] : "list";
  if (schema.type === "object" && schema.properties) {
    const fields = Object.entries(schema.properties);
    return ["{", between(fields.map(([name, field]) => [h("code", {}, name), ": ", kindOf(field)]), ", "), "}"];
  }
  if (typeof schema.additionalProperties === "object") return ["object of ", kindOf(schema.additionalProperties)];
  return { integer: "whole number", string: "text", boolean: "true or false" }[schema.type] ?? schema.type ?? "anything";
}

/** Limits and the value that stands in when none is given. */
export function limitsOf(schema) {
  const said = LIMITS.filter(([key]) => schema[key] !== undefined)
    .map(([key, ...words]) => {
      const number = Number(schema[key]).toLocaleString("en", { maximumSignificantDigits: 17 });
      return [words[0], number, ...words.slice(1)].join(" ").replace(/\b1 characters/, "1 character").replace(/\b1 entries/, "1 entry");
    });
  if (schema.default !== undefined && schema.default !== null) said.push(`${JSON.stringify(schema.default)} unless given`);
  return said.join(", ");
}

/** A text of the description: paragraphs, and `code` between backticks. */
export function prose(text, attributes = {}) {
  return (text ?? "").split(/\n\s*\n/).filter(Boolean).map((paragraph) =>
    h("p", attributes, paragraph.split("`").map((part, place) => (place % 2 ? h("code", {}, part) : part))));
}

/** A table of fields: [name, schema, whether it is required, what it is]. */
export function fieldTable(caption, rows) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "sr" }, caption),
      h("thead", {}, h("tr", {}, ["name", "kind", "about"].map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", {}, rows.map(([name, schema, required, about]) => h("tr", {},
        h("th", { scope: "row" }, h("code", {}, name), required ? h("span", { class: "muted small" }, " required") : null),
        h("td", {}, kindOf(schema)),
        h("td", {}, prose(about ?? schema.description), h("p", { class: "muted small" }, limitsOf(schema))))))));
}
