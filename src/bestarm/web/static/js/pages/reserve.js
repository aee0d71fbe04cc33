// Whether options may come later or be taken out: a share of the accepted chance of error is kept for that.

import { h, replace } from "../library/dom.js";
import { price, RESERVE } from "../library/reserve.js";

/**
 * `situation()` says whether the plan allows a reserve, what its options are called, whether it has constraints or
 * items, and the noise of its objective. Until the user chooses, options may come and go where that is cheap.
 */
export function reserveField(fields, situation) {
  const control = h("select", {}, h("option", { value: String(RESERVE) }, `Yes: ${100 * RESERVE}% of the accepted chance of error is kept for them`),
    h("option", { value: "" }, "No: they stay as they are"));
  const hint = h("span", {});
  const element = fields.add("reserve", "May options come later or be taken out?", control, hint);
  let chosen = false;
  control.addEventListener("change", () => { chosen = true; });
  return {
    element,
    draw() {
      const { isPlain, noun, hasConstraints, noise, isOnItems } = situation();
      const { isCheap, words } = price(hasConstraints, noise, isOnItems);
      element.hidden = !isPlain;
      element.querySelector("label").textContent = `May ${noun.many} come later or be taken out?`;
      replace(hint, `Yes ${words}. It can be changed before the first test.`);
      if (!chosen) control.value = isCheap ? String(RESERVE) : "";
    },
    read: () => (situation().isPlain && control.value ? { reserve: Number(control.value) } : {}),
  };
}
