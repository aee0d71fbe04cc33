// Shares of one as bars. They are decorations beside the same figure in words, and hidden from screen readers.

import { s } from "./dom.js";

/** How much there is of what is needed. */
export function shareBar(share) {
  const width = 100 * Math.min(Math.max(share || 0, 0), 1);
  return s("svg", { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "meter-rail", width: 100, height: 6 }),
    s("rect", { class: share >= 1 ? "meter-bar full" : "meter-bar", width, height: 6 }));
}
