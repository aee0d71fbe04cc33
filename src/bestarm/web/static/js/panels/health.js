// Whether the results contradict what the guarantee rests on: a line if nothing does, a list of sentences if something does.

import { announce, h, replace, sentence } from "../library/dom.js";
import { count } from "../library/words.js";

const SIGNS = { broken: "✗", doubtful: "?", hint: "i" };
const WORDS = { broken: "Broken", doubtful: "Doubtful", hint: "Hint" };

export function healthPanel() {
  const element = h("section", { class: "health", "aria-label": "Health of the data" });
  let drawn = null;
  let heard = null;

  function item(note) {
    return h("li", { class: `note ${note.severity}` },
      h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[note.severity]),
      h("span", {}, h("strong", {}, `${note.kind === "remark" && note.severity === "doubtful" ? "Note" : WORDS[note.severity]}: `), sentence(note.sentence, [note.arm, note.metric])));
  }

  function update(status) {
    const { health } = status;
    const now = JSON.stringify([health, status.tests > 0]);
    if (now === drawn) return;
    drawn = now;
    if (!status.tests) {
      replace(element, h("p", {}, "There is none yet."));
    } else if (!health.notes.length) {
      replace(element, h("p", {}, `No sign of trouble: ${count(health.checks)} checks.`));
    } else {
      replace(element, h("ul", { class: "notes" }, health.notes.map(item)));
    }
    // Screen readers announce each new finding once, but not those that were there when the page was opened.
    const found = new Set(health.notes.map((note) => note.sentence.split(":")[0] + note.kind));
    const fresh = health.notes.find((note) => note.severity !== "hint" && heard && !heard.has(note.sentence.split(":")[0] + note.kind));
    heard = found;
    if (fresh) announce(fresh.sentence, { urgent: true });
  }

  return { element, update };
}
