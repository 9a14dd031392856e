// The curves of metrics: one diagram for each metric, one curve for each pod that reports it.

import { Chart } from "./chart.js";
import { count, element, throttled } from "./format.js";
import { COUNTERS, counterOf, isCounted, lineOf, stepAt } from "./points.js";

/**
 * @typedef {import("./points.js").Series} Series
 * @typedef {import("./points.js").Axis} Axis
 */

const MOST_DIAGRAMS = 24;
const MOST_CURVES = 16;
const SEARCH_FROM = 12;
const REPORTED = "reported"; // the source of what is in the status of the job
/** Diagrams are drawn before they are scrolled into sight, so far from it. */
const NEAR = "200px";
const AXES = /** @type {Axis[]} */ (["step", "time", "clock"]);

export class Curves {
  constructor() {
    this.grid = element("div", { class: "curves" });
    this.rest = element("p", { class: "faint" });
    this.search = /** @type {HTMLInputElement} */ (element("input", {
      type: "search", placeholder: "Find a metric", "aria-label": "Find a metric", hidden: "", oninput: () => this.draw(),
    }));
    this.axes = AXES.map((axis) => element("button", { type: "button", onclick: () => this.setAxis(axis) }, axis));
    this.smooth = element("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggle("smooth") }, "smooth");
    this.logarithmic = element("button", { type: "button", "aria-pressed": "false", title: "Logarithmic values", onclick: () => this.toggle("logarithmic") }, "log");
    this.tools = element("div", { class: "curve-options", hidden: "" },
      element("div", { class: "choice", role: "group", "aria-label": "Horizontal axis" }, ...this.axes), this.smooth, this.logarithmic, this.search);
    this.none = element("p", { class: "faint card" }, "No metrics yet: they are read from lines such as “epoch 3/20 loss 0.41”.");
    this.place = element("div", {}, this.tools, this.none, this.grid, this.rest);
    /** @type {Series[]} */
    this.series = [];
    /** @type {[number, string][]} */
    this.marks = [];
    /** @type {Map<string, Chart>} */
    this.charts = new Map();
    /** @type {Map<string, () => void>} what draws the diagrams that have something new */
    this.waiting = new Map();
    this.drawing = false;
    /** @type {Set<Element>} diagrams that can be seen */
    this.seen = new Set();
    this.sight = new IntersectionObserver((changes) => {
      for (const { target, isIntersecting } of changes) this.seen[isIntersecting ? "add" : "delete"](target);
      this.drawNext();
    }, { rootMargin: NEAR });
    /** @type {Axis | null} what somebody has chosen */
    this.axis = null;
    this.options = { smooth: false, logarithmic: false };
    this.turnedAway = false;
    this.draw = throttled(() => this.drawNow(), 150);
    window.addEventListener("themechange", () => this.rebuild());
  }

  clear() {
    this.series = [];
    this.marks = [];
    this.rebuild();
  }

  rebuild() {
    for (const metric of this.charts.keys()) this.drop(metric);
    this.none.hidden = false;
    if (this.series.length) this.draw();
  }

  /** @param {{again: boolean, names: [string, string][], points: [number, number, number][], turnedAway: boolean}} content */
  add(content) {
    if (content.again) this.series = [];
    this.turnedAway = content.turnedAway;
    for (const [metric, source] of content.names) this.series.push({ metric, source, at: [], value: [] });
    for (const [at, index, value] of content.points) {
      const series = this.series[index];
      if (!series) continue;
      // uPlot needs times that grow.
      const last = series.at[series.at.length - 1];
      series.at.push(last !== undefined && at <= last ? last + 0.001 : at);
      series.value.push(value);
    }
    this.draw();
  }

  /** @param {[number, string][]} marks */
  setMarks(marks) {
    this.marks = marks;
    this.draw();
  }

  /** @param {Axis} axis */
  setAxis(axis) {
    this.axis = axis;
    this.draw();
  }

  /** @param {"smooth" | "logarithmic"} option */
  toggle(option) {
    this.options[option] = !this.options[option];
    this[option].setAttribute("aria-pressed", String(this.options[option]));
    this.draw();
  }

  /** How far the training is, by what it prints. */
  progress() {
    /** @type {number | null} */
    let done = null;
    /** @type {number | null} */
    let remaining = null;
    for (const { metric, at, value } of this.series) {
      const now = value[value.length - 1];
      if (metric !== "done" || now === undefined) continue;
      if (done === null || now > done) {
        done = now;
        const first = value[0] ?? 0, began = at[0] ?? 0, last = at[at.length - 1] ?? 0;
        const rate = (now - first) / Math.max(last - began, 1e-9);
        remaining = now > first && now < 1 ? (1 - now) / rate : null;
      }
    }
    const latest = /** @type {[string, number][]} */ ([]);
    for (const { metric, value } of this.series) {
      const now = value[value.length - 1];
      if (metric !== "done" && now !== undefined && !latest.some(([name]) => name === metric)) latest.push([metric, now]);
    }
    // What it counts its steps by comes first.
    latest.sort(([a], [b]) => Number(COUNTERS.has(b)) - Number(COUNTERS.has(a)));
    return { done, remaining, latest };
  }

  drawNow() {
    /** @type {Map<string, Series[]>} */
    const metrics = new Map();
    for (const each of this.series) {
      if (COUNTERS.has(each.metric) || !each.at.length) continue;
      const found = metrics.get(each.metric) ?? [];
      if (found.length < MOST_CURVES) found.push(each);
      metrics.set(each.metric, found);
    }
    const began = Math.min(...this.series.map(({ at }) => at[0] ?? Infinity));
    const counters = new Map(this.series.map(({ source }) => [source, counterOf(this.series, source)]));
    const counted = [...metrics.values()].some((group) => group.some(({ source }) => counters.get(source)));
    const [main] = metrics.values();
    const axis = this.axis ?? (counted && isCounted(main ?? [], counters) ? "step" : "time");
    this.drawTools(axis, counted, metrics.size);
    const wanted = this.search.value.toLowerCase();
    const found = [...metrics].filter(([metric]) => metric.toLowerCase().includes(wanted));
    const shown = new Set(found.slice(0, MOST_DIAGRAMS).map(([metric]) => metric));
    for (const metric of this.charts.keys()) if (!shown.has(metric)) this.drop(metric);
    for (const [metric, group] of found.slice(0, MOST_DIAGRAMS)) {
      const chart = this.chartOf(metric);
      this.waiting.set(metric, () => {
        const lines = onceEach(group).map((each) => lineOf(each, axis, began, counters.get(each.source)));
        chart.draw(lines, this.marksOn(axis, began, counters.get(group[0]?.source ?? "")), { axis, ...this.options });
      });
    }
    this.drawNext();
    const more = found.length - shown.size;
    this.rest.textContent = [more > 0 && `${count(more)} metrics more: find them by name.`, this.turnedAway && "There are more metrics than are kept."].filter(Boolean).join(" ");
  }

  /** Draw one diagram, and the next one after the next frame: all at once would keep a page of many from answering. */
  drawNext() {
    if (this.drawing) return;
    // Each has its first drawing, which gives it its height.
    const next = [...this.waiting].find(([metric]) => !this.charts.get(metric)?.plot || this.isSeen(metric));
    if (!next) return;
    const [metric, work] = next;
    this.waiting.delete(metric);
    work();
    this.drawing = true;
    requestAnimationFrame(() => setTimeout(() => { this.drawing = false; this.drawNext(); }));
  }

  /** @param {string} metric */
  isSeen(metric) {
    const chart = this.charts.get(metric);
    return chart !== undefined && this.seen.has(chart.place);
  }

  /** @param {string} metric that is not drawn any more */
  drop(metric) {
    const chart = this.charts.get(metric);
    chart?.clear();
    chart?.place.remove();
    if (chart) { this.sight.unobserve(chart.place); this.seen.delete(chart.place); }
    this.charts.delete(metric);
    this.waiting.delete(metric);
  }

  /** @param {string} metric */
  chartOf(metric) {
    const chart = this.charts.get(metric) ?? new Chart(metric);
    if (!this.charts.has(metric)) {
      this.charts.set(metric, chart);
      this.grid.append(chart.place);
      this.sight.observe(chart.place);
    }
    return chart;
  }

  /**
   * @param {Axis} axis
   * @param {boolean} counted whether any program counts its steps
   * @param {number} metrics how many there are
   */
  drawTools(axis, counted, metrics) {
    this.none.hidden = metrics > 0;
    this.tools.hidden = metrics === 0;
    this.search.hidden = metrics < SEARCH_FROM;
    this.axes.forEach((button, index) => {
      button.setAttribute("aria-pressed", String(AXES[index] === axis));
      button.hidden = AXES[index] === "step" && !counted;
    });
  }

  /**
   * @param {Axis} axis
   * @param {number} began
   * @param {Series | undefined} counter
   * @returns {[number, string][]}
   */
  marksOn(axis, began, counter) {
    return this.marks.flatMap(([at, text]) => {
      const place = axis === "clock" ? at : axis === "time" ? at - began : counter && stepAt(counter, at);
      return place === undefined ? [] : [/** @type {[number, string]} */ ([place, text])];
    });
  }
}

/**
 * Leave out what was reported if the same values were printed, and ranks that print the same as one before.
 * @param {Series[]} group
 */
function onceEach(group) {
  const printed = group.filter(({ source }) => source !== REPORTED);
  const [reported] = group.filter(({ source }) => source === REPORTED);
  const [one] = printed;
  const same = one !== undefined && printed.slice(1).every(({ value }) => isSame(value, one.value));
  const kept = same && one ? [printed.length > 1 ? { ...one, source: `${one.source} and ${printed.length - 1} more` } : one] : printed;
  if (!reported) return kept;
  if (!one || kept.length > 1 || one.at.length < reported.at.length) return [...kept, reported];
  const values = new Set(one.value);
  return reported.value.every((each) => values.has(each)) ? kept : [...kept, reported];
}

/**
 * Whether two ranks print the same values; one may be a few lines ahead.
 * @param {number[]} a
 * @param {number[]} b
 */
function isSame(a, b) {
  const common = Math.min(a.length, b.length);
  if (common < 3) return false;
  for (let index = 0; index < common; index += 1) if (a[index] !== b[index]) return false;
  return true;
}
