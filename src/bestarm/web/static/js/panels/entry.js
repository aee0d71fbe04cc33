// Results that were measured without asking: by hand or from a CSV file.

import { post, postCsv } from "../library/api.js";
import { announce, h, newId, replace } from "../library/dom.js";
import { typed } from "../library/fields.js";
import { visitorName } from "../library/visitor.js";
import { plural } from "../library/words.js";

const LARGEST_FILE = 16e6;
const MOST_OPTIONS = 200;

export function entryPanel(context) {
  const plan = context.status.plan;
  const parts = [plan.objective, ...(plan.constraints || [])];
  const names = plan.arms.map((arm) => (typeof arm === "string" ? arm : arm.name));

  // A list to choose from while it can be overlooked, else a box that suggests.
  const armId = newId("arm");
  const arm = names.length <= MOST_OPTIONS
    ? h("select", { id: armId }, names.map((name) => h("option", { value: name }, name)))
    : h("input", { id: armId, list: `${armId}-list`, autocomplete: "off" });
  const suggestions = names.length <= MOST_OPTIONS ? null
    : h("datalist", { id: `${armId}-list` }, names.map((name) => h("option", { value: name })));
  const metric = h("select", { id: newId("metric") }, parts.map((part) => h("option", { value: part.metric }, part.metric)));
  const value = h("input", { id: newId("value"), inputmode: "decimal", autocomplete: "off", class: "value" });
  const hint = h("span", { class: "sr", id: `${value.id}-hint` });
  const wrong = h("p", { class: "error", id: `${value.id}-wrong`, role: "alert" });
  value.setAttribute("aria-describedby", `${hint.id} ${wrong.id}`);
  const showHint = () => {
    const words = context.status.results[parts[Math.max(0, metric.selectedIndex)].metric];
    replace(hint, words.sentence);
    value.placeholder = words.hint;
  };
  metric.addEventListener("change", showHint);
  showHint();
  const add = h("button", { class: "primary" }, "Add result");
  const byHand = h("form", { class: "inline", novalidate: true },
    h("div", { class: "field grow" }, h("label", { for: armId }, "Arm"), arm, suggestions),
    h("div", { class: "field grow" }, h("label", { for: metric.id }, "Metric"), metric),
    h("div", { class: "field" }, h("label", { for: value.id }, "Result"), value, hint),
    add);

  byHand.addEventListener("submit", async (event) => {
    event.preventDefault();
    replace(wrong);
    value.removeAttribute("aria-invalid");
    add.disabled = true;
    try {
      const result = { arm: arm.value, metric: metric.value, value: typed(value.value) };
      const { ids } = await post(`${context.base}/add`, { results: [result], holder: visitorName() });
      announce(`Result saved as test ${ids[0]}`);
      value.value = "";
      await context.refresh();
    } catch (error) {
      replace(wrong, error.message);
      value.setAttribute("aria-invalid", "true");
    }
    add.disabled = Boolean(context.status.archived);
    value.focus();
  });

  const file = h("input", { id: newId("file"), type: "file", accept: ".csv,text/csv" });
  const upload = h("button", { class: "primary" }, "Upload");
  const lines = h("div", { class: "error-list", role: "alert" });
  const byFile = h("form", { class: "inline", novalidate: true },
    h("div", { class: "field grow" }, h("label", { for: file.id }, "CSV file"), file), upload);

  byFile.addEventListener("submit", async (event) => {
    event.preventDefault();
    replace(lines);
    const chosen = file.files[0];
    if (!chosen) {
      replace(lines, h("p", { class: "error" }, "Choose a file first."));
      return;
    }
    if (chosen.size > LARGEST_FILE) {
      replace(lines, h("p", { class: "error" }, "The file is larger than 16 MB; read it in with “bestarm import” instead."));
      return;
    }
    upload.disabled = true;
    try {
      const { told } = await postCsv(`${context.base}/csv`, chosen);
      announce(`${plural(told, "result")} read from the file`);
      byFile.reset();
      await context.refresh();
    } catch (error) {
      replace(lines, h("p", { class: "error" }, "Nothing was read:"),
        h("pre", { class: "error", tabindex: 0 }, error.message));
    }
    upload.disabled = Boolean(context.status.archived);
  });

  const element = h("div", { class: "card" },
    h("h3", {}, "Measured without asking"),
    h("p", { class: "muted" }, "Enter every result there is, in the order measured: to pick among them would bias the answer."),
    byHand, wrong,
    h("h3", {}, "From a file"),
    h("p", { class: "muted" }, "Columns ", h("code", {}, "test,value"), " for tests that were asked for, or ",
      h("code", {}, "arm,metric,value"), " for others. All lines are read, or none."),
    byFile, lines);

  return {
    element,
    update(status) {
      const closed = Boolean(status.archived);
      add.disabled = closed;
      upload.disabled = closed;
    },
  };
}
