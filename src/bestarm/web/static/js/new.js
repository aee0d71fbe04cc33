// The form for a new study. The service checks it; its complaints are shown at the fields they are about.

import { post } from "./api.js";
import { h, newId, replace } from "./dom.js";
import { typed } from "./flight.js";
import { question } from "./summary.js";
import { promised } from "./words.js";

const POLICIES = [
  ["certify", "certify (recommended)"],
  ["feasible-lucb", "feasible-lucb (Algorithm 1 of the paper)"],
  ["feasibility-first", "feasibility-first"],
  ["performance-first", "performance-first"],
  ["tf-lucb", "tf-lucb"],
  ["racing", "racing"],
];

/** All controls, by the path of the field that they fill in. */
class Fields {
  constructor() {
    this.controls = new Map();
  }

  /** A labeled control with a place for a complaint. */
  add(path, label, control, hint) {
    control.id = newId("field");
    const error = h("p", { class: "error", id: `${control.id}-error` });
    const help = hint ? h("span", { class: "hint", id: `${control.id}-hint` }, hint) : null;
    control.setAttribute("aria-describedby", [help?.id, error.id].filter(Boolean).join(" "));
    const entry = { control, error, label };
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

const text = (attributes = {}) => h("input", { autocomplete: "off", ...attributes });
const decimal = (attributes = {}) => text({ inputmode: "decimal", ...attributes });
const optional = (control) => (control.value.trim() === "" ? undefined : typed(control.value));

/** How results scatter: a choice, and the numbers it needs. */
function noiseFields(fields, path) {
  const kind = h("select", {},
    h("option", { value: "bernoulli" }, "Yes or no (1 or 0)"),
    h("option", { value: "gaussian" }, "Any number, known standard deviation"),
    h("option", { value: "bounded" }, "A number between two limits"));
  const sigma = decimal({ placeholder: "1.0" });
  const low = decimal({ placeholder: "0" });
  const high = decimal({ placeholder: "100" });
  const choice = fields.add(`${path}.noise`, "One result is", kind);
  const forGaussian = fields.add(`${path}.noise.gaussian`, "Standard deviation", sigma, "of a single result, at most");
  const forBounded = h("div", { class: "grid-2" },
    fields.add(`${path}.noise.bounded[0]`, "Smallest possible", low),
    fields.add(`${path}.noise.bounded[1]`, "Largest possible", high));
  const showWhatFits = () => {
    forGaussian.hidden = kind.value !== "gaussian";
    forBounded.hidden = kind.value !== "bounded";
  };
  kind.addEventListener("change", showWhatFits);
  showWhatFits();
  return {
    elements: [choice, forGaussian, forBounded],
    read() {
      if (kind.value === "gaussian") return { gaussian: typed(sigma.value) };
      if (kind.value === "bounded") return { bounded: [typed(low.value), typed(high.value)] };
      return "bernoulli";
    },
  };
}

function objectiveFields(fields) {
  const metric = text({ placeholder: "efficacy", required: true });
  const goal = h("select", {}, h("option", { value: "maximize" }, "as large as possible"), h("option", { value: "minimize" }, "as small as possible"));
  const cost = decimal({ placeholder: "1" });
  const tolerance = decimal({ placeholder: "0" });
  const noise = noiseFields(fields, "objective");
  return {
    element: h("fieldset", { class: "card" }, h("legend", {}, "What to make best"),
      h("div", { class: "grid-2" },
        fields.add("objective.metric", "Metric", metric),
        fields.add("objective.goal", "Should be", goal)),
      h("div", { class: "grid-2" }, noise.elements),
      h("div", { class: "grid-2" },
        fields.add("objective.cost", "Cost of one test (optional)", cost),
        fields.add("objective.tolerance", "Tolerance (optional)", tolerance, "an arm this close to the best is good enough"))),
    read: () => ({ metric: metric.value, goal: goal.value, noise: noise.read(), cost: optional(cost), tolerance: optional(tolerance) }),
  };
}

function constraintFields(fields, index, remove) {
  const path = `constraints[${index}]`;
  const metric = text({ placeholder: "adverse event", required: true });
  const side = h("select", { "aria-label": "Side of the threshold" }, h("option", { value: "at_most" }, "at most"), h("option", { value: "at_least" }, "at least"));
  const threshold = decimal({ placeholder: "0.5", required: true });
  const cost = decimal({ placeholder: "1" });
  const slack = decimal({ placeholder: "0" });
  const noise = noiseFields(fields, path);
  const bound = fields.add(`${path}.threshold`, "Mean must be", threshold);
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
    h("div", { class: "grid-2" },
      fields.add(`${path}.cost`, "Cost of one test (optional)", cost),
      fields.add(`${path}.slack`, "Slack (optional)", slack, "an arm that misses by less than this may pass")));
  return {
    element,
    metric,
    read: () => ({ metric: metric.value, [side.value]: typed(threshold.value), noise: noise.read(), cost: optional(cost), slack: optional(slack) }),
  };
}

/** The place in the text of each arm that is not an empty line. */
function armLines(area) {
  return area.value.split("\n").map((line, k) => ({ name: line.trim(), line: k + 1 })).filter((arm) => arm.name !== "");
}

export async function show(main) {
  document.title = "New study · bestarm";
  const fields = new Fields();
  const name = text({ required: true, placeholder: "dose" });
  const arms = h("textarea", { rows: 6, spellcheck: "false", required: true, placeholder: "25 mg\n75 mg\n150 mg" });
  const armCount = h("p", { class: "hint" });
  arms.addEventListener("input", () => { const n = armLines(arms).length; armCount.textContent = n ? `${n} ${n === 1 ? "arm" : "arms"}` : ""; });
  const delta = decimal({ value: "0.05" });
  const sure = h("span", {}, "95 % confidence");
  delta.addEventListener("input", () => {
    const value = typed(delta.value);
    replace(sure, typeof value === "number" && value > 0 && value < 1 ? `${promised(value)} confidence` : "between 0 and 1");
  });
  const policy = h("select", {}, POLICIES.map(([value, title]) => h("option", { value }, title)));
  const budgetTests = decimal({ placeholder: "no limit" });
  const budgetCost = decimal({ placeholder: "no limit" });
  const objective = objectiveFields(fields);
  const list = h("div", { class: "new" });
  let constraints = [];
  let serial = 0;

  function addConstraint(focus) {
    const index = serial++;
    const one = constraintFields(fields, index, () => {
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
  const create = h("button", { class: "primary" }, "Create the study");

  const form = h("form", { class: "new", novalidate: true },
    problems,
    h("div", { class: "card" },
      fields.add("name", "Name of the study", name),
      h("div", {}, fields.add("arms", "Arms, one on a line", arms, "the options to choose from"), armCount)),
    objective.element, list, h("div", {}, more),
    h("fieldset", { class: "card" }, h("legend", {}, "How to decide"),
      h("div", { class: "grid-2" },
        fields.add("delta", "Accepted chance of a wrong answer", delta, sure),
        fields.add("policy", "Policy", policy, "what decides which test comes next; certify needs the fewest")),
      h("div", { class: "grid-2" },
        fields.add("budget.tests", "At most so many tests (optional)", budgetTests),
        fields.add("budget.cost", "At most this cost (optional)", budgetCost))),
    h("div", { class: "buttons" }, create, h("a", { class: "button", href: "/" }, "Cancel")));

  /** A path as the service knows it, as the path of a control here. */
  function local(path) {
    let found = path.replace(/^plan\.?/, "").replace(/^body\.?/, "");
    const constraint = /^constraints\[(\d+)\]/.exec(found);
    if (constraint) found = found.replace(constraint[0], `constraints[${constraints[Number(constraint[1])]?.index}]`);
    return found;
  }

  function complain(error) {
    // One answer may hold several complaints, each beginning with its field.
    const parts = error.message.split(/; (?=(?:plan\.)?(?:name|arms|objective|constraints|delta|policy|budget)\b)/);
    const items = parts.map((reason, k) => {
      const path = k === 0 && error.field ? error.field : /^[a-z_]+(?:\[\d+\]|\.[a-z_]+)*/.exec(reason)?.[0];
      const side = /^(constraints\[\d+\]).*constraint .* (at_most|at_least)\b/.exec(reason);
      const entry = path ? fields.find(local(side ? `${side[1]}.threshold` : path)) : null;
      const line = /arms\[(\d+)\]/.exec(path || "");
      const words = (line ? `Line ${armLines(arms)[Number(line[1])]?.line}: ` : "") + plain(reason);
      if (!entry) return { item: h("li", {}, reason), control: null };
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
      name: name.value.trim(), delta: typed(delta.value), policy: policy.value,
      objective: objective.read(), constraints: constraints.map((one) => one.read()),
      arms: armLines(arms).map((arm) => ({ name: arm.name })),
    };
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
  function draft() {
    return {
      objective: { ...objective.read(), metric: objective.read().metric.trim() || "…" },
      constraints: constraints.map((one) => one.read()).filter((one) => one.metric.trim() !== ""),
      arms: armLines(arms),
    };
  }
  function showDraft() {
    const plan = draft();
    const begun = plan.arms.length > 0 && plan.objective.metric !== "…";
    replace(preview, begun ? question(plan) : h("span", { class: "muted" }, "What the form says so far stands here as a question."));
  }
  form.addEventListener("input", showDraft);
  form.addEventListener("click", showDraft);

  addConstraint(false);
  showDraft();
  replace(main, h("h1", {}, "New study"),
    h("p", { class: "question" }, "bestarm says which arm to test next on which metric, and stops as soon as the answer is certain enough."),
    h("div", { class: "new-page" }, form,
      h("aside", { class: "card", "aria-label": "The question so far" }, h("h2", {}, "The question"), preview)));
}

/** A complaint without the path and value that stand before it: the field is where it is shown. */
function plain(reason) {
  const found = /^[a-z_]+(?:\[\d+\]|\.[a-z_]+)*(?: = .*?)?:? (?=(?:must|is|needs|another|no such|this|a )\b)/s.exec(reason);
  return found ? reason.slice(found[0].length) : reason;
}
