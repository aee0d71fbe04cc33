// What one test yields and what it is made on: in words, and as the boxes that its results are typed into.

import { h, named, newId, replace } from "./dom.js";
import { noun, nounOf } from "./nouns.js";
import { hasComma, readTyped } from "./numbers.js";
import { exact, plural } from "./words.js";

/** The metrics of a test. The service names them where a test of the study yields several. */
export const metricsOf = (test) => test.metrics ?? [test.metric];

/** A test by name: metric, arm and, if it is made on one, the item. */
export function testWords(test, name = named) {
  const on = test.item === null || test.item === undefined ? null : [/^\d+$/.test(test.item) ? " on item " : " on ", name(test.item)];
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
  return [...several.map((metrics) => ["One test gives ", listed(metrics), " together, all or none. "]),
    alone.length ? ["Measured alone: ", listed(alone), ". "] : ""];
}

/** Which question is answered with this many items. */
export function aboutItems(count, repeats) {
  const items = plural(count, "item");
  return repeats
    ? `Each measurement is made on one of ${items}, drawn at random again and again, in the same order for all; the question is about the mean over all items and over the scatter of each.`
    : `All are measured on the same ${items}, in the same random order; the question is about the mean over these items.`;
}

/** How tests are made in blocks, in a study that calls its options so. The words are those of `about_blocks` in blocks.py. */
export function aboutBlocks({ name, size, same_for_all: same }, option) {
  const counts = same ? `Each test of ${option.a} is compared with one test of each other ${option.one} in its ${name}.`
    : `The mean of the tests of ${option.a} in a ${name} counts as one result.`;
  return `Tests are made in ${noun(name).many} of ${size}, and ${option.many} are compared within each ${name}: what a ${name} adds to all its tests cancels. ${counts}`;
}

/** What the guarantee rests on, in short; in blocks as `on_blocks` in blocks.py says it. */
export function assumed({ blocks, ...plan }) {
  if (!blocks) return "tests are independent and scatter as stated";
  return `what a ${blocks.name} adds is the same for all ${nounOf(plan).many}${blocks.same_for_all ? "" : ", or differs only by chance"}, and tests within it scatter as stated`;
}

/** Whether each test of a plan has a place: it is made on an item, or in a block. */
export const hasPlaces = (plan) => itemCount(plan) !== null || Boolean(plan.blocks);

/** How many items a plan has; null if none. */
export function itemCount(plan) {
  if (plan.items === null || plan.items === undefined) return null;
  return typeof plan.items === "number" ? plan.items : plan.items.length;
}

/** How many tests of an arm count. One that yields several metrics is one test, and the score of a judge is none. */
export function testsOf(status, arm) {
  return status.measured.reduce((sum, { places }) => sum + (places.length ? arm.metrics[places[0]].tests : 0), 0);
}

/** The values of a test: of one metric the number, of several each with its name. */
export function valueWords(event) {
  if (event.values && Object.keys(event.values).length > 1) {
    return Object.entries(event.values).map(([metric, value]) => h("div", { class: "told" }, named(metric), " ", h("strong", {}, exact(value))));
  }
  return event.value === null || event.value === undefined ? "" : exact(event.value);
}

/** Why a box must not stay empty when others are filled in. */
export const TOGETHER = "A test is told all its values at once.";

/** How values of a metric are read, by what the service says about its results: see `readTyped`. */
export const readingOf = ({ low, high, words }) => ({ rate: low !== null && low >= 0 && high !== null && high <= 1, words });

/**
 * A box for each metric of a test. `words(metric)` has the hint and the sentence on its results; a test of one metric has
 * one box, whose label is `single`. With `partly`, boxes may stay empty. In a grid, which has keys of its own, Enter is
 * not handled.
 */
export function valueBoxes(metrics, { id = newId("value"), words, single = "Result", described = null, placeholders = null, partly = false, inGrid = false }) {
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
    /** What was typed: `{ value }`, or `{ reason }`. `commas` says whether other values have decimal commas. */
    box.read = (commas) => readTyped(input.value, { ...readingOf(words(metric)), commas });
    box.element = h("div", { class: "field" }, label, input, hint, wrong);
    return box;
  });
  const blank = (box) => box.input.value.trim() === "";
  // Enter moves to the next box, and saves from the last one.
  boxes.forEach((box) => box.input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || partly || inGrid || blank(box)) return;
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
    /** How many boxes are filled in. */
    filled: () => boxes.filter((box) => !blank(box)).length,
    /** What was typed, by metric, and to put it back. */
    texts: () => Object.fromEntries(boxes.filter((box) => !blank(box)).map((box) => [box.metric, box.input.value])),
    restore(texts) { for (const box of boxes) box.input.value = texts[box.metric] ?? ""; },
    clear() {
      for (const box of boxes) {
        box.input.value = "";
        box.mark(null);
      }
    },
    unmark() { for (const box of boxes) box.mark(null); },
    /** Whether some value has a decimal comma for certain. */
    hasComma: () => boxes.some((box) => hasComma(box.input.value)),
    /** Whether a box is empty that must not be. */
    lacksSome: () => !partly && boxes.some(blank),
    /** Whether all values are there and can be read. If not, each box says so, and the first one gets the focus. */
    check(commas = boxes.some((box) => hasComma(box.input.value))) {
      const reason = (box) => (blank(box) ? partly ? null : "is missing" : box.read(commas).reason);
      const wrong = boxes.filter(reason);
      for (const box of wrong) box.mark(reason(box));
      wrong[0]?.input.focus();
      return !wrong.length;
    },
    /** A number, or numbers by metric, once they have been checked. */
    read(commas = boxes.some((box) => hasComma(box.input.value))) {
      const values = boxes.filter((box) => !blank(box)).map((box) => [box.metric, box.read(commas).value]);
      return several ? Object.fromEntries(values) : values[0][1];
    },
    /** The box that a complaint of the service is about, if it is one of these. */
    about({ field }) {
      const below = /\.value\.([^]*)$|\.values\.([^]*)$|^value\.([^]*)$/.exec(field || "");
      const metric = below && (below[1] ?? below[2] ?? below[3]);
      if (metric) return boxes.find((box) => box.metric === metric) ?? null;
      return !several && /(^|\.)value$/.test(field || "") ? boxes[0] : null;
    },
  };
}
