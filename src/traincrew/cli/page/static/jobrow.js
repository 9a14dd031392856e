// A row of the list: one job in one line, with the course of its main metric and its pods by state.

import { age as ageText, count, element, number, seconds } from "./format.js";
import { DOTS, state } from "./states.js";
import { DELETED, SELF_EVIDENT, WORDS } from "./shared.js";

/**
 * @typedef {{kind: string, namespace: string, name: string, phase: string, ready: number, desired: number,
 *   restarts: number, percentage: number | null, createdAt: string, startedAt: string | null, endedAt: string | null, reason: string,
 *   message: string, warning: string}} Summary
 * @typedef {{ready: number, failed: number, finished: number, waiting: number}} PodCounts
 * @typedef {{metric: string, value: number, heights: number[]}} Trend heights are from 0 to 99
 * @typedef {{job: Summary, sign: import("./shared.js").Tone, pods: PodCounts, trend: Trend | null, deletedAt: string | null}} JobRow as the server sends it
 * @typedef {{row: HTMLElement, age: HTMLElement}} Drawn
 * @typedef {{content: JobRow, job: Summary, phase: string, sign: import("./shared.js").Tone, text: string, hidden: boolean, drawn: Drawn | null}} Shown
 *   what is known of a row before it is drawn: enough to sort, count and find it
 */

const MOST_DOTS = 10;
const WIDTH = 72;
const HEIGHT = 18;
const HIGHEST = 99;
const SVG = "http://www.w3.org/2000/svg";
/** The states of pods that a row tells apart, in their order, each with its tone and word. */
const PODS = /** @type {[keyof PodCounts, import("./shared.js").Tone, string][]} */ ([
  ["ready", "run", WORDS.running], ["finished", "good", WORDS.finished], ["failed", "bad", WORDS.failed], ["waiting", "wait", "not ready"],
]);

/**
 * Return the phase that is shown: one that was deleted has none any more.
 * @param {JobRow} row
 */
export function phaseOf({ job, deletedAt }) {
  return deletedAt === null ? job.phase : DELETED;
}

/** @param {Summary} job */
export function ageOf(job) {
  const then = seconds(job.createdAt);
  return then === null ? "" : ageText(Date.now() / 1000 - then);
}

/**
 * Return what there is to know of a job in a state that does not speak for itself.
 * @param {{job: Summary, deletedAt: string | null}} row
 */
export function knownOf({ job, deletedAt }) {
  const { phase, reason, message, warning } = job;
  if (deletedAt !== null) return `It was ${phase} before it was deleted.${message && !SELF_EVIDENT.has(phase) ? ` ${message}` : ""}`;
  if (warning) return warning;
  if (SELF_EVIDENT.has(phase)) return "";
  return reason && message ? `${reason}: ${message}` : reason || message;
}

/**
 * Return what is known of a row that is not drawn yet.
 * @param {JobRow} content
 * @returns {Shown}
 */
export function shownOf(content) {
  const { job, sign } = content, phase = phaseOf(content);
  return { content, job, phase, sign, text: `${job.name} ${job.namespace} ${job.kind} ${phase}`.toLowerCase(), hidden: false, drawn: null };
}

/**
 * Return the row of a job.
 * @param {string} key KIND.GROUP/NAMESPACE/NAME
 * @param {JobRow} content
 * @param {HTMLElement} box with which it is selected
 * @returns {Drawn}
 */
export function rowOf(key, content, box) {
  const { job, sign: tone, trend } = content;
  const phase = phaseOf(content), why = knownOf(content);
  const age = element("td", { class: "number age" }, ageOf(job));
  const address = `#/job/${key.split("/").map(encodeURIComponent).join("/")}`;
  const row = element("tr", { "data-key": key, ...(content.deletedAt === null ? {} : { class: "gone" }) },
    element("td", { class: "select" }, box),
    element("td", {}, state(phase, tone)),
    element("td", { class: "name" }, element("a", { href: address, title: job.name }, job.name)),
    element("td", { class: "optional" }, job.kind),
    element("td", { class: "optional namespace" }, job.namespace),
    element("td", { class: "done" }, ...progressOf(job, tone)),
    element("td", { class: "metric" }, trend && metricOf(trend, tone)),
    element("td", { class: "pods" }, podsOf(content, tone)),
    element("td", { class: "number optional restarts" }, job.restarts || ""),
    age,
    element("td", { class: "why" }, element("div", { class: "clipped", dir: "auto", title: why }, why)),
  );
  return { row, age };
}

/**
 * @param {Summary} job
 * @param {string} tone
 */
function progressOf({ percentage }, tone) {
  if (percentage === null) return [];
  return [element("div", { class: "progress-cell" },
    element("progress", { class: tone, value: String(percentage), max: "100", "aria-label": `${percentage} % done` }), element("span", { class: "number" }, `${percentage} %`))];
}

/**
 * @param {Trend} trend
 * @param {string} tone of the job
 */
function metricOf({ metric, value, heights }, tone) {
  return element("div", { class: "metric-cell", title: metric }, sparkline(heights, metric, tone === "run" ? "spark" : "spark ended"), element("b", { class: "number" }, number(value)));
}

/**
 * Return the points of a small curve, as SVG writes them: from left to right, the highest value on top.
 * @param {number[]} heights from 0 to 99
 */
export function pointsOf(heights) {
  const inner = HEIGHT - 2, last = Math.max(heights.length - 1, 1);
  return heights.map((height, index) => `${round(index / last * WIDTH)},${round(1 + (1 - height / HIGHEST) * inner)}`).join(" ");
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10;
}

/**
 * @param {number[]} heights
 * @param {string} metric
 * @param {string} classes
 */
function sparkline(heights, metric, classes) {
  const svg = document.createElementNS(SVG, "svg");
  const line = document.createElementNS(SVG, "polyline");
  for (const [name, value] of Object.entries({ width: WIDTH, height: HEIGHT, role: "img", "aria-label": metric, class: classes })) svg.setAttribute(name, String(value));
  line.setAttribute("points", heights.length > 1 ? pointsOf(heights) : "");
  svg.append(line);
  return svg;
}

/**
 * Return how many dots each state has: one for each pod, or, of many pods, shares of them, but at least one.
 * @param {PodCounts} pods
 * @returns {Record<keyof PodCounts, number>}
 */
export function dotsOf(pods) {
  const found = { ...pods };
  const all = PODS.reduce((sum, [name]) => sum + pods[name], 0);
  if (all <= MOST_DOTS) return found;
  for (const [name] of PODS) found[name] = pods[name] ? Math.max(1, Math.floor(pods[name] / all * MOST_DOTS)) : 0;
  // What is left goes to the state of which there are most.
  const [most] = PODS.map(([name]) => name).sort((a, b) => pods[b] - pods[a]);
  const used = PODS.reduce((sum, [name]) => sum + found[name], 0);
  if (most) found[most] += MOST_DOTS - used;
  return found;
}

/**
 * @param {JobRow} row
 * @param {import("./shared.js").Tone} phase tone of the job: one that is held waits for nothing
 */
function podsOf({ job, pods }, phase) {
  const dots = dotsOf(pods);
  const words = PODS.filter(([name]) => pods[name]).map(([name, , word]) => `${count(pods[name])} ${word}`).join(", ");
  const made = PODS.flatMap(([name, own]) => {
    const tone = name === "waiting" && phase === "held" ? "held" : own;
    return dots[name] ? [element("i", { class: `dot ${tone}` }, DOTS[tone].repeat(dots[name]))] : [];
  });
  const text = job.endedAt ? "" : `${count(job.ready)}/${count(job.desired)}`;
  return element("div", { class: "pods-cell", title: words },
    made.length ? element("span", { class: "dots", role: "img", "aria-label": words }, ...made) : null, element("span", { class: "number faint" }, text));
}
