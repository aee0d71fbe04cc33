// The name under which this page asks and tells.

const KEY = "bestarm.holder";

/** The service's own token, which several people may share: so they are asked for their names. */
const SHARED = "service";

/** The name by which the service knows the visitor. */
const identity = () => document.documentElement.dataset.visitor ?? "";

/** The name of the visitor's own token, as the service says it; empty without one. */
export const tokenName = () => (identity() === SHARED ? "" : identity());

let memory = "";

/** The visitor's name, as records have it; empty if it is not known: `signature` in dialogs.js asks for it. */
export function visitorName() {
  const name = tokenName() || typedName();
  return name && identity() === SHARED ? `${SHARED}@${name}` : name;
}

/** The name that the visitor has typed. */
export function typedName() {
  try {
    return localStorage.getItem(KEY) || "";
  } catch {
    return memory;
  }
}

export function rememberVisitor(name) {
  memory = name.trim();
  try {
    if (memory) localStorage.setItem(KEY, memory);
    else localStorage.removeItem(KEY);
  } catch {
    // Without storage the name lasts until the page is left.
  }
}
