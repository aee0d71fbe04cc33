// The form for a new study. The service checks it; its complaints are shown at the fields they are about.

import { get, post } from "../library/api.js";
import { h, replace } from "../library/dom.js";
import { decimal, explainedChoice, Fields, optional, text, typed } from "../library/fields.js";
import { aboutMeasurements } from "../library/measuring.js";
import { promised, question } from "../library/words.js";
import { itemFields, linesOf, measurementFields } from "./grouping.js";

const capital = (label) => label.charAt(0).toUpperCase() + label.slice(1);

/** The cost of a test; that of a metric which is measured with others is stated there. */
const stated = (cost) => (cost.disabled ? undefined : optional(cost));

/** How results scatter: one of the noises that the service knows, and the numbers it needs. */
function noiseFields(fields, path, noises, onChange = () => {}) {
  const { control: kind, hint } = explainedChoice(noises, noises[0].name, (noise) => capital(noise.label));
  const choice = fields.add(`${path}.noise`, "One result is", kind, hint);
  const stated = h("div", { class: "grid-2" });
  let numbers = [];
  const askForNumbers = () => {
    fields.forget(`${path}.noise.`);
    const wanted = noises.find((noise) => noise.name === kind.value).numbers;
    numbers = wanted.map((number) => decimal({ placeholder: number.default ?? null }));
    replace(stated, wanted.map(({ name, label }, k) => fields.add(`${path}.noise.${name}`, capital(label), numbers[k])));
    stated.hidden = !wanted.length;
    onChange(noises.find((noise) => noise.name === kind.value));
  };
  kind.addEventListener("change", askForNumbers);
  askForNumbers();
  return {
    elements: [choice, stated],
    read() {
      const values = numbers.map((control) => typed(control.value));
      if (!values.length) return kind.value;
      return { [kind.value]: values.length === 1 ? values[0] : values };
    },
  };
}

function objectiveFields(fields, noises) {
  const metric = text({ placeholder: "efficacy", required: true });
  const goal = h("select", {}, h("option", { value: "maximize" }, "as large as possible"), h("option", { value: "minimize" }, "as small as possible"));
  const cost = decimal({ placeholder: "1" });
  const tolerance = decimal({ placeholder: "0" });
  const noise = noiseFields(fields, "objective", noises.filter((one) => !one.constraints_only));
  return {
    element: h("fieldset", { class: "card" }, h("legend", {}, "What to make best"),
      h("div", { class: "grid-2" },
        fields.add("objective.metric", "Metric", metric),
        fields.add("objective.goal", "Should be", goal)),
      h("div", { class: "grid-2" }, noise.elements),
      h("div", { class: "grid-2" },
        fields.add("objective.cost", "Cost of one test (optional)", cost),
        fields.add("objective.tolerance", "Tolerance (optional)", tolerance, "an arm this close to the best is good enough"))),
    metric,
    cost,
    read: () => ({ metric: metric.value, goal: goal.value, noise: noise.read(), cost: stated(cost), tolerance: optional(tolerance) }),
  };
}

function constraintFields(fields, noises, index, remove) {
  const path = `constraints[${index}]`;
  const metric = text({ placeholder: "adverse event", required: true });
  const side = h("select", { "aria-label": "Side of the threshold" }, h("option", { value: "at_most" }, "at most"), h("option", { value: "at_least" }, "at least"));
  const threshold = decimal({ placeholder: "0.5", required: true });
  const cost = decimal({ placeholder: "1" });
  const slack = decimal({ placeholder: "0" });
  const per = text({ placeholder: "requests" });
  const kind = h("select", {}, h("option", { value: "number" }, "a number"), h("option", { value: "relative" }, "times the mean of the baseline"));
  const slackHint = h("span", {});
  const bound = fields.add(`${path}.threshold`, "Mean must be", threshold);
  // What must keep to the threshold depends on the noise: the mean, or a quantile.
  const noise = noiseFields(fields, path, noises, ({ constraints_only: isQuantile }) => {
    const label = isQuantile ? "Quantile must be" : "Mean must be";
    bound.querySelector("label").textContent = label;
    fields.controls.get(`${path}.threshold`).label = label;
    slackHint.textContent = isQuantile ? "so much larger a share beyond the threshold may pass" : "an arm that misses by less than this may pass";
  });
  const sides = h("div", { class: "sides" });
  threshold.replaceWith(sides);
  sides.append(side, threshold);
  const complaint = fields.controls.get(`${path}.threshold`);
  fields.controls.set(`${path}.at_most`, complaint);
  fields.controls.set(`${path}.at_least`, complaint);
  const element = h("fieldset", { class: "card" }, h("legend", {}, h("span", { class: "legend-row" }, `Constraint ${index + 1}`,
    h("button", { type: "button", class: "small", onclick: remove }, "Remove", h("span", { class: "sr" }, ` constraint ${index + 1}`)))),
    h("div", { class: "grid-2" }, fields.add(`${path}.metric`, "Metric", metric), bound),
    h("div", { class: "grid-2" },
      fields.add(`${path}.per`, "Divided by (optional)", per, "for a ratio: another metric of the same test, with positive values"),
      fields.add(`${path}.relative_to_baseline`, "The limit is", kind)),
    h("div", { class: "grid-2" }, noise.elements),
    h("div", { class: "grid-2" },
      fields.add(`${path}.cost`, "Cost of one test (optional)", cost),
      fields.add(`${path}.slack`, "Slack (optional)", slack, slackHint)));
  return {
    element,
    metric,
    cost,
    per,
    read: () => ({
      metric: metric.value, [side.value]: typed(threshold.value), noise: noise.read(), cost: stated(cost), slack: optional(slack),
      per: per.value.trim() || undefined, relative_to_baseline: kind.value === "relative" || undefined,
    }),
  };
}

/** What each test yields, where both metrics of a ratio come from one test. */
function withRatios(measured, constraints) {
  return constraints.reduce((groups, { metric, per }) => {
    const both = [metric.value.trim(), per.value.trim()];
    if (both.includes("")) return groups;
    const joined = groups.filter((names) => names.some((name) => both.includes(name)));
    return [...new Set(groups.map((names) => (joined.includes(names) ? joined[0] : names)))].map((names) => (names === joined[0] ? joined.flat() : names));
  }, measured);
}

export async function show(main) {
  document.title = "New study · bestarm";
  const choices = await get("/api/choices");
  const fields = new Fields();
  const name = text({ required: true, placeholder: "dose" });
  const arms = h("textarea", { rows: 6, spellcheck: "false", required: true, placeholder: "25 mg\n75 mg\n150 mg" });
  const armCount = h("p", { class: "hint" });
  arms.addEventListener("input", () => { const n = linesOf(arms).length; armCount.textContent = n ? `${n} ${n === 1 ? "arm" : "arms"}` : ""; });
  const delta = decimal({ value: String(choices.defaults.delta) });
  const sure = h("span", {});
  const showSure = () => {
    const value = typed(delta.value);
    replace(sure, typeof value === "number" && value > 0 && value < 1 ? `${promised(value)} confidence` : "between 0 and 1");
  };
  delta.addEventListener("input", showSure);
  showSure();
  const { control: policy, hint: aboutPolicy } = explainedChoice(choices.policies, choices.defaults.policy,
    ({ label }) => label);
  const { control: order, hint: aboutOrder } = explainedChoice(choices.orders, choices.defaults.order,
    ({ label }) => capital(label));
  const { control: goal, hint: aboutGoal } = explainedChoice(choices.goals, choices.defaults.goal,
    ({ label }) => capital(label));
  const top = decimal({ placeholder: "1" });
  const topField = fields.add("top", "How many arms (optional)", top, "1 unless you say more");
  const showTop = () => { topField.hidden = goal.value === "any feasible"; };
  goal.addEventListener("change", showTop);
  const asked = () => (goal.value === "any feasible" ? { goal: goal.value } : { goal: goal.value, top: optional(top) });
  const budgetTests = decimal({ placeholder: "no limit" });
  const budgetCost = decimal({ placeholder: "no limit" });
  const objective = objectiveFields(fields, choices.noises);
  const list = h("div", { class: "new" });
  let constraints = [];
  let serial = 0;
  const measurements = measurementFields(fields, () => [objective, ...constraints, ...constraints.map(({ per, cost }) => ({ metric: per, cost }))
    .filter(({ metric }) => metric.value.trim())]);
  const baseline = text({ placeholder: "none" });
  const items = itemFields(fields);

  function addConstraint(focus) {
    const index = serial++;
    const one = constraintFields(fields, choices.noises, index, () => {
      constraints = constraints.filter((other) => other !== entry);
      one.element.remove();
      fields.forget(`constraints[${index}]`);
      more.focus();
    });
    const entry = { index, ...one };
    constraints.push(entry);
    list.append(one.element);
    if (focus) one.metric.focus();
  }
  const more = h("button", { type: "button", onclick: () => addConstraint(true) }, "Add a constraint");
  const problems = h("div", { class: "card summary-errors", role: "alert", tabindex: -1, hidden: true });
  const create = h("button", { class: "primary", "data-needs": "manage" }, "Create the study");

  const form = h("form", { class: "new", novalidate: true },
    h("p", { class: "note", "data-lacks": "manage" }, "Your token may not create studies: that takes one with the role manage."),
    problems,
    h("div", { class: "card" },
      fields.add("name", "Name of the study", name),
      h("div", {}, fields.add("arms", "Arms, one on a line", arms, "the options to choose from"), armCount),
      fields.add("baseline", "Baseline (optional)", baseline, "one of the arms, which limits may be relative to")),
    objective.element, list, h("div", {}, more), measurements.element, items.element,
    h("fieldset", { class: "card" }, h("legend", {}, "How to decide"),
      h("div", { class: "grid-2" }, fields.add("goal", "Find", goal, aboutGoal), topField),
      h("div", { class: "grid-2" },
        fields.add("delta", "Accepted chance of a wrong answer", delta, sure),
        fields.add("policy", "Policy", policy, aboutPolicy)),
      h("div", { class: "grid-2" },
        fields.add("budget.tests", "At most this many tests (optional)", budgetTests),
        fields.add("budget.cost", "At most this cost (optional)", budgetCost)),
      fields.add("order", "Results count", order, aboutOrder)),
    h("div", { class: "buttons" }, create, h("a", { class: "button", href: "/" }, "Cancel")));

  /** A path as the service knows it, as the path of a control here. */
  function local(path) {
    let found = path.replace(/^plan\.?/, "").replace(/^body\.?/, "");
    const constraint = /^constraints\[(\d+)\]/.exec(found);
    if (constraint) found = found.replace(constraint[0], `constraints[${constraints[Number(constraint[1])]?.index}]`);
    const measurement = /^measurements\[(\d+)\]/.exec(found);
    if (measurement) found = found.replace(measurement[0], `measurements[${measurements.index(Number(measurement[1]))}]`);
    return found;
  }

  /** The line of something that has a line of its own. */
  function lineOf(field) {
    const found = /\b(arms|items)\[(\d+)\]/.exec(field || "");
    if (!found) return "";
    const line = found[1] === "arms" ? linesOf(arms)[Number(found[2])]?.line : items.line(Number(found[2]));
    return line === undefined ? "" : `Line ${line}: `;
  }

  function complain(error) {
    const complaints = error.complaints.length ? error.complaints : [{ field: null, sentence: error.message }];
    const items = complaints.map(({ field, reason, sentence }) => {
      const entry = field ? fields.find(local(field)) : null;
      const words = lineOf(field) + reason;
      if (!entry) return { item: h("li", {}, sentence), control: null };
      replace(entry.error, words);
      entry.control.setAttribute("aria-invalid", "true");
      const group = entry.control.closest("fieldset")?.querySelector("legend")?.firstChild;
      const place = group ? `${group.firstChild?.data ?? group.data}: ` : "";
      const link = h("a", { href: `#${entry.control.id}`, onclick: (event) => { event.preventDefault(); entry.control.focus(); } }, place, entry.label);
      return { item: h("li", {}, link, `: ${words}`), control: entry.control };
    });
    // In the order of the form, what has no field last.
    items.sort((a, b) => (!a.control || !b.control ? Boolean(b.control) - Boolean(a.control)
      : a.control.compareDocumentPosition(b.control) & Node.DOCUMENT_POSITION_PRECEDING ? 1 : -1));
    replace(problems, h("h2", {}, "The study was not created"), h("ul", {}, items.map((one) => one.item)));
    problems.hidden = false;
    problems.focus();
    problems.scrollIntoView({ block: "center" });
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fields.clear();
    problems.hidden = true;
    create.disabled = true;
    const budget = { tests: optional(budgetTests), cost: optional(budgetCost) };
    const plan = {
      name: name.value.trim(), delta: typed(delta.value), policy: policy.value, order: order.value,
      objective: objective.read(), constraints: constraints.map((one) => one.read()),
      arms: linesOf(arms).map((arm) => ({ name: arm.name })), ...items.read(), ...asked(),
    };
    const together = measurements.read();
    if (together.length) plan.measurements = together;
    if (baseline.value.trim()) plan.baseline = baseline.value.trim();
    if (budget.tests !== undefined || budget.cost !== undefined) plan.budget = budget;
    try {
      const study = await post("/api/studies", { plan });
      location.assign(`/studies/${study.id}`);
    } catch (error) {
      complain(error);
      create.disabled = false;
    }
  });

  // What the form says so far, as the question it will ask.
  const preview = h("p", {});
  const aboutTests = h("p", { class: "muted small" });
  function draft() {
    return {
      objective: { ...objective.read(), metric: objective.read().metric.trim() || "…" },
      constraints: constraints.map((one) => one.read()).filter((one) => one.metric.trim() !== ""),
      arms: linesOf(arms),
      ...asked(),
    };
  }
  function showDraft() {
    const plan = draft();
    const begun = plan.arms.length > 0 && plan.objective.metric !== "…";
    measurements.draw();
    items.draw();
    replace(preview, begun ? question(plan) : h("span", { class: "muted" }, "The question appears here as you fill in the form."));
    replace(aboutTests, begun ? [aboutMeasurements(withRatios(measurements.measured(), constraints)), items.words()] : null);
  }
  form.addEventListener("input", showDraft);
  form.addEventListener("click", showDraft);

  addConstraint(false);
  showDraft();
  replace(main, h("h1", {}, "New study"),
    h("p", { class: "question" }, "bestarm says which arm to test next on which metric, and stops as soon as the answer is certain enough."),
    h("div", { class: "new-page" }, form,
      h("aside", { class: "card", "aria-label": "The question so far" }, h("h2", {}, "The question"), preview, aboutTests)));
}
