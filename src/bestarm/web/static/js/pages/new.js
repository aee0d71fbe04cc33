// The form for a new study. The service checks it; its complaints are shown at the fields they are about.

import { get, post } from "../library/api.js";
import { h, replace } from "../library/dom.js";
import { decimal, explainedChoice, Fields, optional, text, typed } from "../library/fields.js";
import { aboutMeasurements } from "../library/measuring.js";
import { DEFAULT, findProjects, projectChoice, projectHere } from "../library/projects.js";
import { at } from "../library/root.js";
import { ignoresPerformance, promised, question } from "../library/words.js";
import { noun } from "../library/nouns.js";
import { itemFields, linesOf, measurementFields } from "./grouping.js";
import { reserveField } from "./reserve.js";

/** What pages call what is compared, unless the user has a word for it. */
const OPTION = "option";

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
    /** Whether results lie between 0 and 1, so that 90% can only be 0.9. */
    isRate: () => kind.value === "bernoulli" || (kind.value === "bounded" && numbers.every(({ value }) => typed(value) >= 0 && typed(value) <= 1)),
    kind: () => kind.value,
    read() {
      const values = numbers.map((control) => typed(control.value));
      if (!values.length) return kind.value;
      return { [kind.value]: values.length === 1 ? values[0] : values };
    },
  };
}

/** Who scores all items before the first result. The cost of a score is that of a measurement of its own. */
function judgeFields(fields, path) {
  const metric = text({ placeholder: "model score" });
  const cost = decimal({ placeholder: "0" });
  const costField = fields.add(`${path}.judge.cost`, "Cost of one score (optional)", cost);
  const showCost = () => { costField.hidden = metric.value.trim() === ""; };
  metric.addEventListener("input", showCost);
  showCost();
  return {
    metric,
    cost,
    usual: "0",
    /** Where a complaint about the cost belongs. */
    path: `${path}.judge.cost`,
    element: h("div", { class: "grid-2" },
      fields.add(`${path}.judge`, "Judge (optional)", metric, "a cheap metric that tells much of this one, such as a model’s score of what people grade; it scores every option on every item first"),
      costField),
    read: () => metric.value.trim() || undefined,
  };
}

/** What most studies leave as it is. */
const folded = (title, ...content) => h("details", { class: "more-fields" }, h("summary", {}, title), ...content);

function objectiveFields(fields, noises) {
  const metric = text({ placeholder: "efficacy", required: true });
  const goal = h("select", {}, h("option", { value: "maximize" }, "as large as possible"), h("option", { value: "minimize" }, "as small as possible"));
  const cost = decimal({ placeholder: "1" });
  const tolerance = decimal({ placeholder: "0" });
  const unit = text({ placeholder: "mg" });
  const noise = noiseFields(fields, "objective", noises.filter((one) => !one.constraints_only));
  const judge = judgeFields(fields, "objective");
  const unneeded = h("p", { class: "hint", hidden: true }, "Not needed for what this study is to find: leave it empty, or name a metric by which to list them.");
  return {
    element: h("fieldset", { class: "card" }, h("legend", {}, "What to make best"), unneeded,
      h("div", { class: "grid-2" },
        fields.add("objective.metric", "Metric", metric),
        fields.add("objective.goal", "Should be", goal)),
      h("div", { class: "grid-2" }, noise.elements),
      folded("Unit, cost, a judge, and how close to the best is good enough",
        h("div", { class: "grid-2" },
          fields.add("objective.unit", "Unit (optional)", unit, "shown in headings"),
          fields.add("objective.cost", "Cost of one test (optional)", cost),
          fields.add("objective.tolerance", "Tolerance (optional)", tolerance, "one this close to the best is good enough")),
        judge.element)),
    metric,
    cost,
    judge,
    noise: noise.kind,
    isEmpty: () => metric.value.trim() === "",
    setNeeded(needed) {
      unneeded.hidden = needed;
      metric.required = needed;
    },
    read: () => ({ metric: metric.value, goal: goal.value, noise: noise.read(), cost: stated(cost), tolerance: optional(tolerance), unit: unit.value.trim() || undefined, judge: judge.read() }),
  };
}

function constraintFields(fields, noises, index, remove) {
  const path = `constraints[${index}]`;
  const metric = text({ placeholder: "adverse event", required: true });
  const side = h("select", { "aria-label": "Side of the threshold" }, h("option", { value: "at_most" }, "at most"), h("option", { value: "at_least" }, "at least"));
  const threshold = decimal({ placeholder: "0.5", required: true });
  const cost = decimal({ placeholder: "1" });
  const slack = decimal({ placeholder: "0" });
  const unit = text({ placeholder: "mg" });
  const per = text({ placeholder: "requests" });
  const where = text({ placeholder: "topic = law" });
  const each = text({ placeholder: "topic" });
  const kind = h("select", {}, h("option", { value: "number" }, "a number"), h("option", { value: "relative" }, "times the mean of the baseline"));
  const margin = decimal({ placeholder: "0" });
  const marginField = fields.add(`${path}.margin`, "Margin (optional)", margin, "in the metric's units: by how much one may be worse than that");
  const showMargin = () => {
    marginField.hidden = kind.value !== "relative";
    threshold.placeholder = kind.value === "relative" ? "1" : "0.5";
  };
  kind.addEventListener("change", showMargin);
  showMargin();
  const slackHint = h("span", {});
  const bound = fields.add(`${path}.threshold`, "Mean must be", threshold);
  // What must keep to the threshold depends on the noise: the mean, or a quantile.
  const noise = noiseFields(fields, path, noises, ({ constraints_only: isQuantile }) => {
    const label = isQuantile ? "Quantile must be" : "Mean must be";
    bound.querySelector("label").textContent = label;
    fields.controls.get(`${path}.threshold`).label = label;
    slackHint.textContent = isQuantile ? "so much larger a share beyond the threshold may pass" : "one that misses by less than this may pass";
  });
  const judge = judgeFields(fields, path);
  const sides = h("div", { class: "sides" });
  threshold.replaceWith(sides);
  sides.append(side, threshold);
  const complaint = fields.controls.get(`${path}.threshold`);
  fields.controls.set(`${path}.at_most`, complaint);
  fields.controls.set(`${path}.at_least`, complaint);
  const element = h("fieldset", { class: "card" }, h("legend", {}, h("span", { class: "legend-row" }, `Constraint ${index + 1}`,
    h("button", { type: "button", class: "small", onclick: remove }, "Remove", h("span", { class: "sr" }, ` constraint ${index + 1}`)))),
    h("div", { class: "grid-2" }, fields.add(`${path}.metric`, "Metric", metric), bound),
    h("div", { class: "grid-2" }, noise.elements),
    folded("Unit, cost, slack, ratios, a baseline, a judge and slices of items",
      h("div", { class: "grid-2" },
        fields.add(`${path}.unit`, "Unit (optional)", unit, "shown in headings"),
        fields.add(`${path}.cost`, "Cost of one test (optional)", cost),
        fields.add(`${path}.slack`, "Slack (optional)", slack, slackHint)),
      h("div", { class: "grid-2" },
        fields.add(`${path}.per`, "Divided by (optional)", per, "for a ratio: another metric of the same test, with positive values"),
        fields.add(`${path}.relative_to_baseline`, "The limit is", kind)),
      marginField, judge.element,
      h("div", { class: "grid-2" },
        fields.add(`${path}.where`, "On items where (optional)", where, "a value of an attribute, such as topic = law; several with a comma between"),
        fields.add(`${path}.for_each`, "For each (optional)", each, "an attribute: one such limit for each of its values"))));
  return {
    element,
    metric,
    cost,
    judge,
    per,
    read() {
      const isRelative = kind.value === "relative";
      return {
        metric: metric.value, [side.value]: isRelative ? optional(threshold) ?? 1 : typed(threshold.value, { rate: noise.isRate() }),
        noise: noise.read(), cost: stated(cost), slack: optional(slack), per: per.value.trim() || undefined, unit: unit.value.trim() || undefined,
        relative_to_baseline: isRelative || undefined, margin: isRelative ? optional(margin) : undefined, judge: judge.read(),
        where: pairsOf(where.value), for_each: each.value.trim() || undefined,
      };
    },
  };
}

/** What "topic = law, language = de" states of attributes. */
function pairsOf(typedText) {
  const pairs = typedText.split(",").filter((pair) => pair.trim()).map((pair) => pair.split(/=(.*)/s).map((side) => side.trim()));
  return pairs.length ? Object.fromEntries(pairs.map(([name, value]) => [name, value ?? ""])) : undefined;
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
  const [choices, projects] = await Promise.all([get("/api/choices"), findProjects()]);
  const project = projectChoice(projects.filter(({ role }) => role === "manage").map(({ name }) => name), projectHere() || DEFAULT, "Choose a project");
  const fields = new Fields();
  const name = text({ required: true, placeholder: "dose" });
  const arms = h("textarea", { rows: 6, spellcheck: "false", required: true, placeholder: "25 mg\n75 mg\n150 mg" });
  const armCount = h("p", { class: "hint" });
  const word = text({ placeholder: OPTION, maxlength: 81 });
  const armWord = () => word.value.trim() || OPTION;
  const showCount = () => { const n = linesOf(arms).length; armCount.textContent = n ? noun(armWord()).counted(n) : ""; };
  for (const control of [arms, word]) control.addEventListener("input", showCount);
  const delta = decimal({ value: String(choices.defaults.delta) });
  const sure = h("span", {});
  const showSure = () => {
    const value = typed(delta.value, { rate: true });
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
  const topField = fields.add("top", "How many (optional)", top, "1 unless you say more");
  const asksForLimitsAlone = () => ignoresPerformance(goal.value);
  const asked = () => (asksForLimitsAlone() ? { goal: goal.value } : { goal: goal.value, top: optional(top) });
  const armCosts = h("textarea", { rows: 3, spellcheck: "false", inputmode: "decimal", placeholder: "1\n10\n50" });
  /** What is typed on the lines of the options, in their order; nothing where a line is empty or missing. */
  const armsRead = () => { const costs = armCosts.value.split("\n"); return linesOf(arms).map((arm, k) => ({ name: arm.name, cost: costs[k]?.trim() ? typed(costs[k]) : undefined })); };
  const budgetTests = decimal({ placeholder: "no limit" });
  const budgetCost = decimal({ placeholder: "no limit" });
  const budgetHours = decimal({ placeholder: "no limit" });
  const objective = objectiveFields(fields, choices.noises);
  goal.addEventListener("change", () => {
    topField.hidden = asksForLimitsAlone();
    objective.setNeeded(!asksForLimitsAlone());
  });
  const objectiveRead = () => (asksForLimitsAlone() && objective.isEmpty() ? undefined : objective.read());
  const list = h("div", { class: "new" });
  let constraints = [];
  let serial = 0;
  const judges = () => [objective, ...constraints].map(({ judge }) => judge).filter(({ metric }) => metric.value.trim());
  const measurements = measurementFields(fields, () => [objective, ...constraints, ...judges(), ...constraints.map(({ per, cost }) => ({ metric: per, cost }))
    .filter(({ metric }) => metric.value.trim())]);
  /** The judges whose scores have a cost of their own. A judge of several metrics is asked once. */
  const priced = () => [...new Map(judges().filter(({ cost }) => stated(cost) !== undefined).map((judge) => [judge.metric.value.trim(), judge])).values()];
  const baseline = text({ placeholder: "none" });
  const items = itemFields(fields, () => noun(armWord()));

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
  const aboutMore = h("p", { class: "hint" }, "A constraint is a limit that the answer must keep to, such as: adverse events at most 10%.");
  const reserve = reserveField(fields, () => ({
    isPlain: goal.value === "best" && !(optional(top) > 1) && policy.value === choices.defaults.policy && !judges().length
      && !constraints.map((one) => one.read()).some((one) => one.relative_to_baseline || one.where || one.for_each),
    isOnItems: items.isUsed(),
    noun: noun(armWord()),
    hasConstraints: constraints.length > 0,
    noise: objective.noise(),
  }));
  const problems = h("div", { class: "card summary-errors", role: "alert", tabindex: -1, hidden: true });
  const create = h("button", { class: "primary", "data-needs": "manage" }, "Create the study");

  const form = h("form", { class: "new", novalidate: true },
    h("p", { class: "note", "data-lacks": "manage" }, "Your token may not create studies: that takes one with the role manage."),
    problems,
    h("div", { class: "card" },
      fields.add("name", "Name of the study", name),
      project.length ? fields.add("project", "Project", project) : null,
      h("div", {}, fields.add("arms", "Options, one on a line", arms, "what you want to choose from: formulations, doses, prompts, suppliers …"), armCount)),
    objective.element, list, h("div", {}, more, aboutMore), measurements.element,
    folded(h("span", {}, "More settings", h("span", { class: "muted small" }, ": your words, plates or days, how sure to be, budget")),
    h("fieldset", { class: "card" }, h("legend", {}, "Your words"),
      h("div", { class: "grid-2" },
        fields.add("arm_word", "What you call an option (optional)", word, "pages and reports then say this: formulation, dose, prompt; with an odd plural: mouse/mice"),
        fields.add("baseline", "Baseline (optional)", baseline, "one of the options, which limits may be relative to; or what all of them are compared with (win, tie or loss)"))),
    items.element,
    h("fieldset", { class: "card" }, h("legend", {}, "How to decide"),
      h("div", { class: "grid-2" }, fields.add("goal", "Find", goal, aboutGoal), topField),
      h("div", { class: "grid-2" },
        fields.add("delta", "Accepted chance of a wrong answer", delta, sure),
        fields.add("policy", "Method", policy, aboutPolicy)),
      h("div", { class: "grid-2" },
        fields.add("budget.tests", "At most this many tests (optional)", budgetTests),
        fields.add("budget.cost", "At most this cost (optional)", budgetCost)),
      fields.add("budget.hours", "At most this many hours (optional)", budgetHours, "from when the study is created; then no test begins, and what is out still counts"),
      fields.add("arms.cost", "Options that cost more (optional)", armCosts, "one number on a line, in the order of the options: how many times as much a test of that option costs"),
      h("div", { class: "grid-2" },
        fields.add("order", "Results count", order, aboutOrder), reserve.element))),
    h("div", { class: "buttons" }, create, h("a", { class: "button", href: at("/") }, "Cancel")));

  /** A path as the service knows it, as the path of a control here. */
  function local(path) {
    let found = path.replace(/^plan\.?/, "").replace(/^body\.?/, "");
    const constraint = /^constraints\[(\d+)\]/.exec(found);
    if (constraint) found = found.replace(constraint[0], `constraints[${constraints[Number(constraint[1])]?.index}]`);
    found = found.replace(/^arms\[\d+\]\.cost.*/, "arms.cost");
    const measurement = /^measurements\[(\d+)\]/.exec(found);
    if (!measurement) return found;
    const score = priced()[Number(measurement[1]) - measurements.read().length];
    return score ? score.path : found.replace(measurement[0], `measurements[${measurements.index(Number(measurement[1]))}]`);
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
      for (let fold = entry.control.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
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
    const budget = { tests: optional(budgetTests), cost: optional(budgetCost), blocks: items.most(), hours: optional(budgetHours) };
    const plan = {
      name: name.value.trim(), delta: typed(delta.value, { rate: true }), policy: policy.value, order: order.value,
      objective: objectiveRead(), constraints: constraints.map((one) => one.read()),
      arms: armsRead(), ...items.read(), ...asked(), arm_word: armWord(), ...reserve.read(),
    };
    const together = [...measurements.read(), ...priced().map(({ metric, cost }) => ({ metrics: [metric.value.trim()], cost: stated(cost) }))];
    if (together.length) plan.measurements = together;
    if (baseline.value.trim()) plan.baseline = baseline.value.trim();
    if (Object.values(budget).some((given) => given !== undefined)) plan.budget = budget;
    try {
      if (project.length && !project.value) throw { complaints: [{ field: "project", reason: "choose one" }] };
      const study = await post("/api/studies", { plan, project: project.length ? project.value : undefined });
      location.assign(at(`/studies/${study.id}`));
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
      objective: objectiveRead(),
      constraints: constraints.map((one) => one.read()).filter((one) => one.metric.trim() !== ""),
      arms: linesOf(arms),
      arm_word: armWord(),
      baseline: baseline.value.trim() || undefined,
      ...asked(),
    };
  }
  function showDraft() {
    const plan = draft();
    const begun = plan.arms.length > 0 && (asksForLimitsAlone() ? plan.constraints.length > 0 : !objective.isEmpty());
    measurements.draw();
    items.draw();
    reserve.draw();
    replace(preview, begun ? question(plan) : h("span", { class: "muted" }, "The question appears here as you fill in the form."));
    replace(aboutTests, begun ? [aboutMeasurements(withRatios(measurements.measured(), constraints)), items.words()] : null);
  }
  form.addEventListener("input", showDraft);
  form.addEventListener("click", showDraft);

  showDraft();
  replace(main, h("h1", {}, "New study"),
    h("p", { class: "question" }, "bestarm says what to test next, and stops as soon as the answer is certain enough."),
    h("div", { class: "new-page" }, form,
      h("aside", { class: "card", "aria-label": "The question so far" }, h("h2", {}, "The question"), preview, aboutTests)));
}
