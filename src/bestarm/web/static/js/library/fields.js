// The labelled controls of a form, each with a place for a complaint.

import { h, newId, replace } from "./dom.js";
import { readTyped } from "./numbers.js";

/** All controls of a form, by the path of the field that they fill in. */
export class Fields {
  constructor() {
    this.controls = new Map();
  }

  /** A labelled control with a place for a complaint. */
  add(path, label, control, hint) {
    control.id = newId("field");
    const error = h("p", { class: "error", id: `${control.id}-error` });
    const help = hint ? h("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
    control.setAttribute("aria-describedby", [help?.id, error.id].filter(Boolean).join(" "));
    const entry = { control, error, label };
    control.addEventListener("input", () => {
      control.removeAttribute("aria-invalid");
      replace(error);
    });
    this.controls.set(path, entry);
    return h("div", { class: "field" }, h("label", { for: control.id }, label), control, help, error);
  }

  forget(prefix) {
    for (const path of [...this.controls.keys()]) if (path.startsWith(prefix)) this.controls.delete(path);
  }

  clear() {
    for (const { control, error } of this.controls.values()) {
      control.removeAttribute("aria-invalid");
      replace(error);
    }
  }

  /** The control that a complaint about `path` belongs to: itself, something inside it, or what it is part of. */
  find(path) {
    for (let at = path; at; at = at.replace(/(\.[^.[\]]*|\[[^\]]*\]|^[^.[\]]*)$/, "")) {
      if (this.controls.has(at)) return this.controls.get(at);
      const inside = [...this.controls.keys()].find((key) => key.startsWith(`${at}.`) || key.startsWith(`${at}[`));
      if (inside) return this.controls.get(inside);
    }
    return null;
  }
}

export const text = (attributes = {}) => h("input", { autocomplete: "off", ...attributes });
export const decimal = (attributes = {}) => text({ inputmode: "decimal", ...attributes });

/** What was typed as a number, or as it stands for the service to complain about. 5% of a `rate` is 0.05. */
export function typed(written, { rate = false } = {}) {
  return readTyped(written, { rate }).value ?? written.trim();
}

/** The same for a control that may stay empty. */
export const optional = (control) => (control.value.trim() === "" ? undefined : typed(control.value));

/** A list to choose from, and a hint that explains what is chosen. */
export function explainedChoice(choices, chosen, title = (choice) => choice.label) {
  const control = h("select", {}, choices.map((choice) => h("option", { value: choice.name }, title(choice))));
  control.value = chosen;
  const hint = h("span", {});
  const explain = () => replace(hint, choices.find((choice) => choice.name === control.value)?.sentence ?? "");
  control.addEventListener("change", explain);
  explain();
  return { control, hint };
}
