// One diagram: its curves, the values under the pointer, what happened, and its numbers as files.

import uPlot from "./vendor/uPlot.esm.js";
import { duration, element, number, save } from "./format.js";
import { bestOf, csvOf, labelled, smoothed } from "./points.js";

/**
 * @typedef {import("./points.js").Axis} Axis
 * @typedef {import("./points.js").Line} Line
 * @typedef {{axis: Axis, smooth: boolean, logarithmic: boolean}} Options
 */

const HEIGHT = 168;
const LARGE_HEIGHT = 420;
const WEIGHT = 0.6;
/** Between two marks on the axis of times since the beginning, in seconds; beyond them, days. */
const TIMES = [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => days * 86400)];
/** Letters of a mark that are drawn, and how many marks have theirs below each other. */
const MARK_LETTERS = 24;
const MARK_LINES = 3;
/** Of curves, in their order. */
export const COLOURS = ["#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#0891b2", "#65a30d", "#dc2626"];

export class Chart {
  /** @param {string} metric */
  constructor(metric) {
    this.metric = metric;
    /** @type {Line[]} */
    this.lines = [];
    /** @type {[number, string][]} */
    this.marks = [];
    /** @type {Options} */
    this.options = { axis: "time", smooth: false, logarithmic: false };
    /** @type {uPlot | null} */
    this.plot = null;
    this.shape = "";
    this.large = false;
    /** Whether a part is shown that somebody has dragged over: it stays, whatever is added. */
    this.zoomed = false;
    /** @type {string[]} of the lines */
    this.colours = COLOURS;
    /** @type {(x: number | null) => void} called with the place that is pointed at, or null */
    this.pointed = () => {};
    this.title = element("h3", {}, metric);
    this.best = element("span", { class: "best faint" });
    this.last = element("b", { class: "last" });
    this.tip = element("div", { class: "tip", hidden: "" });
    this.box = element("div", { class: "plot" });
    // Another diagram beside it, a tab that is chosen, a window: its box has another width.
    new ResizeObserver(() => this.resize()).observe(this.box);
    this.enlarge = element("button", { type: "button", "aria-pressed": "false", onclick: () => this.setLarge(!this.large) }, "Enlarge");
    this.place = element("section", { class: "curve", "aria-label": metric },
      element("div", { class: "curve-head" }, this.title, this.best, this.last),
      this.box,
      element("div", { class: "curve-tools" }, this.enlarge,
        element("button", { type: "button", onclick: () => this.saveCsv() }, "CSV"),
        element("button", { type: "button", onclick: () => this.savePng() }, "PNG")));
  }

  /** @param {boolean} large */
  setLarge(large) {
    this.large = large;
    this.place.classList.toggle("large", large);
    this.enlarge.setAttribute("aria-pressed", String(large));
    this.resize();
  }

  /** @param {string} metric that is drawn from now on */
  rename(metric) {
    this.metric = metric;
    this.title.textContent = metric;
    this.place.setAttribute("aria-label", metric);
  }

  /** @param {number} x a place on the axis */
  placeText(x) {
    const { axis } = this.options;
    if (axis === "step") return `step ${x.toLocaleString("en")}`;
    return axis === "clock" ? new Date(x * 1000).toLocaleTimeString() : duration(x);
  }

  /**
   * @param {Line[]} lines
   * @param {[number, string][]} marks places on the axis
   * @param {Options} options
   */
  draw(lines, marks, options) {
    this.lines = lines;
    this.marks = marks;
    this.options = options;
    const ends = lines.map(({ x, y }) => ({ x: x[x.length - 1] ?? -Infinity, y: y[y.length - 1] }));
    const last = ends.reduce((a, b) => (b.x > a.x ? b : a), { x: -Infinity, y: undefined });
    this.last.textContent = last.y === undefined ? "" : number(last.y);
    const best = bestOf(this.metric, lines);
    this.best.textContent = best ? `best ${number(best.value)} at ${this.placeText(best.x)}` : "";
    if (lines.every(({ x }) => x.length < 2)) { this.clear(); return; } // one point is a value, not an axis
    const tables = lines.map(({ x, y }) => /** @type {uPlot.AlignedData} */ (options.smooth ? [x, y, smoothed(y, WEIGHT)] : [x, y]));
    const data = /** @type {uPlot.AlignedData} */ (tables.length === 1 ? tables[0] : uPlot.join(tables));
    const shape = JSON.stringify([this.metric, lines.map(({ source }) => source), this.colours, options]);
    if (this.plot && shape === this.shape) { this.plot.setData(data); return; }
    this.clear();
    this.shape = shape;
    this.zoomed = false;
    this.plot = new uPlot(this.settings(lines), data, this.box);
    this.plot.over.append(this.tip);
  }

  /**
   * @param {Line[]} lines
   * @returns {uPlot.Options}
   */
  settings(lines) {
    const { axis, smooth, logarithmic } = this.options;
    const look = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const curve = (/** @type {number} */ index, /** @type {boolean} */ faint) => ({
      stroke: `${this.colours[index % this.colours.length] ?? ""}${faint ? "55" : ""}`, width: faint ? 1 : 1.75, spanGaps: true, points: { show: false },
    });
    return {
      width: widthOf(this.box), height: this.large ? LARGE_HEIGHT : HEIGHT, legend: { show: false }, padding: [8, 8, 0, 0],
      scales: { x: { time: axis === "clock", auto: () => !this.zoomed }, ...(logarithmic ? { y: { distr: 3 } } : {}) },
      series: [{}, ...lines.flatMap((_, index) => (smooth ? [curve(index, true), curve(index, false)] : [curve(index, false)]))],
      axes: [
        axisOf(axis, look),
        { ...look, size: 56, values: (_, ticks) => ticks.map((each) => (each === null ? "" : tick(each))) },
      ],
      cursor: { sync: { key: `traincrew-${axis}` }, points: { size: 6 } },
      hooks: { draw: [(drawn) => this.drawMarks(drawn)], setCursor: [(drawn) => this.showValues(drawn)], setScale: [(drawn, key) => { if (key === "x") this.zoomed = !isWhole(drawn); }] },
    };
  }

  /** @param {uPlot} plot */
  showValues(plot) {
    const { idx, left } = plot.cursor;
    const x = idx === null || idx === undefined ? undefined : plot.data[0][idx];
    this.tip.hidden = x === undefined || left === undefined || left < 0;
    this.pointed(this.tip.hidden ? null : x ?? null);
    if (x === undefined || this.tip.hidden || idx === null || idx === undefined) return;
    const step = this.options.smooth ? 2 : 1;
    const values = this.lines.map(({ source }, index) => ({ source, index, value: plot.data[1 + index * step]?.[idx] }))
      .filter(({ value }) => value !== null && value !== undefined);
    this.tip.replaceChildren(element("div", { class: "faint" }, this.placeText(x)), ...values.map(({ source, index, value }) => {
      const key = element("i", {});
      key.style.background = this.colours[index % this.colours.length] ?? "";
      return element("div", {}, key, this.lines.length > 1 ? `${source} ` : "", element("b", {}, number(/** @type {number} */ (value))));
    }));
    const right = (left ?? 0) > plot.over.clientWidth / 2;
    this.tip.style.left = right ? "" : `${(left ?? 0) + 10}px`;
    this.tip.style.right = right ? `${plot.over.clientWidth - (left ?? 0) + 10}px` : "";
  }

  /** @param {uPlot} plot */
  drawMarks(plot) {
    if (!this.marks.length) return;
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("--wait");
    ctx.setLineDash([4, 4]);
    ctx.textAlign = "left";
    ctx.font = `${10 * devicePixelRatio}px sans-serif`;
    const places = this.marks.map(([at, text]) => ({ x: plot.valToPos(at, "x", true), text: text.slice(0, MARK_LETTERS) }))
      .filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width);
    for (const { x } of places) {
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    const room = { left: bbox.left, right: bbox.left + bbox.width, gap: 3 * devicePixelRatio };
    for (const { x, line, text } of labelled(places.map((each) => ({ ...each, width: ctx.measureText(each.text).width })), room, MARK_LINES)) {
      ctx.fillText(text, x, bbox.top + (10 + 12 * line) * devicePixelRatio);
    }
    ctx.restore();
  }

  resize() {
    const width = widthOf(this.box), height = this.large ? LARGE_HEIGHT : HEIGHT;
    if (this.plot && this.box.clientWidth && (this.plot.width !== width || this.plot.height !== height)) this.plot.setSize({ width, height });
  }

  clear() {
    this.plot?.destroy();
    this.plot = null;
    this.shape = "";
  }

  saveCsv() {
    save(new Blob([csvOf(this.options.axis, this.lines)], { type: "text/csv" }), `${this.fileName()}.csv`);
  }

  savePng() {
    this.plot?.root.querySelector("canvas")?.toBlob((blob) => { if (blob) save(blob, `${this.fileName()}.png`); });
  }

  fileName() {
    return this.metric.replace(/[^\w.-]+/g, "-").slice(0, 60) || "metric";
  }
}

/**
 * Return the horizontal axis.
 * @param {Axis} axis
 * @param {uPlot.Axis} look
 * @returns {uPlot.Axis}
 */
function axisOf(axis, look) {
  if (axis === "clock") return { ...look, size: 30 };
  if (axis === "step") return { ...look, size: 30, values: (_, ticks) => ticks.map(short) };
  return { ...look, size: 30, space: 70, incrs: TIMES, values: (_, ticks) => ticks.map(time) };
}

/**
 * Return a number of steps in few letters: `15k`, `1.2M`.
 * @param {number} value
 */
function short(value) {
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value);
}

/**
 * Return a time since the beginning; between whole seconds, where the axis is that short.
 * @param {number} value in seconds
 */
function time(value) {
  return value < 60 && !Number.isInteger(value) ? `${Number(value.toFixed(2))}s` : duration(value);
}

/**
 * Return a value of the vertical axis without zeros at its end: `0.001`, `5e-4`.
 * @param {number} value
 */
function tick(value) {
  const text = Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2) : value.toPrecision(3);
  return text.includes(".") ? text.replace(/\.?0+(e|$)/, "$1") : text;
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

/**
 * Whether the horizontal axis has all that there is.
 * @param {uPlot} plot
 */
function isWhole({ data: [places], scales }) {
  const { min, max } = scales["x"] ?? {};
  return (min ?? -Infinity) <= (places[0] ?? 0) && (max ?? Infinity) >= (places[places.length - 1] ?? 0);
}

/** @param {HTMLElement} box */
function widthOf(box) {
  return Math.max(box.clientWidth, 200);
}
