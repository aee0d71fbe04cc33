// What one test yields and what it is made on: in words, and as the boxes that its results are typed into.

import { h, named, newId, replace } from "./dom.js";
import { typed } from "./fields.js";
import { exact, plural } from "./words.js";

/** The metrics of a test. The service names them where a test of the study yields several. */
export const metricsOf = (test) => test.metrics ?? [test.metric];

/** A test by name: metric, arm and, if it is made on one, the item. */
export function testWords(test, name = named) {
  const on = test.item === null || test.item === undefined ? null : [" on item ", name(test.item)];
  return [name(test.metric), " of ", name(test.arm), on];
}

/** Names as a list in words. */
function listed(names) {
  return names.map((name, k) => [k === 0 ? "" : k === names.length - 1 ? " and " : ", ", named(name)]);
}

/** Which tests yield several metrics; `measured` has the metrics of each. Nothing if each is measured on its own. */
export function aboutMeasurements(measured) {
  const several = measured.filter((metrics) => metrics.length > 1);
  const alone = measured.filter((metrics) => metrics.length === 1).map(([metric]) => metric);
  if (!several.length) return [];
  return [...several.map((metrics) => ["One test yields ", listed(metrics), " together, all or none. "]),
    alone.length ? ["Measured alone: ", listed(alone), ". "] : ""];
}

/** Which question is answered with this many items. */
export function aboutItems(count, repeats) {
  const items = plural(count, "item");
  return repeats
    ? `Each measurement is made on one of ${items}, drawn at random again and again, in the same order for every arm; the question is about the mean over all items and over the scatter of each.`
    : `Each arm is measured on the same ${items}, in the same random order; the question is about the mean over these items.`;
}

/** How many items a plan has; null if none. */
export function itemCount(plan) {
  if (plan.items === null || plan.items === undefined) return null;
  return typeof plan.items === "number" ? plan.items : plan.items.length;
}

/** How many tests of an arm count. One that yields several metrics is one test. */
export function testsOf(status, arm) {
  return status.measured.reduce((sum, { places }) => sum + arm.metrics[places[0]].tests, 0);
}

/** How many tests count, of all arms. */
export const countedTests = (status) => status.arms.reduce((sum, arm) => sum + testsOf(status, arm), 0);

/** The values of a test: of one metric the number, of several each with its name. */
export function valueWords(event) {
  if (event.values && Object.keys(event.values).length > 1) {
    return Object.entries(event.values).map(([metric, value]) => h("div", { class: "told" }, named(metric), " ", h("strong", {}, exact(value))));
  }
  return event.value === null || event.value === undefined ? "" : exact(event.value);
}

/** Why a box must not stay empty when others are filled in. */
export const TOGETHER = "A test is told all its values at once.";

/**
 * A box for each metric of a test. `words(metric)` has the hint and the sentence on its results; a test of one metric has
 * one box, whose label is `single`. With `partly`, boxes may stay empty.
 */
export function valueBoxes(metrics, { id = newId("value"), words, single = "Result", described = null, placeholders = null, partly = false }) {
  const several = metrics.length > 1;
  const boxes = metrics.map((metric, k) => {
    const at = several ? `${id}-${k + 1}` : id;
    const input = h("input", { id: at, inputmode: "decimal", autocomplete: "off", class: "value", placeholder: placeholders?.[k] ?? words(metric).hint });
    const wrong = h("p", { class: "error", id: `${at}-wrong` });
    const hint = h("span", { class: "sr", id: `${at}-hint` }, words(metric).sentence);
    const label = several ? h("label", { for: at }, named(metric)) : single === null ? null : h("label", { for: at }, single);
    const box = { metric, input, hint, wrong };
    const describe = () => input.setAttribute("aria-describedby", [wrong.textContent ? wrong.id : null, described, hint.id].filter(Boolean).join(" "));
    box.mark = (reason) => {
      replace(wrong, reason || "");
      if (reason) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
      describe();
    };
    describe();
    box.element = h("div", { class: "field" }, label, input, hint, wrong);
    return box;
  });
  const blank = (box) => box.input.value.trim() === "";
  // Enter moves to the next box, and saves from the last one.
  boxes.forEach((box) => box.input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || partly || blank(box)) return;
    const next = boxes.find(blank);
    if (!next) return;
    event.preventDefault();
    next.input.focus();
  }));
  return {
    boxes,
    first: boxes[0].input,
    element: several ? h("div", { class: "values", role: "group", "aria-label": "Results" }, boxes.map((box) => box.element)) : boxes[0].element,
    isEmpty: () => boxes.every(blank),
    clear() {
      for (const box of boxes) {
        box.input.value = "";
        box.mark(null);
      }
    },
    unmark() { for (const box of boxes) box.mark(null); },
    /** Whether all values are there. If not, the empty boxes say so, and the first one gets the focus. */
    check() {
      const missing = partly ? [] : boxes.filter(blank);
      for (const box of missing) box.mark("is missing");
      missing[0]?.input.focus();
      return !missing.length;
    },
    /** A number, or numbers by metric; other text as it is, for the service to refuse. */
    read() {
      if (!several) return typed(boxes[0].input.value);
      return Object.fromEntries(boxes.filter((box) => !blank(box)).map((box) => [box.metric, typed(box.input.value)]));
    },
    /** The box that a complaint of the service is about, if it is one of these. */
    about({ field, value, sentence }) {
      const below = /\.value\.([^]*)$|\.values\.([^]*)$|^value\.([^]*)$/.exec(field || "");
      const metric = below && (below[1] ?? below[2] ?? below[3]);
      if (metric) return boxes.find((box) => box.metric === metric) ?? null;
      const says = (box) => ["'", '"'].some((quote) => sentence?.startsWith(`value of ${quote}${box.metric}${quote} = `));
      return boxes.find((box) => typed(box.input.value) === value && says(box)) ?? null;
    },
  };
}
