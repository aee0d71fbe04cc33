// Elements from code. Text only ever goes in as text, so that a name can never be taken for markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.setAttribute("class", value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element: h("p", {class: "note"}, "text", child, …). */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A user's name for something: isolated, so that marks of writing direction in it stay inside it. */
export function named(text) {
  return h("bdi", { class: "name" }, text);
}

/** The same for places that take only text, such as titles. */
export function isolated(text) {
  return `\u2068${text}\u2069`;
}

/** A sentence of the service, with the names that may occur in it isolated. */
export function sentence(text, names) {
  for (const name of names) {
    const at = name ? text.indexOf(name) : -1;
    if (at >= 0) return h("bdi", {}, text.slice(0, at), named(name), text.slice(at + name.length));
  }
  return h("bdi", {}, text);
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** Change the text of an element only if it differs, so that nothing flickers and no reader repeats it. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Rebuild a part of the page, and put the focus back on the control with the same data-key. */
export function keepingFocus(container, rebuild) {
  const active = document.activeElement;
  const key = active && container.contains(active) ? active.dataset.key : null;
  rebuild();
  if (key && document.activeElement !== active) {
    container.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  }
}

let toastTimer = 0;

/** Tell readers, and show for a moment. */
export function announce(text, { urgent = false, show = true } = {}) {
  const region = document.getElementById(urgent ? "assertive" : "polite");
  region.textContent = "";
  // A change after a pause is what screen readers notice, even if the words are the same as before.
  setTimeout(() => { region.textContent = text; }, 50);
  if (!show) return;
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => toast.classList.remove("shown"), 4000);
}

let nextId = 1;
export const newId = (stem) => `${stem}-${nextId++}`;
