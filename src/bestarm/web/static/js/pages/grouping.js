// The parts of the form for a new study that say what one test yields, and what it is made on.

import { h, named, newId, replace } from "../library/dom.js";
import { decimal, optional, typed } from "../library/fields.js";
import { aboutBlocks, aboutItems } from "../library/measuring.js";

/** A box to tick, with its label. */
function tick(label, attributes = {}) {
  const box = h("input", { type: "checkbox", id: newId("tick"), ...attributes });
  return { box, element: h("label", { class: "check", for: box.id }, box, h("span", {}, label)) };
}

/** The lines that are not empty, each with its number. */
export function linesOf(area) {
  return area.value.split("\n").map((line, k) => ({ name: line.trim(), line: k + 1 })).filter((one) => one.name !== "");
}

/**
 * Metrics that are measured together. `parts()` has the controls of all metrics that are named in the form, and of
 * their costs: what is measured together has one cost, which is stated here.
 */
export function measurementFields(fields, parts) {
  const list = h("div", { class: "new" });
  const more = h("button", { type: "button", onclick: () => add() }, "Measure metrics together");
  let groups = [];
  let serial = 0;

  /** The metrics named so far, each once, with the controls that name it. */
  function metrics() {
    const found = new Map();
    for (const { metric } of parts()) {
      const name = metric.value.trim();
      if (name) found.set(name, [...(found.get(name) ?? []), metric]);
    }
    return found;
  }

  const chosen = (group, known = metrics()) => [...known].filter(([, controls]) => controls.some((one) => group.ticked.has(one))).map(([name]) => name);

  function add() {
    const index = serial++;
    const path = `measurements[${index}]`;
    const boxes = h("div", { class: "ticks", role: "group", tabindex: -1, id: newId("metrics"), "aria-label": "Metrics of this measurement" });
    const error = h("p", { class: "error", id: `${boxes.id}-error` });
    boxes.setAttribute("aria-describedby", error.id);
    const cost = decimal({ placeholder: "1" });
    const title = h("span", {});
    const remove = h("span", { class: "sr" });
    const group = { index, ticked: new Set(), boxes, cost, title, remove, drawn: null };
    group.element = h("fieldset", { class: "card" }, h("legend", {}, h("span", { class: "legend-row" }, title,
      h("button", { type: "button", class: "small", onclick: () => drop(group) }, "Remove", remove))),
    h("div", { class: "grid-2" },
      h("div", { class: "field" }, h("span", { class: "label" }, "One test gives"), boxes, error),
      fields.add(`${path}.cost`, "Cost of one test (optional)", cost)));
    fields.controls.set(`${path}.metrics`, { control: boxes, error, label: "One test gives" });
    groups.push(group);
    list.append(group.element);
    draw();
    (boxes.querySelector("input") ?? cost).focus();
  }

  function drop(group) {
    groups = groups.filter((other) => other !== group);
    group.element.remove();
    fields.forget(`measurements[${group.index}]`);
    draw();
    more.focus();
  }

  function drawBoxes(group, known) {
    const now = JSON.stringify([...known.keys()]);
    if (group.drawn === now) return;
    group.drawn = now;
    replace(group.boxes, known.size ? [...known].map(([name, controls]) => {
      const { box, element } = tick(named(name), { checked: controls.some((one) => group.ticked.has(one)) });
      box.addEventListener("change", () => { for (const one of controls) group.ticked[box.checked ? "add" : "delete"](one); });
      return element;
    }) : h("span", { class: "muted" }, "Name the metrics above first."));
  }

  /** As the form now is: which metrics there are, and whose cost is stated here. */
  function draw() {
    const known = metrics();
    groups.forEach((group, k) => {
      replace(group.title, `Measurement ${k + 1}`);
      replace(group.remove, ` measurement ${k + 1}`);
      drawBoxes(group, known);
    });
    more.hidden = known.size < 2 && !groups.length;
    const together = new Set(groups.flatMap((group) => chosen(group, known)));
    for (const { metric, cost, usual = "1" } of parts()) {
      cost.disabled = together.has(metric.value.trim());
      cost.placeholder = cost.disabled ? "see the measurement" : usual;
    }
  }

  return {
    element: h("div", { class: "new" }, list, h("div", {}, more)),
    draw,
    /** The place in the form of what the service calls measurement `k`. */
    index: (k) => groups[k]?.index,
    read: () => groups.map((group) => ({ metrics: chosen(group), cost: optional(group.cost) })),
    /** What each test yields, as far as the form says. */
    measured() {
      const known = metrics();
      const together = groups.map((group) => chosen(group, known)).filter((names) => names.length);
      const grouped = new Set(together.flat());
      return [...together, ...[...known.keys()].filter((name) => !grouped.has(name)).map((name) => [name])];
    },
  };
}

/** What arms are measured on: nothing in particular, or items that are the same for all. `option()` is the noun for an arm. */
export function itemFields(fields, option) {
  const kind = h("select", {}, [["none", "Nothing in particular"], ["number", "Items, numbered"], ["names", "Items, by name"], ["blocks", "Plates, days or machines that may differ"]].map(([value, title]) => h("option", { value }, title)));
  const number = decimal({ inputmode: "numeric", placeholder: "500" });
  const names = h("textarea", { rows: 5, spellcheck: "false", placeholder: "question 1\nquestion 2" });
  const attributes = h("textarea", { rows: 3, spellcheck: "false", placeholder: "topic: law, law, history" });
  const again = tick("An item can be measured again, and gives a fresh value");
  const block = h("input", { autocomplete: "off", placeholder: "plate" });
  const size = decimal({ inputmode: "numeric", placeholder: "24" });
  const same = tick("Each adds the same to all: none suits one of them better");
  const most = decimal({ inputmode: "numeric", placeholder: "no limit" });
  const meaning = h("p", { class: "meaning", role: "status" });
  const aboutKind = h("span", {});
  const choice = fields.add("items.kind", "Each measurement is made on", kind, aboutKind);
  const fieldOfNumber = fields.add("items.number", "How many items", number);
  const fieldOfNames = fields.add("items.names", "Items, one on a line", names);
  const fieldOfAttributes = fields.add("attributes", "Attributes (optional)", attributes, "one on a line: its name, a colon, and a value for each item in order; limits can then be on a slice of the items");
  const fieldsOfBlocks = h("div", { class: "grid-2" },
    fields.add("blocks.name", "What it is called", block, "plate, day, machine"),
    fields.add("blocks.size", "How many tests each has", size),
    fields.add("budget.blocks", "At most this many of them (optional)", most),
    h("div", { class: "field" }, same.element, h("p", { class: "hint" }, "If that is true, fewer tests are needed.")),
    h("p", { class: "hint" }, "A limit on yes or no often takes fewer of them if it is stated as a number within a range, from 0 to 1."));
  const repeatsError = h("p", { class: "error", id: `${again.box.id}-error` });
  again.box.setAttribute("aria-describedby", repeatsError.id);
  fields.controls.set("repeats", { control: again.box, error: repeatsError, label: "Repeats" });
  const repeats = h("div", { class: "field" }, again.element, repeatsError);

  function count() {
    if (kind.value === "names") return linesOf(names).length;
    const value = typed(number.value);
    return Number.isInteger(value) && value > 0 ? value : 0;
  }

  const isBlocks = () => kind.value === "blocks";
  const blocks = () => ({ name: block.value.trim(), size: optional(size), same_for_all: same.box.checked });

  /** What is stated so far, in a sentence; nothing before it can be said. */
  function words() {
    if (isBlocks()) return blocks().name && typeof blocks().size === "number" ? aboutBlocks(blocks(), option()) : "";
    return kind.value !== "none" && count() ? aboutItems(count(), again.box.checked) : "";
  }

  function draw() {
    const has = kind.value === "number" || kind.value === "names";
    fieldsOfBlocks.hidden = !isBlocks();
    fieldOfNumber.hidden = kind.value !== "number";
    fieldOfNames.hidden = kind.value !== "names";
    repeats.hidden = !has;
    fieldOfAttributes.hidden = !has;
    const told = kind.value === "none" ? "Every measurement is fresh; the question is about the mean of all that could be made." : words();
    if (meaning.textContent !== told) replace(meaning, told);
    replace(aboutKind, isBlocks() ? "what is measured together shares something unknown" : "questions, inputs or patients, the same for all");
    // A complaint about items belongs to the control that states them.
    fields.controls.set("items", has ? fields.controls.get(kind.value === "number" ? "items.number" : "items.names") : fields.controls.get("items.kind"));
  }
  draw();

  return {
    element: h("fieldset", { class: "card" }, h("legend", {}, "What is measured on what"),
      h("div", { class: "grid-2" }, choice, fieldOfNumber), fieldOfNames, fieldOfAttributes, fieldsOfBlocks, repeats, meaning),
    draw,
    isUsed: () => kind.value !== "none",
    /** At most how many blocks; nothing without a limit. */
    most: () => (isBlocks() ? optional(most) : undefined),
    /** In which line an item of the service's list stands; nothing if items are not listed. */
    line: (k) => (kind.value === "names" ? linesOf(names)[k]?.line : undefined),
    words,
    read() {
      if (kind.value === "none") return {};
      if (isBlocks()) return { blocks: blocks() };
      const items = kind.value === "number" ? typed(number.value) : linesOf(names).map((one) => one.name);
      const columns = linesOf(attributes).map(({ name }) => name.split(/:(.*)/s)).map(([name, values = ""]) => [name.trim(), values.split(",").map((value) => value.trim())]);
      return { items, ...(columns.length ? { attributes: Object.fromEntries(columns) } : {}), ...(again.box.checked ? { repeats: true } : {}) };
    },
  };
}
