// The numbers behind the curves: what the horizontal axis shows, smoothing, the best value. Nothing here draws.

import { COUNTED, STEPS } from "./shared.js";

/**
 * @typedef {{metric: string, source: string, at: number[], value: number[]}} Series times in seconds since 1970
 * @typedef {"step" | "time" | "clock"} Axis
 * @typedef {{source: string, x: number[], y: number[]}} Line
 */

export const COUNTERS = new Set([...COUNTED, "done"]);
const SMALL_IS_GOOD = /loss|error|perplexity|\bppl\b|\bmse\b|\bmae\b|\brmse\b/i;
const LARGE_IS_GOOD = /acc|auc|\bf1\b|precision|recall|bleu|reward|\biou\b|\bmap\b/i;
/** Values of one printed line may differ by so much in time, in seconds. */
const SAME_LINE = 0.0015;

/**
 * Return the series by which a source counts its steps, if it does.
 * @param {Series[]} all
 * @param {string} source
 */
export function counterOf(all, source) {
  for (const name of STEPS) {
    const found = all.find((each) => each.source === source && each.metric === name && each.at.length);
    if (found) return found;
  }
  return undefined;
}

/**
 * Return the step at a time: the last one that was counted until then; undefined before the first.
 * @param {Series} counter
 * @param {number} at
 */
export function stepAt({ at: times, value }, at) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (/** @type {number} */ (times[middle]) <= at + SAME_LINE) low = middle + 1; else high = middle;
  }
  return low ? value[low - 1] : undefined;
}

/**
 * Return the points of a series along an axis. By steps, what an attempt repeats replaces what there was.
 * @param {Series} series
 * @param {Axis} axis
 * @param {number} began what the axis "time" counts from
 * @param {Series | undefined} counter
 * @returns {Line}
 */
export function lineOf(series, axis, began, counter) {
  const { source, at, value } = series;
  if (axis !== "step" || !counter) {
    return { source, x: axis === "clock" ? at.slice() : at.map((each) => each - began), y: value.slice() };
  }
  /** @type {number[]} */
  const x = [], /** @type {number[]} */ y = [];
  at.forEach((time, index) => {
    const step = stepAt(counter, time);
    if (step === undefined) return;
    while (x.length && /** @type {number} */ (x[x.length - 1]) >= step) { x.pop(); y.pop(); }
    x.push(step);
    y.push(/** @type {number} */ (value[index]));
  });
  return { source, x, y };
}

/**
 * Whether programs count their steps finely enough for an axis: at least half of the values have a step of their own.
 * @param {Series[]} measured
 * @param {Map<string, Series | undefined>} counters by source
 */
export function isCounted(measured, counters) {
  let all = 0, own = 0;
  for (const each of measured) {
    all += each.at.length;
    const counter = counters.get(each.source);
    if (counter) own += lineOf(each, "step", 0, counter).x.length;
  }
  return all > 0 && own >= all / 2;
}

/**
 * Return an exponential moving average whose beginning is not drawn towards 0.
 * @param {number[]} values
 * @param {number} weight of what was before, from 0 to 1
 */
export function smoothed(values, weight) {
  let sum = 0, share = 0;
  return values.map((value) => {
    sum = weight * sum + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return sum / share;
  });
}

/**
 * Return the best value of a metric, if its name says which one that is.
 * @param {string} metric
 * @param {Line[]} lines
 * @returns {{value: number, x: number} | null}
 */
export function bestOf(metric, lines) {
  const sign = SMALL_IS_GOOD.test(metric) ? -1 : LARGE_IS_GOOD.test(metric) ? 1 : 0;
  if (!sign) return null;
  /** @type {{value: number, x: number} | null} */
  let best = null;
  for (const { x, y } of lines) {
    y.forEach((value, index) => {
      if (best === null || sign * value > sign * best.value) best = { value, x: /** @type {number} */ (x[index]) };
    });
  }
  return best;
}

/**
 * Return a table of comma-separated values: a row for each place on the axis, a column for each source.
 * @param {string} axis
 * @param {Line[]} lines
 */
export function csvOf(axis, lines) {
  /** @type {Map<number, (number | "")[]>} */
  const rows = new Map();
  lines.forEach(({ x, y }, column) => x.forEach((place, index) => {
    const row = rows.get(place) ?? lines.map(() => /** @type {number | ""} */ (""));
    row[column] = y[index] ?? "";
    rows.set(place, row);
  }));
  const cell = (/** @type {string} */ text) => (/[",\n]/.test(text) || /^[=+@-]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const head = [axis, ...lines.map(({ source }) => cell(source))].join(",");
  const sorted = [...rows].sort(([a], [b]) => a - b).map(([place, row]) => [place, ...row].join(","));
  return `${[head, ...sorted].join("\n")}\n`;
}

/**
 * Return where the texts of marks are written, so that none covers another or is cut: right of its mark, or left of it at the
 * end of the axis; below those that are there already. The text of a mark without room is left out: its line says where it is.
 * @param {{x: number, width: number, text: string}[]} marks
 * @param {{left: number, right: number, gap: number}} room
 * @param {number} lines how many there are
 */
export function labelled(marks, room, lines) {
  const taken = Array.from({ length: lines }, () => /** @type {[number, number][]} */ ([]));
  return marks.flatMap(({ x: at, width, text }) => {
    const x = at + room.gap + width <= room.right ? at + room.gap : Math.max(room.left, at - room.gap - width);
    const line = taken.findIndex((used) => used.every(([from, to]) => x + width + room.gap <= from || x >= to + room.gap));
    if (line < 0) return [];
    taken[line]?.push([x, x + width]);
    return [{ x, line, text }];
  });
}
