// Boxes as in a spreadsheet: keys that move between them, and where pasted cells go.

const BOX = "input.value";

function placeOf(box) {
  const { left, top, width, height } = box.getBoundingClientRect();
  return { box, x: left + width / 2, y: top + height / 2, width, height };
}

/** The first in the order of what `keys` returns: numbers, the most important first. */
function least(places, keys) {
  const compare = (a, b) => keys(a).map((value, k) => value - keys(b)[k]).find((by) => by !== 0) ?? 0;
  return places.reduce((best, one) => (best === null || compare(one, best) < 0 ? one : best), null)?.box ?? null;
}

/** The nearest box in that direction, by what is on the screen: the layout depends on its width. */
function neighbor(boxes, from, direction) {
  const here = placeOf(from);
  const sign = direction === "Up" || direction === "Left" ? -1 : 1;
  const isUpright = direction === "Up" || direction === "Down";
  const [along, across, size] = isUpright ? ["y", "x", here.width] : ["x", "y", here.height];
  const ahead = boxes.map(placeOf).filter((one) => sign * (one[along] - here[along]) > 4);
  const inLine = ahead.filter((one) => Math.abs(one[across] - here[across]) < size / 2);
  if (isUpright || inLine.length) return least(inLine, (one) => [sign * one[along]]);
  return least(ahead, (one) => [Math.round(sign * one.x / 8), Math.abs(one.y - here.y)]);
}

/** Down, then the top of the next column, then the next list. */
function following(boxes, from) {
  const list = from.closest("ul");
  const near = boxes.filter((box) => box.closest("ul") === list);
  const below = neighbor(near, from, "Down");
  if (below) return below;
  const { x } = placeOf(from);
  const right = near.map(placeOf).filter((one) => one.x - x > 4);
  return least(right, (one) => [Math.round(one.x / 8), one.y]) ?? boxes.slice(boxes.indexOf(from)).find((box) => box.closest("ul") !== list) ?? null;
}

/** Whether an arrow to that side leaves the text: nothing of it lies there, or all of it is selected. */
function leaves(input, direction) {
  const { selectionStart: start, selectionEnd: end, value } = input;
  if (end - start === value.length) return true;
  return start === end && start === (direction === "Left" ? 0 : value.length);
}

/** Enter goes down, arrows move. `atEnd()` is called by Enter in the last box. */
export function moveAsInSheet(area, atEnd) {
  area.addEventListener("keydown", (event) => {
    const input = event.target;
    const direction = /^Arrow(Up|Down|Left|Right)$/.exec(event.key)?.[1];
    if (!input.matches(BOX) || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || (!direction && event.key !== "Enter")) return;
    if (direction && (event.shiftKey || ((direction === "Left" || direction === "Right") && !leaves(input, direction)))) return;
    event.preventDefault();
    const boxes = [...area.querySelectorAll(BOX)].filter((box) => box.offsetParent !== null);
    const next = direction ? neighbor(boxes, input, direction) : event.shiftKey ? neighbor(boxes, input, "Up") : following(boxes, input);
    if (next) {
      next.focus();
      next.select();
    } else if (!direction && !event.shiftKey) atEnd();
  });
}

/**
 * Which cell each pasted text goes to: `{ text, cell, box }`, without a cell where there is none. `cells` are in the order of
 * the sheet, and have a `well` with a row and a column where they are on a plate. It begins at box number `k` of `first`.
 * Texts that are empty are left out.
 */
export function pasteTargets(rows, cells, first, k) {
  const width = Math.max(...rows.map((row) => row.length));
  const start = cells.indexOf(first);
  const { label, row: top, column: left } = first.well ?? {};
  const inWell = (row, column) => cells.find(({ well }) => well?.label === label && well.row === row && well.column === column);
  const lowest = Math.max(...cells.filter(({ well }) => well?.label === label).map(({ well }) => well?.row ?? 0));
  // A column that is too long for the plate is one of a list; so are columns of which each is a metric.
  const areMetrics = k === 0 && first.metrics.length > 1 && width === first.metrics.length;
  const asPlate = top !== undefined && (width === 1 ? top + rows.length - 1 <= lowest : !areMetrics);
  const target = (i, j) => (asPlate ? { cell: inWell(top + i, left + j), box: k } : { cell: cells[start + i], box: k + j });
  const found = rows.flatMap((row, i) => row.map((text, j) => ({ text, ...target(i, j) }))).filter(({ text }) => text !== "");
  return { found, asPlate };
}
