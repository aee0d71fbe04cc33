// How sure we are, as a bar with a mark at what was asked for.

import { s } from "./dom.js";

/** A decoration beside the same figure in words, hidden from screen readers. */
export function confidenceBar(confidence, target) {
  const share = Math.min(Math.max(confidence || 0, 0), 1);
  return s("svg", { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "meter-rail", width: 100, height: 6 }),
    s("rect", { class: share >= target ? "meter-bar full" : "meter-bar", width: 100 * share, height: 6 }),
    s("rect", { class: "meter-mark", x: Math.min(100 * target, 99.4), width: 0.6, height: 6 }));
}
