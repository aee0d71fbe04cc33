// What an empty list of studies shows: how a study goes, in three pictures, and a sample to look at.

import { post } from "../library/api.js";
import { announce, h, s } from "../library/dom.js";
import { marker } from "../library/markers.js";
import { at } from "../library/root.js";

/** By option: the mean viability, and the share of toxic results, that the sample's results scatter around. */
const SAMPLE = { F1: [62, 0.1], F2: [66, 0.15], F3: [74, 0.1], F4: [78, 0.85] };
const EACH = 8;

const sampleOf = (name) => ({
  name, arm_word: "formulation", reserve: 0.1,
  objective: { metric: "viability", goal: "maximize", noise: { gaussian: 6 } },
  constraints: [{ metric: "toxic", at_most: 0.5, noise: "bernoulli" }],
  arms: Object.keys(SAMPLE).map((arm) => ({ name: arm })),
});

/** The same made-up results for all who look at the sample. */
function sampleResults() {
  let seed = 7;
  const random = () => { seed = (seed * 16807) % 2147483647; return seed / 2147483647; };
  const results = [];
  for (let round = 0; round < EACH; round += 1) {
    for (const [arm, [mean, share]] of Object.entries(SAMPLE)) {
      const normal = Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
      results.push({ arm, metric: "viability", value: Math.round(10 * (mean + 6 * normal)) / 10 }, { arm, metric: "toxic", value: Number(random() < share) });
    }
  }
  return results;
}

async function makeSample(button) {
  button.disabled = true;
  try {
    const study = await post("/api/studies", { plan: sampleOf(`Sample: four formulations, ${new Date().toISOString().slice(0, 19).replace("T", " ")}`) });
    await post(`/api/studies/${study.id}/add`, { results: sampleResults(), holder: "sample" });
    location.assign(at(`/studies/${study.id}`));
  } catch (error) {
    announce(error.message, { urgent: true });
    button.disabled = false;
  }
}

const picture = (...drawn) => s("svg", { class: "start-picture", viewBox: "0 0 200 90", "aria-hidden": "true" }, ...drawn);
const lines = (rows, width) => rows.map((text, k) => [
  s("rect", { class: "start-box", x: 12, y: 8 + 26 * k, width, height: 20, rx: 4 }), s("text", { class: "start-text", x: 20, y: 22 + 26 * k }, text)]).flat();

function intervals() {
  const rows = [["feasible", 130, 150, 170], ["worse", 60, 85, 110], ["infeasible", 120, 140, 160]];
  return rows.map(([verdict, low, mean, high], k) => s("g", { class: `arm ${verdict}` },
    s("line", { class: "interval", x1: low, x2: high, y1: 20 + 25 * k, y2: 20 + 25 * k }), marker(verdict, mean, 20 + 25 * k, verdict === "feasible")));
}

const STEPS = [
  ["Say what you compare", "The options, what to make best, and limits that the answer must keep to.", () => picture(lines(["F1", "F2", "F3"], 46),
    s("text", { class: "start-text", x: 84, y: 35 }, "best viability,"), s("text", { class: "start-text", x: 84, y: 55 }, "not toxic"))],
  ["Test what it asks for", "It says what to test next. Enter the results here, or in a sheet.", () => picture(lines(["viability of F2", "toxic of F1", "viability of F3"], 118),
    [0, 1, 2].map((k) => s("rect", { class: "start-box", x: 140, y: 8 + 26 * k, width: 46, height: 20, rx: 4 })),
    s("text", { class: "start-text", x: 148, y: 22 }, "66.2"), s("text", { class: "start-text", x: 148, y: 48 }, "no"))],
  ["It stops when it is sure", "With the answer, why the others are out, and a report to file.", () => picture(intervals())],
];

/** Three pictures, and two ways to begin. */
export function startPanel() {
  const sample = h("button", { type: "button", "data-needs": "manage", onclick: () => makeSample(sample) }, "Look at a sample study");
  return h("section", { class: "card start", "aria-label": "How a study goes" },
    h("ol", { class: "start-steps" }, STEPS.map(([title, words, draw]) => h("li", {}, draw(), h("h2", {}, title), h("p", { class: "muted" }, words)))),
    h("div", { class: "buttons" }, h("a", { class: "button primary", href: at("/new"), "data-needs": "manage" }, "Create the first study"), sample));
}
