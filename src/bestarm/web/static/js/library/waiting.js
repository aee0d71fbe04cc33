// Results that are saved and do not count yet: an earlier test, or the rest of their block, has none.

import { get } from "./api.js";
import { isDecided } from "./words.js";

const MOST = 1000;

/** Those of a study, as many as can be shown. */
export const readWaiting = async (base, status = null) => (status && isDecided(status) ? [] : get(`${base}/waiting?limit=${MOST}`));

/** A function of arm and metric that returns the values that wait. */
export function waitingValues(results) {
  const byArm = new Map();
  for (const { arm, values } of results) {
    for (const [metric, value] of Object.entries(values)) {
      const key = `${arm}\n${metric}`;
      byArm.set(key, [...(byArm.get(key) ?? []), value]);
    }
  }
  return (arm, metric) => byArm.get(`${arm}\n${metric}`) ?? [];
}

/** How many values wait, in words; empty if none. */
export const waitingWords = (values) => (values.length ? `${values.length} not counted yet` : "");
