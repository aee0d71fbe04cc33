// The name under which this page asks and tells.

const KEY = "bestarm.holder";

export function visitorName() {
  try {
    return localStorage.getItem(KEY) || "dashboard";
  } catch {
    return "dashboard";
  }
}

export function rememberVisitor(name) {
  try {
    if (name.trim()) localStorage.setItem(KEY, name.trim());
    else localStorage.removeItem(KEY);
  } catch {
    // The default name then stays.
  }
}
