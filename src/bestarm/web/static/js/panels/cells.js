// The cells of the grid of tests: one for each test that is out, and one for each saved result that waits on its plate.

import { h, named, replace, setText } from "../library/dom.js";
import { metricsOf, readingOf, valueBoxes } from "../library/measuring.js";
import { readTyped } from "../library/numbers.js";
import { duration, ENDED, exact } from "../library/words.js";

/** The block that a test is in, and where in it: its row and column, from 1, if the block is a plate. Null without blocks. */
export function wellOf(test, blocks) {
  const found = blocks && /^([^]*) (\S+)$/.exec(test.item ?? "");
  if (!found) return null;
  const [, label, place] = found;
  const well = /^([A-Z]{1,2})(\d{1,2})$/.exec(place);
  if (!well) return { label, place };
  return { label, place, letters: well[1], row: [...well[1]].reduce((sum, letter) => 26 * sum + letter.charCodeAt(0) - 64, 0), column: Number(well[2]) };
}

/** Who holds a test, since when, and until when. */
function heldWords(test) {
  const now = Date.now() / 1000;
  const who = named(test.holder || "no holder");
  const again = test.attempts > 1 ? `, attempt ${test.attempts}` : "";
  const ago = `${duration(now - test.since)}${again}`;
  if (test.expires === 0) return ["free: last held by ", who, again];
  if (test.aside) return ["set aside: the attempt of ", who, ` ${ENDED[test.aside]} ${ago} ago`, test.reason ? [": ", h("bdi", {}, test.reason)] : ""];
  const when = !test.due ? "" : test.due < now ? `; wanted to tell it ${duration(now - test.due)} ago` : `; due in ${duration(test.due - now)}`;
  return [who, ` for ${ago}${test.expires === null ? "" : ", at work"}${when}`];
}

/** What a cell is about: the test, the arm, the metric unless it is said at the boxes, and the place. */
function titleOf(test, well, showsMetric) {
  const place = test.item === null || test.item === undefined ? null
    : well ? h("span", { class: "well" }, h("span", { class: "sr" }, `${well.label} `), well.row ? "" : "place ", well.place)
      : h("span", { class: "well" }, /^\d+$/.test(test.item) ? "item " : "", named(test.item));
  return [h("span", { class: "sr" }, "Result of test "), h("span", { class: "number" }, test.id), h("span", { class: "sr" }, ": "),
    h("strong", { class: "of" }, named(test.arm)), " ", showsMetric ? h("span", { class: "metric" }, named(test.metric)) : h("span", { class: "sr" }, named(test.metric)), " ", place];
}

const hover = (test) => [test.arm, test.metric, test.item].filter(Boolean).join(", ");

/** A test that is out, with a box for each of its values. `words(metric)` says what they are. */
export function testCell(test, blocks, words) {
  const metrics = metricsOf(test);
  const several = metrics.length > 1;
  const id = `result-${test.id}`;
  const well = wellOf(test, blocks);
  const values = valueBoxes(metrics, { id, single: null, described: `${id}-more`, words, inGrid: true });
  const wrong = h("p", { class: "error", id: `${id}-about` });
  const title = titleOf(test, well, !several);
  if (several) {
    values.element.removeAttribute("aria-label");
    values.element.setAttribute("aria-labelledby", `${id}-title`);
  }
  for (const part of [values.element, values.first, values.boxes[0].hint]) part?.setAttribute("data-needs", "work");
  const pick = h("input", { type: "checkbox", class: "pick", "aria-label": `Choose test ${test.id}: ${hover(test)}` });
  const held = h("span", { class: "held", id: `${id}-more` });
  const element = h("li", { class: several ? "cell several" : "cell", title: hover(test) },
    h("div", { class: "what" }, pick, several ? h("span", { id: `${id}-title`, class: "title" }, title) : h("label", { for: values.first.id, class: "title" }, title)),
    several ? values.element : [values.first, values.boxes[0].hint],
    held, several ? wrong : values.boxes[0].wrong);
  const cell = {
    id: test.id, test, metrics, well, values, pick, element,
    say: (text) => setText(wrong, text),
    /** Say what is wrong with the test, at its box if there is one. */
    mark(reason) {
      values.unmark();
      cell.say(several ? reason || "" : "");
      if (reason && !several) values.boxes[0].mark(reason);
    },
    /** Say who holds it, and return the words. */
    hold() {
      replace(held, heldWords(cell.test));
      return held.textContent;
    },
    /** What most of the list have in common is said above it, and here to readers of the screen only. */
    holdAs(common) { held.classList.toggle("sr", held.textContent === common); },
  };
  return cell;
}

/** A result that is saved and waits to be counted, in its place on the plate. */
export function savedCell(result, blocks, words) {
  const well = wellOf(result, blocks);
  const metrics = Object.keys(result.values);
  const several = metrics.length > 1;
  return {
    id: result.id, metrics, well, isSaved: true,
    element: h("li", { class: several ? "cell several saved" : "cell saved", title: `${hover(result)}: saved, not counted yet` },
      h("div", { class: "what" }, h("span", { class: "title" }, titleOf(result, well, !several))),
      metrics.map((metric) => h("span", { class: "kept" }, several ? h("span", { class: "metric" }, named(metric)) : null, h("span", { class: "kept-value" }, exact(result.values[metric])))),
      h("span", { class: "sr" }, " saved, not counted yet")),
    /** Whether a text says the same. */
    says: (text, box, commas) => readTyped(text, { ...readingOf(words(metrics[box])), commas }).value === result.values[metrics[box]],
  };
}

/** What most of the texts are, if not all differ. */
function mostCommon(texts) {
  const numbers = new Map();
  for (const text of texts) numbers.set(text, (numbers.get(text) ?? 0) + 1);
  const [found] = [...numbers].sort((a, b) => b[1] - a[1]);
  return found && found[1] > 1 ? found[0] : null;
}

/** The list of the cells of one block, or of all tests of a study without blocks. */
export function cellList() {
  const title = h("h4", {});
  const about = h("span", { class: "muted small" });
  const head = h("div", { class: "block-head", hidden: true }, title, about);
  const list = h("ul", { class: "cells" });
  const marks = new Map();

  /** A letter beside a row, or a number above a column. The names of cells have them, so readers skip these. */
  function mark(row, column, text) {
    const key = `${row} ${column}`;
    if (!marks.has(key)) {
      const element = h("li", { class: "axis-mark", "aria-hidden": "true" });
      element.style.gridRow = row;
      element.style.gridColumn = column;
      marks.set(key, element);
    }
    setText(marks.get(key), String(text));
    return marks.get(key);
  }

  return {
    element: h("div", { class: "block" }, head, h("div", { class: "plate-box" }, list)),
    show(cells) {
      const wells = cells.map(({ well }) => well).filter((well) => well?.row);
      const isPlate = wells.length > 0;
      const label = cells[0]?.well?.label ?? null;
      const columns = isPlate ? Math.max(...wells.map(({ column }) => column)) : 0;
      const out = cells.filter((cell) => !cell.isSaved);
      const held = out.map((cell) => cell.hold());
      const common = mostCommon(held);
      for (const cell of out) cell.holdAs(common);
      const saved = cells.length - out.length;
      head.hidden = label === null && common === null;
      title.hidden = label === null;
      if (label !== null) replace(title, named(label));
      setText(about, [saved ? `${saved} of ${cells.length} saved, which count when the rest is there or given up` : null,
        common && held.some((text) => text !== common) ? `${common}, unless stated` : common].filter(Boolean).join(" · "));
      list.classList.toggle("plate", isPlate);
      list.style.setProperty("--columns", columns);
      const heads = !isPlate ? [] : [...Array.from({ length: columns }, (_, k) => mark(1, k + 2, k + 1)),
        ...[...new Map(wells.map((well) => [well.row, well.letters]))].map(([row, letters]) => mark(row + 1, 1, letters))];
      for (const { element, well } of cells) {
        if (!isPlate) break;
        element.style.gridRow = well.row + 1;
        element.style.gridColumn = well.column + 1;
      }
      const wanted = [...heads, ...cells.map(({ element }) => element)];
      for (const child of [...list.children]) if (!wanted.includes(child)) child.remove();
      wanted.forEach((child, k) => { if (list.children[k] !== child) list.insertBefore(child, list.children[k] || null); });
    },
  };
}
