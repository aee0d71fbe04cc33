// Small questions in a dialog of the page.

import { post } from "./api.js";
import { h, newId, replace } from "./dom.js";
import { typed } from "./fields.js";
import { rememberVisitor, visitorName } from "./visitor.js";

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

/** What ending a test without a result means, and what it costs. */
export const GIVING_UP = "A result that is given up is no longer expected and will be refused. Results that wait for it alone count at once; the study does without it, and asks for another test if it needs one. Right where a test is lost, or cannot be made soon. Fair only if the reason has nothing to do with what the result would have been.";
export const MAKING_AGAIN = "An attempt failed, or its result will not come: the test is handed out again, and the reason kept in the log. It costs one more measurement, and results that wait for it go on waiting until then: if it cannot be made soon, give it up instead. Fair only if the reason has nothing to do with what the result would have been; otherwise enter the value that a failure counts as.";

/** The reason that was typed: readers of the report need it. */
function stated(input) {
  const reason = input.value.trim();
  if (reason) return reason;
  input.setAttribute("aria-invalid", "true");
  input.focus();
  throw new Error("Say why: the log and the report show the reason.");
}

/** The name to record something under. Where none is known, the visitor is asked for it, once. */
export async function signature() {
  if (visitorName()) return visitorName();
  const input = h("input", { id: newId("name"), maxlength: 100, autocomplete: "name", class: "wide" });
  const name = await open("Your name",
    [h("p", {}, "The log and the report say who asked for tests, and who recorded what. This browser remembers the name."),
      h("div", { class: "field" }, h("label", { for: input.id }, "Name"), input)],
    "Go on", async () => {
      if (!input.value.trim()) throw new Error("Type a name, or the name of the bench or the program that measures.");
      return input.value.trim();
    });
  if (name === null) throw new Error("Nothing was done: it is recorded under a name.");
  rememberVisitor(name);
  for (const box of document.querySelectorAll(".name-box")) box.value = name;
  return visitorName();
}

/** The reason, or null if the user canceled. */
export function askReason(title, explanation) {
  const input = h("input", { id: newId("reason"), maxlength: 500, autocomplete: "off", class: "wide" });
  return open(title,
    [h("p", {}, explanation), h("div", { class: "field" }, h("label", { for: input.id }, "Reason"), input)],
    "Confirm", async () => stated(input));
}

/** Ask for a name once more before something is lost for good; `act()` may complain. Null if the visitor canceled. */
export function confirmByName(title, explanation, name, confirm, act) {
  const input = h("input", { id: newId("confirm"), autocomplete: "off", class: "wide" });
  return open(title,
    [h("p", {}, explanation), h("div", { class: "field" }, h("label", { for: input.id }, "Name of the study"), input)],
    confirm, async () => {
      if (input.value !== name) {
        input.setAttribute("aria-invalid", "true");
        input.focus();
        throw new Error("This is not its name; nothing was deleted.");
      }
      await act();
      return true;
    });
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
    await post(`${base}/check-far`, { ...typed, holder: visitorName() || undefined });
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
      h("div", { class: "field" }, h("label", { for: reason.id }, "Reason"), reason)],
    "Correct", async () => {
      values.unmark();
      if (!values.check()) return STAY;
      if (values.isEmpty()) {
        values.first.focus();
        throw new Error("Type at least one value.");
      }
      const why = stated(reason);
      try {
        if (await save(values.read(), why) === null) return STAY;
      } catch (problem) {
        const boxes = (problem.complaints ?? []).map((one) => ({ one, box: values.about(one) })).filter(({ box }) => box);
        if (!boxes.length) throw problem;
        for (const { one, box } of boxes) box.mark(one.reason);
        boxes[0].box.input.focus();
        return STAY;
      }
      return true;
    });
}
