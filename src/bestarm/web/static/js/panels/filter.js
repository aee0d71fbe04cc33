// Which arms the charts and the table show: by name, reason and verdict.

import { h, newId } from "../library/dom.js";
import { badge } from "../library/markers.js";
import { ASIDE, count, VERDICTS } from "../library/words.js";

const FEW = 12;

/** `changed` is called when the user has chosen others. */
export function filterPanel(changed) {
  const hidden = new Set();
  const labels = new Map();
  let text = "";

  const search = h("input", { id: newId("find"), type: "search", placeholder: "Part of a name or reason", autocomplete: "off" });
  search.addEventListener("input", () => { text = search.value.trim().toLowerCase(); changed(); });
  const chips = h("fieldset", { class: "chips" }, h("legend", { class: "sr" }, "Show those that are"));
  for (const verdict of VERDICTS) {
    const box = h("input", { type: "checkbox", checked: true });
    const label = h("span", {});
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(verdict);
      else hidden.add(verdict);
      changed();
    });
    labels.set(verdict, label);
    chips.append(h("label", { class: "chip" }, box, badge(verdict), label));
  }
  const element = h("div", { class: "toolbar", role: "search", "aria-label": "What the charts and the table show" },
    h("label", { for: search.id, class: "sr" }, "Find by name or reason"), search, chips);

  return {
    element,
    update(status) {
      const counts = Object.fromEntries(VERDICTS.map((verdict) => [verdict, 0]));
      for (const arm of status.arms) counts[arm.verdict] += 1;
      for (const [verdict, label] of labels) {
        label.textContent = `${verdict} ${count(counts[verdict])}`;
        label.parentElement.hidden = ASIDE.includes(verdict) && counts[verdict] === 0;
      }
      element.hidden = status.arms.length <= FEW;
    },
    chosen: (arms) => arms.filter((arm) => !hidden.has(arm.verdict) &&
      (!text || arm.name.toLowerCase().includes(text) || arm.reason.toLowerCase().includes(text))),
  };
}
