// The curves of metrics: one diagram for each metric, one curve for each pod that reports it.

import uPlot from "./vendor/uPlot.esm.js";
import { element, number, throttled } from "./format.js";

const MOST_DIAGRAMS = 24;
const MOST_CURVES = 16;
const REPORTED = "reported"; // the source of what is in the status of the job
const COUNTERS = new Set(["epoch", "epochs", "step", "steps", "iteration", "iterations", "total_steps", "done"]);
const COLOURS = ["#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#0891b2", "#65a30d", "#dc2626"];

/** @typedef {{metric: string, source: string, at: number[], value: number[]}} Series */

export class Curves {
  constructor() {
    this.place = element("div", { class: "curves" });
    /** @type {Series[]} */
    this.series = [];
    /** @type {[number, string][]} */
    this.marks = [];
    /** @type {Map<string, {plot: uPlot, count: number, box: HTMLElement}>} */
    this.plots = new Map();
    this.turnedAway = false;
    this.draw = throttled(() => this.drawNow(), 150);
    window.addEventListener("themechange", () => this.rebuild());
    window.addEventListener("resize", throttled(() => this.resize(), 200));
  }

  clear() {
    this.series = [];
    this.marks = [];
    this.rebuild();
  }

  rebuild() {
    for (const { plot } of this.plots.values()) plot.destroy();
    this.plots.clear();
    this.place.replaceChildren("No metrics yet: they are read from lines such as “epoch 3/20 loss 0.41”.");
    if (this.series.length) this.draw();
  }

  resize() {
    for (const { plot, box } of this.plots.values()) plot.setSize({ width: widthOf(box), height: 180 });
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
    return { done, remaining, latest: latest.slice(0, 8) };
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
    if (metrics.size && !this.plots.size) this.place.replaceChildren();
    for (const [metric, group] of [...metrics].slice(0, MOST_DIAGRAMS)) this.drawOne(metric, onceEach(group));
  }

  /**
   * @param {string} metric
   * @param {Series[]} group
   */
  drawOne(metric, group) {
    const data = /** @type {uPlot.AlignedData} */ (uPlot.join(group.map(({ at, value }) => [at, value])));
    const known = this.plots.get(metric);
    if (known && known.count === group.length) {
      known.plot.setData(data);
      return;
    }
    known?.plot.destroy();
    const box = known?.box ?? element("section", { class: "curve" }, element("h3", {}, metric));
    if (!known) this.place.append(box);
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 } };
    const plot = new uPlot({
      width: widthOf(box), height: 180,
      series: [
        { value: (_, at) => (at ? new Date(at * 1000).toLocaleTimeString() : "") },
        ...group.map(({ source }, index) => ({
          label: source, stroke: COLOURS[index % COLOURS.length] ?? "", width: 1.5, spanGaps: true,
          value: (/** @type {uPlot} */ _, /** @type {number | null} */ value) => (value === null || value === undefined ? "" : number(value)),
        })),
      ],
      axes: [axis, { ...axis, size: 56, values: (_, ticks) => ticks.map(number) }],
      hooks: { draw: [(drawn) => this.drawMarks(drawn)] },
    }, data, box);
    this.plots.set(metric, { plot, count: group.length, box });
  }

  /** @param {uPlot} plot */
  drawMarks(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--busy");
    ctx.setLineDash([4, 4]);
    ctx.textAlign = "left";
    ctx.font = `${10 * devicePixelRatio}px sans-serif`;
    for (const [at, text] of this.marks) {
      const x = plot.valToPos(at, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(text.slice(0, 24), x + 3 * devicePixelRatio, bbox.top + 10 * devicePixelRatio);
    }
    ctx.restore();
  }
}

/**
 * Leave out what was reported if the same values were printed: of those, every one is known.
 * @param {Series[]} group
 */
function onceEach(group) {
  const printed = group.filter(({ source }) => source !== REPORTED);
  const [reported] = group.filter(({ source }) => source === REPORTED);
  const [one] = printed;
  if (!reported || !one || printed.length > 1 || one.at.length < reported.at.length) return group;
  const values = new Set(one.value);
  return reported.value.every((each) => values.has(each)) ? printed : group;
}

/**
 * Return a colour of the style sheet as a canvas understands it.
 * @param {string} name
 */
function colour(name) {
  const probe = element("span", { hidden: "" });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** @param {HTMLElement} box */
function widthOf(box) {
  return Math.max(box.clientWidth - 16, 200);
}
