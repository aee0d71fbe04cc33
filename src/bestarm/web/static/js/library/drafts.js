// Values that were typed and not saved yet. The browser keeps them, of this service only: they survive a closed tab.

import { root } from "./root.js";

/** Of a study. A number is used again in another database, but not with the same time of creation. */
export function draftsOf({ id, created }) {
  const prefix = `bestarm.draft${root} ${id} ${created} `;

  /** Without storage, values last as long as the page. */
  function attempt(action) {
    try {
      return action(localStorage);
    } catch {
      return null;
    }
  }

  const numbers = (keys) => keys.filter((key) => key?.startsWith(prefix)).map((key) => Number(key.slice(prefix.length)));
  return {
    /** The texts of a test by metric, those that are not empty. */
    find: (test) => attempt((storage) => JSON.parse(storage.getItem(prefix + test))) ?? {},
    keep(test, texts) {
      attempt((storage) => (Object.keys(texts).length ? storage.setItem(prefix + test, JSON.stringify(texts)) : storage.removeItem(prefix + test)));
    },
    forget(test) { attempt((storage) => storage.removeItem(prefix + test)); },
    /** The tests that have any. */
    tests: () => attempt((storage) => numbers(Object.keys(storage))) ?? [],
    /** Call `changed(test)` when another tab has changed what is kept. */
    onChange(changed) {
      addEventListener("storage", (event) => { for (const test of numbers([event.key])) changed(test); });
    },
  };
}
