// Shares of one as bars. They are decorations beside the same figure in words, and hidden from screen readers.

import { s } from "./dom.js";

function bar(share, isFull, mark) {
  const width = 100 * Math.min(Math.max(share || 0, 0), 1);
  return s("svg", { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "meter-rail", width: 100, height: 6 }),
    s("rect", { class: isFull ? "meter-bar full" : "meter-bar", width, height: 6 }),
    mark);
}

/** How much there is of what is needed. */
export function shareBar(share) {
  return bar(share, share >= 1, null);
}

/** How sure we are, with a mark at what was asked for. */
export function confidenceBar(confidence, target) {
  return bar(confidence, confidence >= target, s("rect", { class: "meter-mark", x: Math.min(100 * target, 99.4), width: 0.6, height: 6 }));
}
