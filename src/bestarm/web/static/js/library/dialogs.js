// Small questions in a dialog of the page.

import { post } from "./api.js";
import { h, newId, replace } from "./dom.js";
import { typed } from "./fields.js";
import { visitorName } from "./visitor.js";

/** The error is shown elsewhere in the dialog. */
const STAY = Symbol("stay");

function open(title, children, confirm, read) {
  const heading = h("h2", { id: newId("dialog") }, title);
  const error = h("p", { class: "error", role: "alert" });
  const cancel = h("button", { type: "button" }, "Cancel");
  const form = h("form", { method: "dialog" }, heading, children, error,
    h("div", { class: "buttons end" }, cancel, h("button", { class: "primary" }, confirm)));
  const dialog = h("dialog", { "aria-labelledby": heading.id }, form);
  document.body.append(dialog);
  return new Promise((resolve) => {
    let result = null;
    cancel.addEventListener("click", () => dialog.close());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      replace(error);
      try {
        const found = await read();
        if (found === STAY) return;
        result = found;
        dialog.close();
      } catch (problem) {
        replace(error, problem.message);
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    dialog.showModal();
  });
}

/** The reason, which may be empty, or null if the user canceled. */
export function askReason(title, explanation) {
  const input = h("input", { id: newId("reason"), maxlength: 500, autocomplete: "off", class: "wide" });
  return open(title,
    [h("p", {}, explanation), h("div", { class: "field" }, h("label", { for: input.id }, "Reason (optional)"), input)],
    "Confirm", async () => input.value.trim());
}

/**
 * Have `send()` done. If the service finds that values lie far outside the others, show what it says, and call
 * `confirmed()` once the visitor has said that they are as measured. Null if the visitor canceled.
 */
export async function unlessFar(send, confirmed) {
  try {
    return await send();
  } catch (error) {
    if (error.kind !== "far value") throw error;
    const asked = error.complaints.map(({ sentence }) => h("li", {}, h("bdi", {}, sentence)));
    const isRight = await open(asked.length > 1 ? "Are these values right?" : "Is this value right?",
      [h("ul", { class: "far" }, asked), h("p", {}, "Correct mistyped values. Measured values must be recorded as they are, however surprising.")],
      "Record as typed", async () => true);
    return isRight ? confirmed() : null;
  }
}

/** Record what the visitor typed; `typed` has it as the check takes it. Null if the visitor canceled. */
export async function recordTyped(base, typed, record) {
  return unlessFar(async () => {
    await post(`${base}/check-far`, { ...typed, holder: visitorName() });
    return record();
  }, record);
}

/** Ask for how many; `save(number)` may complain. */
export function askHowMany(title, explanation, label, suggested, save) {
  const input = h("input", { id: newId("many"), inputmode: "numeric", autocomplete: "off", class: "tiny", value: suggested });
  return open(title,
    [h("p", {}, explanation), h("div", { class: "field" }, h("label", { for: input.id }, label), input)],
    "Confirm", async () => {
      await save(typed(input.value));
      return true;
    });
}

/** Ask for corrected values, in the boxes for them; `save(value, reason)` may complain, or be null if it was not done. */
export function askCorrection(what, values, save) {
  const reason = h("input", { id: newId("reason"), maxlength: 500, autocomplete: "off", class: "wide" });
  return open("Correct a result",
    [h("p", {}, what, " The old result stays in the log. Look for mistakes by a rule that does not depend on values: correcting only surprising values voids the guarantee."),
      values.element,
      h("div", { class: "field" }, h("label", { for: reason.id }, "Reason (optional)"), reason)],
    "Correct", async () => {
      values.unmark();
      if (!values.check()) return STAY;
      if (values.isEmpty()) {
        values.first.focus();
        throw new Error("Type at least one value.");
      }
      try {
        if (await save(values.read(), reason.value.trim()) === null) return STAY;
      } catch (problem) {
        const box = (problem.complaints ?? []).map((one) => values.about(one)).find(Boolean);
        if (!box) throw problem;
        box.mark(problem.complaints[0].reason);
        box.input.focus();
        return STAY;
      }
      return true;
    });
}
