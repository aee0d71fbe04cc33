// Results that were measured without asking, by hand, and results in files: CSV and Excel workbooks.

import { post, postFile } from "../library/api.js";
import { recordTyped, signature, unlessFar } from "../library/dialogs.js";
import { announce, h, newId, replace } from "../library/dom.js";
import { hasPlaces, itemCount, TOGETHER, valueBoxes } from "../library/measuring.js";
import { nounOf } from "../library/nouns.js";
import { count, plural } from "../library/words.js";

const LARGEST_FILE = 16e6;
const MOST_OPTIONS = 200;
const MOST_SUGGESTED = 1000;

/** Where the item is named that a result is of, if the study has any. */
function itemBox(plan) {
  const many = itemCount(plan);
  if (!hasPlaces(plan)) return { element: null, control: null, read: () => ({}), clear() {}, mark() {} };
  const isNumbered = typeof plan.items === "number";
  const isListed = !isNumbered && !plan.blocks;
  const id = newId("item");
  const control = h("input", { id, autocomplete: "off", placeholder: isNumbered ? `1 to ${count(many)}` : null,
    inputmode: isNumbered ? "numeric" : null, list: isListed ? `${id}-list` : null });
  const names = !isListed ? null : h("datalist", { id: `${id}-list` }, plan.items.slice(0, MOST_SUGGESTED).map((name) => h("option", { value: name })));
  const wrong = h("p", { class: "error", id: `${id}-wrong` });
  control.setAttribute("aria-describedby", wrong.id);
  return {
    control,
    element: h("div", { class: "field grow" }, h("label", { for: id }, plan.blocks ? `Which ${plan.blocks.name}` : "Item"), control, names, wrong),
    read: () => (control.value.trim() ? { item: control.value.trim() } : {}),
    clear() { control.value = ""; },
    mark(reason) {
      replace(wrong, reason || "");
      if (reason) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    },
  };
}

/** The columns that a file can have, in the words of this study. */
function columnWords(status) {
  const several = status.measured.some(({ metrics }) => metrics.length > 1);
  const item = hasPlaces(status.plan) ? `,${status.plan.blocks?.name ?? "item"}` : "";
  const arm = nounOf(status.plan).one;
  const code = (text) => h("code", {}, text);
  if (!several) {
    return ["Columns ", code("test,value"), " for tests that were asked for, or ", code(`${arm},metric,value${item}`), " for others."];
  }
  const wide = status.measured.find(({ metrics }) => metrics.length > 1).metrics.join(",");
  return ["One line for each test, with a column for each metric: ", code(`test,${wide}`), " for tests that were asked for, or ",
    code(`${arm},${wide}${item}`), " for others. A metric that is measured alone can have lines ", code("test,value"), " or ", code(`${arm},metric,value${item}`), "."];
}

export function entryPanel(context) {
  const plan = context.status.plan;
  const names = plan.arms.map((arm) => (typeof arm === "string" ? arm : arm.name));

  // A list to choose from while it can be overlooked, else a box that suggests.
  const armId = newId("arm");
  const arm = names.length <= MOST_OPTIONS
    ? h("select", { id: armId }, names.map((name) => h("option", { value: name }, name)))
    : h("input", { id: armId, list: `${armId}-list`, autocomplete: "off" });
  const suggestions = names.length <= MOST_OPTIONS ? null
    : h("datalist", { id: `${armId}-list` }, names.map((name) => h("option", { value: name })));
  const measured = context.status.measured;
  const metric = h("select", { id: newId("metric") }, measured.map(({ name }) => h("option", { value: name }, name)));
  const place = h("div", { class: "entry-values" });
  const item = itemBox(plan);
  const wrong = h("p", { class: "error", role: "alert" });
  let values = null;
  const showBoxes = () => {
    const { metrics } = measured[Math.max(0, metric.selectedIndex)];
    values = valueBoxes(metrics, { words: (one) => context.status.results[one] });
    replace(place, values.element);
  };
  metric.addEventListener("change", showBoxes);
  showBoxes();
  const add = h("button", { class: "primary" }, "Add result");
  const byHand = h("form", { class: "inline", novalidate: true },
    h("div", { class: "field grow" }, h("label", { for: armId }, nounOf(plan).One), arm, suggestions),
    h("div", { class: "field grow" }, h("label", { for: metric.id }, "Metric"), metric),
    item.element, place, add);

  function complain(error) {
    const boxes = (error.complaints ?? []).map((one) => ({ one, box: values.about(one) })).filter(({ box }) => box);
    for (const { one, box } of boxes) box.mark(one.reason);
    const box = boxes[0]?.box;
    const isItem = error.complaints?.some(({ field }) => /(^|\.)item$/.test(field || ""));
    if (!box && isItem && item.control) item.mark(error.complaints[0].reason);
    else if (!box) {
      replace(wrong, error.message);
      if (values.boxes.length === 1) values.first.setAttribute("aria-invalid", "true");
    }
    return box?.input || (isItem && item.control) || values.first;
  }

  byHand.addEventListener("submit", async (event) => {
    event.preventDefault();
    replace(wrong);
    values.unmark();
    item.mark(null);
    if (!values.check()) {
      if (values.lacksSome() && values.boxes.length > 1) replace(wrong, TOGETHER);
      return;
    }
    let next = values.first;
    add.disabled = true;
    try {
      const result = { arm: arm.value, ...(values.boxes.length > 1 ? { values: values.read() } : { metric: metric.value, value: values.read() }), ...item.read() };
      const added = await recordTyped(context.base, { given: [result] }, async () => post(`${context.base}/add`, { results: [result], holder: await signature() }));
      if (added) {
        announce(`Result saved as test ${added.ids[0]}`);
        values.clear();
        item.clear();
        if (item.control) next = item.control;
        await context.refresh();
      }
    } catch (error) {
      next = complain(error);
    }
    add.disabled = Boolean(context.status.archived);
    next.focus();
  });

  const file = h("input", { id: newId("file"), type: "file", accept: ".xlsx,.csv,.tsv,text/csv,application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" });
  const upload = h("button", { class: "primary" }, "Upload");
  const lines = h("div", { class: "error-list", role: "alert" });
  const byFile = h("form", { class: "inline", novalidate: true },
    h("div", { class: "field grow" }, h("label", { for: file.id }, "Excel or CSV file"), file), upload);

  byFile.addEventListener("submit", (event) => {
    event.preventDefault();
    readFile([]);
  });

  /** The file is read without columns that are to be ignored. */
  async function readFile(ignored) {
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
      const without = ignored.map((column) => `&ignore=${encodeURIComponent(column)}`).join("");
      const holder = encodeURIComponent(await signature());
      const send = (query) => postFile(`${context.base}/csv?holder=${holder}${query}${without}`, chosen);
      const read = await unlessFar(() => send("&check_far=true"), () => send(""));
      const { told = 0, known = 0, skipped = 0 } = read ?? {};
      const blank = skipped ? `; ${plural(skipped, "test")} without a value left out` : "";
      const said = told || !known ? `${plural(told, "result")} read from the file${blank}`
        : `Nothing new: ${known === 1 ? "this result is" : `these ${count(known)} results are`} recorded already${blank}`;
      replace(lines, h("p", { class: "muted" }, read ? `${said}.` : "Nothing was read."));
      if (read) {
        announce(said);
        byFile.reset();
        await context.refresh();
      }
    } catch (error) {
      const unknown = error.complaints?.find(({ field }) => field === "ignore")?.choices ?? [];
      replace(lines, h("p", { class: "error" }, "Nothing was read:"),
        // What the service says of commands has a button here.
        h("pre", { class: "error", tabindex: 0 }, error.message.replace(/`bestarm tell [^`]* --correct --reason WHY` replaces it/g, "“Correct” in the log below replaces it")),
        unknown.length ? h("button", { type: "button", onclick: () => readFile(unknown) },
          `Read it without the column${unknown.length > 1 ? "s" : ""} ${unknown.join(", ")}`) : null);
    }
    upload.disabled = Boolean(context.status.archived);
  }

  const element = h("div", { class: "columns", "data-needs": "work" },
    h("div", { class: "card" }, h("h3", {}, "Measured without asking"),
      h("p", { class: "muted" }, "Enter every result, in the order measured: picking among them would bias the answer."),
      byHand, wrong),
    h("div", { class: "card" }, h("h3", {}, "From a file"),
      h("p", { class: "muted columns-words" }, columnWords(context.status), " All lines are read, or none."),
      byFile, lines));

  return {
    element,
    update(status) {
      const closed = Boolean(status.archived);
      add.disabled = closed;
      upload.disabled = closed;
    },
  };
}
