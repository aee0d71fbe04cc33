// Axes: from values to places, and round numbers to mark.

/** From the smallest to the largest finite value, with a little room; not beyond what a value can be. */
export function extent(values, least = null, most = null) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null || value === undefined || !Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [least ?? 0, most ?? (least ?? 0) + 1];
  const room = high > low ? 0.03 * (high - low) : Math.abs(high) || 1;
  // What is out of range all the same, such as a limit that nothing can reach, is shown.
  const from = least === null ? low - room : Math.max(low - room, Math.min(least, low));
  const to = most === null ? high + room : Math.min(high + room, Math.max(most, high));
  return from < to ? [from, to] : [low - room, high + room];
}

export function linear([low, high], [from, to]) {
  const slope = (to - from) / (high - low);
  return (value) => from + (value - low) * slope;
}

export function ticks([low, high], about) {
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((size) => size >= 0.7 * raw);
  const marks = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) marks.push(parseFloat((k * step).toPrecision(12)));
  return marks;
}
