// The marker of each verdict: they differ in shape, so that color is not needed to tell them apart.

import { s } from "./dom.js";

export function marker(verdict, x, y, answer = false) {
  if (answer) {
    const points = Array.from({ length: 10 }, (_, k) => {
      const radius = k % 2 ? 3.4 : 8;
      const angle = (Math.PI / 5) * k - Math.PI / 2;
      return `${(x + radius * Math.cos(angle)).toFixed(2)},${(y + radius * Math.sin(angle)).toFixed(2)}`;
    });
    return s("polygon", { class: "marker star", points: points.join(" ") });
  }
  switch (verdict) {
    case "feasible":
      return s("circle", { class: "marker solid", cx: x, cy: y, r: 5 });
    case "infeasible":
      return s("path", { class: "marker cross", d: `M${x - 4.5} ${y - 4.5}l9 9m0 -9l-9 9` });
    case "worse":
      return s("path", { class: "marker solid", d: `M${x - 5.5} ${y - 4}h11l-5.5 9.5z` });
    case "baseline":
      return s("rect", { class: "marker solid", x: x - 4.5, y: y - 4.5, width: 9, height: 9 });
    default:
      return s("circle", { class: "marker hollow", cx: x, cy: y, r: 4.5 });
  }
}

/** A value that is saved and does not count yet. */
export const hollow = (x, y) => s("circle", { class: "marker waiting", cx: x, cy: y, r: 3.6 });

/** The same for use in text and tables. */
export const hollowBadge = () => s("svg", { class: "glyph", width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" }, hollow(6, 6));

/** The marker alone, for use in text and tables. */
export function badge(verdict, answer = false) {
  return s("svg", { class: "glyph", width: 18, height: 18, viewBox: "0 0 18 18", "aria-hidden": "true" },
    s("g", { class: `arm ${verdict}` }, marker(verdict, 9, 9, answer)));
}
