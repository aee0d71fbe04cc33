// Numbers as people type them: with a decimal point or comma, and rates in percent. `parsing.py` reads sheets the same way.

const DECIMAL = /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
const PERCENT = /^([+-]?[0-9.,]+)\s*([%‰])$/;
/** 3/40 or 3 of 40: k of n trials. */
const SEVERAL = /^[0-9]+ *(\/|of) *[0-9]+$/;
/** 1,234 may be 1234 with its thousands set apart. 0,123 and 1,2340 may not. */
const DOUBTFUL = /^[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}$/;
const GROUPED = /^[+-]?[0-9]{1,3}([.,'’ \u00a0\u2009\u202f])[0-9]{3}(\1[0-9]{3})*([.,][0-9]*)?$/;

const isComma = (text) => text.split(",").length === 2 && !text.includes(".");

/** Whether a typed number has a decimal comma for certain. */
export function hasComma(written) {
  const text = written.trim().replace(/\s*%$/, "");
  return isComma(text) && !DOUBTFUL.test(text) && DECIMAL.test(text.replace(",", "."));
}

function twoReadings(plain, end) {
  const [whole, part] = plain.split(/[.,]/);
  const mark = plain.includes(",") ? "," : ".";
  return `may be ${whole}.${part}${end} or ${whole}${part}${end}; write ${whole}${mark}${part}0${end} or ${whole}${part}${end}`;
}

/**
 * What was typed as `{ value }`, or `{ reason }` why it is no number. 90% of a `rate` is 0.9. `words` stand for numbers.
 * Where other numbers have decimal `commas`, 1,234 is clear, and 1.234 is not.
 */
export function readTyped(written, { rate = false, words = null, commas = false } = {}) {
  const text = written.trim();
  const word = words?.[text.toLowerCase()];
  if (word !== undefined) return { value: word };
  // Several trials of one test: the service reads them.
  if (SEVERAL.test(text)) return { value: text };
  const found = PERCENT.exec(text);
  const percent = rate && found?.[2] === "%";
  const plain = percent ? found[1] : text;
  const pointed = isComma(plain) ? plain.replace(",", ".") : plain;
  if (DECIMAL.test(pointed)) {
    if (DOUBTFUL.test(plain) && plain.includes(",") !== commas) return { reason: twoReadings(plain, text.slice(plain.length)) };
    // As the decimal number that is written: 0.1 / 100 would be another one.
    const value = Number(percent ? `${pointed}e-2` : pointed);
    if (Number.isFinite(value)) return { value };
  }
  const [first, second] = Object.keys(words ?? {});
  if (words && "tie" in words) return { reason: "must be win, loss or tie, or a number from 0 to 1" };
  if (words && first) return { reason: `must be ${first} or ${second}, or 1 or 0` };
  if (found) {
    const [number, sign] = [DECIMAL.test(found[1]) ? found[1] : "45", found[2]];
    return { reason: `must be a number without a percent sign; ${number}${sign} of 1 is ${Number(`${number}e-${sign === "%" ? 2 : 3}`)}` };
  }
  if (GROUPED.test(text)) return { reason: "must be written without thousands separators, as in 1234.5" };
  return { reason: "must be a number" };
}

/** Text that was copied from a spreadsheet, as rows of cells. */
export function pastedRows(text) {
  const rows = text.replace(/\r\n?/g, "\n").replace(/\n$/, "").split("\n");
  return rows.map((row) => row.split("\t").map((cell) => cell.trim()));
}
