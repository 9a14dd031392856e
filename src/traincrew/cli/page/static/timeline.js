// The lives of pods as bars: waiting, starting, each run, its end. Attempts of a rank are side by side.

import { duration, element } from "./format.js";
import { labelOf } from "./rows.js";
import { WORDS } from "./shared.js";
import { VisibleRows } from "./visible.js";

/**
 * @typedef {import("./rows.js").Row} Row
 * @typedef {{tag: string, attributes: Record<string, string | number>, text?: string, title?: string}} Shape
 */

const ROW = 20;
const WIDEST_LABELS = 190;
const NARROWEST_TICK = 72;
const NARROWEST = 200;
const AXIS = 22;
const SVG = "http://www.w3.org/2000/svg";

/**
 * Draw shapes, changing those that are there: what the mouse points at stays.
 * @param {Element} drawing
 * @param {Shape[]} shapes
 */
function drawShapes(drawing, shapes) {
  shapes.forEach(({ tag, attributes, text, title }, index) => {
    let made = drawing.children[index];
    if (made?.tagName !== tag) {
      const other = document.createElementNS(SVG, tag);
      if (made) made.replaceWith(other); else drawing.append(other);
      made = other;
    }
    for (const [name, value] of Object.entries(attributes)) {
      if (made.getAttribute(name) !== String(value)) made.setAttribute(name, String(value));
    }
    if (title !== undefined) {
      const known = made.firstElementChild ?? made.appendChild(document.createElementNS(SVG, "title"));
      if (known.textContent !== title) known.textContent = title;
    } else if (made.textContent !== (text ?? "")) made.textContent = text ?? "";
  });
  while (drawing.children.length > shapes.length) drawing.lastElementChild?.remove();
}

export class Timeline {
  constructor() {
    /** @type {Row[]} */
    this.lives = [];
    /** @type {number | null} the end of the cluster: what ran then has no later end */
    this.ended = null;
    this.from = 0;
    this.to = 1;
    this.width = 300;
    this.labels = 100;
    this.empty = element("p", { class: "faint" }, "No pods yet.");
    this.axis = document.createElementNS(SVG, "svg");
    this.axis.setAttribute("class", "axis");
    this.axis.setAttribute("aria-hidden", "true");
    this.box = element("div", { class: "timeline", tabindex: "0", role: "list", "aria-label": "Timeline of the pods" });
    this.box.append(this.axis);
    this.rows = new VisibleRows(this.box, ROW, (index, there) => this.rowAt(index, there));
    this.place = element("div", {}, this.empty, this.box);
    new ResizeObserver(() => { if (this.box.clientWidth && this.box.clientWidth !== this.width) this.redraw(); }).observe(this.box);
  }

  /** @param {Row[]} rows in the order in which they are shown */
  draw(rows) {
    this.lives = rows.filter(({ times }) => times.created !== null);
    this.redraw();
  }

  /** Draw again, because time has passed. */
  redraw() {
    this.empty.hidden = this.lives.length > 0;
    this.box.hidden = !this.lives.length;
    if (!this.lives.length) return;
    const now = this.now();
    this.from = Infinity;
    this.to = -Infinity;
    for (const { times } of this.lives) {
      this.from = Math.min(this.from, times.created ?? now);
      this.to = Math.max(this.to, times.ended ?? now);
    }
    this.to = Math.max(this.to, this.from + 1);
    this.width = Math.max(this.box.clientWidth, NARROWEST);
    this.labels = Math.min(WIDEST_LABELS, this.width * 0.35);
    this.axis.setAttribute("width", String(this.width));
    this.axis.setAttribute("height", String(AXIS));
    drawShapes(this.axis, this.ticks(AXIS - 4, AXIS, true));
    this.rows.show(this.lives.length);
  }

  now() {
    return this.ended ?? Date.now() / 1000;
  }

  /** @param {number} at */
  x(at) {
    return Math.round(10 * (this.labels + ((at - this.from) / (this.to - this.from)) * (this.width - this.labels - 12))) / 10;
  }

  /**
   * @param {number} top
   * @param {number} bottom
   * @param {boolean} labelled
   */
  ticks(top, bottom, labelled) {
    const most = (this.width - this.labels) / NARROWEST_TICK;
    const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800];
    const step = steps.find((each) => (this.to - this.from) / each <= most) ?? 2592000;
    /** @type {Shape[]} */
    const parts = [];
    for (let after = 0; after <= this.to - this.from; after += step) {
      const x = this.x(this.from + after);
      parts.push({ tag: "line", attributes: { class: "grid", x1: x, x2: x, y1: top, y2: bottom } });
      if (labelled) {
        const text = duration(after), fits = x + 8 * text.length < this.width;
        parts.push({ tag: "text", attributes: fits ? { x: x + 2, y: 13 } : { x: x - 2, y: 13, "text-anchor": "end" }, text });
      }
    }
    return parts;
  }

  /**
   * @param {number} index
   * @param {ChildNode | undefined} there
   */
  rowAt(index, there) {
    const row = /** @type {Row} */ (this.lives[index]);
    const bars = barsOf(row, this.now());
    const made = there instanceof HTMLElement ? there : element("div", { class: "life", role: "listitem" });
    let drawing = made.firstElementChild;
    if (!drawing) {
      drawing = document.createElementNS(SVG, "svg");
      drawing.setAttribute("role", "img");
      drawing.setAttribute("height", String(ROW));
      made.append(drawing);
    }
    const label = labelOf(row);
    drawing.setAttribute("width", String(this.width));
    made.setAttribute("aria-posinset", String(index + 1));
    made.setAttribute("aria-setsize", String(this.lives.length));
    drawing.setAttribute("aria-label", `${label}: ${bars.map(({ text, from, to }) => `${text} ${duration(to - from)}`).join(", ")}`);
    drawShapes(drawing, [
      ...this.ticks(0, ROW, false),
      { tag: "text", attributes: { x: 6, y: 14 }, text: label.slice(0, Math.floor(this.labels / 7)) },
      ...bars.map(({ kind, from, to, text }) => ({
        tag: "rect", title: `${row.pod.name}: ${text}, ${duration(to - from)}`,
        attributes: { class: kind, x: this.x(from), y: 4, width: Math.max(this.x(to) - this.x(from), 2), height: ROW - 8, rx: 2 },
      })),
      ...this.mark(row),
    ]);
    return made;
  }

  /**
   * @param {Row} row
   * @returns {Shape[]}
   */
  mark({ pod, times }) {
    if (times.ready === null) return [];
    const x = this.x(Math.min(times.ready, this.to));
    return [{ tag: "line", title: `${pod.name}: ready`, attributes: { class: "mark", x1: x, x2: x, y1: 2, y2: ROW - 2 } }];
  }
}

/**
 * @param {Row} row
 * @param {number} now
 */
function barsOf({ times }, now) {
  const end = times.ended ?? now;
  const created = times.created ?? end;
  const first = times.runs[0]?.from ?? null;
  const bars = [{ kind: "waiting", from: created, to: times.scheduled ?? first ?? end, text: WORDS.unschedulable }];
  if (times.scheduled !== null) {
    bars.push({ kind: "starting", from: times.scheduled, to: Math.max(first ?? end, times.scheduled), text: `${WORDS.starting}: images, volumes` });
  }
  for (const { from, to, exitCode, stopped } of times.runs) {
    const kind = to === null ? "run" : exitCode && !stopped ? "failed" : "ended";
    const began = from ?? created;
    const text = to === null ? WORDS.running : stopped ? WORDS.stopped : `exit code ${exitCode ?? 0}`;
    bars.push({ kind, from: began, to: Math.max(to ?? end, began), text });
  }
  return bars;
}
