// The numbers behind a comparison of jobs: which metrics there are, one line for each job, values at a place. Nothing here draws.

import { COUNTERS, counterOf, lineOf } from "./points.js";

/**
 * @typedef {import("./points.js").Series} Series
 * @typedef {import("./points.js").Line} Line
 * @typedef {"step" | "time"} Axis time is that since the first value of each job
 * @typedef {{line: Line | null, pod: string, others: number, why: string}} Compared what is drawn of a job: a line named as the job, the
 *   pod whose values they are, how many more pods have the metric, and why there is none
 */

/**
 * Return the metrics that these jobs have, those first that most of them have.
 * @param {Series[][]} jobs
 */
export function metricsOf(jobs) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const series of jobs) {
    for (const metric of new Set(series.filter(({ at }) => at.length).map((each) => each.metric))) {
      if (!COUNTERS.has(metric)) found.set(metric, (found.get(metric) ?? 0) + 1);
    }
  }
  return [...found].sort(([, a], [, b]) => b - a).map(([metric]) => metric);
}

/**
 * Whether any of these jobs counts its steps.
 * @param {Series[][]} jobs
 */
export function anyCounts(jobs) {
  return jobs.some((series) => series.some(({ source }) => counterOf(series, source)));
}

/**
 * Return what is drawn of a job: the pod with the most values of a metric, of several the first.
 * @param {Series[]} series of the job
 * @param {string} metric
 * @param {Axis} axis
 * @param {string} label what the line is called
 * @returns {Compared}
 */
export function comparedOf(series, metric, axis, label) {
  const own = series.filter((each) => each.metric === metric && each.at.length);
  const [longest] = own.slice().sort((a, b) => b.at.length - a.at.length);
  if (!longest) return { line: null, pod: "", others: 0, why: series.length ? `has no ${metric}` : "no metrics yet" };
  const named = { pod: longest.source, others: own.length - 1 };
  const counter = counterOf(series, longest.source);
  if (axis === "step" && !counter) return { line: null, ...named, why: "counts no steps" };
  const { x, y } = lineOf(longest, axis, longest.at[0] ?? 0, counter);
  return { line: { source: label, x, y }, ...named, why: "" };
}

/**
 * Return the value of a line at a place: the last one until there; null before its first and after its last.
 * @param {Line} line
 * @param {number} place
 */
export function valueAt({ x, y }, place) {
  if (!x.length || place > /** @type {number} */ (x[x.length - 1])) return null;
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (/** @type {number} */ (x[middle]) <= place) low = middle + 1; else high = middle;
  }
  return low ? y[low - 1] ?? null : null;
}

/**
 * Return a name for each job that no other one has: its own, with its namespace, or with its kind as well.
 * @param {string[]} keys KIND.GROUP/NAMESPACE/NAME
 */
export function labelsOf(keys) {
  const parts = keys.map((key) => key.split("/"));
  const names = [parts.map(([, , name]) => name ?? ""), parts.map(([, namespace, name]) => `${namespace}/${name}`), keys];
  return names.find((each) => new Set(each).size === keys.length) ?? keys;
}
