// The lives of pods as bars: waiting, starting, each run, its end. Attempts of a rank are side by side.

import { duration, seconds } from "./format.js";

/** @typedef {import("./job.js").PodRow} PodRow */

const ROW = 20;
const WIDEST_LABELS = 190;
const NARROWEST_TICK = 72;
const AXIS = 22;
const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {string} [text]
 */
function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  if (text !== undefined) made.textContent = text;
  return made;
}

export class Timeline {
  constructor() {
    this.place = document.createElement("div");
    /** @type {number | null} the end of the cluster: what ran then has no later end */
    this.ended = null;
    this.place.className = "timeline";
    this.place.tabIndex = 0;
    this.place.setAttribute("aria-label", "Timeline of the pods");
  }

  /** @param {PodRow[]} rows */
  draw(rows) {
    const lives = rows.filter(({ life }) => seconds(life.createdAt) !== null);
    if (!lives.length) {
      this.place.replaceChildren("No pods yet.");
      return;
    }
    lives.sort((a, b) => a.role.localeCompare(b.role) || a.pod.rank - b.pod.rank || a.pod.attempt - b.pod.attempt);
    const from = Math.min(...lives.map(({ life }) => seconds(life.createdAt) ?? Infinity));
    const to = Math.max(...lives.map((row) => this.endOf(row)), from + 1);
    const width = Math.max(this.place.clientWidth - 4, 300);
    const labels = Math.min(WIDEST_LABELS, width * 0.35);
    const room = width - labels - 12;
    const scale = (/** @type {number} */ at) => labels + ((at - from) / (to - from)) * room;
    const height = AXIS + lives.length * ROW + 4;
    const drawing = shape("svg", { width, height, role: "img" });
    drawing.append(
      ...axis(from, to, scale, height, room / NARROWEST_TICK),
      ...lives.flatMap((row, index) => bars(row, this.endOf(row), AXIS + index * ROW, scale, Math.floor(labels / 7))),
    );
    this.place.replaceChildren(drawing);
  }

  /** @param {PodRow} row */
  endOf({ life }) {
    const last = life.runs[life.runs.length - 1];
    const ended = seconds(life.goneAt) ?? (last ? seconds(last.endedAt) : null);
    return ended ?? this.ended ?? Date.now() / 1000;
  }
}

/**
 * @param {number} from
 * @param {number} to
 * @param {(at: number) => number} scale
 * @param {number} height
 * @param {number} most ticks
 */
function axis(from, to, scale, height, most) {
  const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800];
  const step = steps.find((each) => (to - from) / each <= most) ?? 2592000;
  const parts = [];
  for (let after = 0; after <= to - from; after += step) {
    const x = scale(from + after);
    parts.push(shape("line", { class: "grid", x1: x, x2: x, y1: AXIS - 4, y2: height }));
    parts.push(shape("text", { class: "axis", x: x + 2, y: 13 }, duration(after)));
  }
  return parts;
}

/**
 * @param {PodRow} row
 * @param {number} end
 * @param {number} y
 * @param {(at: number) => number} scale
 * @param {number} letters of the label
 */
function bars({ role, pod, life }, end, y, scale, letters) {
  const attempt = pod.attempt > 1 ? ` (attempt ${pod.attempt})` : "";
  const parts = [shape("text", { x: 6, y: y + 14 }, `${role} ${pod.rank}${attempt}`.slice(0, letters))];
  /**
   * @param {string} kind
   * @param {number} from
   * @param {number} to
   * @param {string} text
   */
  const bar = (kind, from, to, text) => {
    const x = scale(from);
    const made = shape("rect", { class: kind, x, y: y + 4, width: Math.max(scale(to) - x, 2), height: ROW - 8, rx: 2 });
    made.append(shape("title", {}, `${pod.name}: ${text}, ${duration(to - from)}`));
    parts.push(made);
  };
  const created = seconds(life.createdAt) ?? end;
  const scheduled = seconds(life.scheduledAt);
  const first = life.runs[0] ? seconds(life.runs[0].startedAt) : null;
  bar("waiting", created, scheduled ?? first ?? end, "waiting for a node");
  if (scheduled !== null) bar("starting", scheduled, Math.max(first ?? end, scheduled), "starting: images, volumes");
  for (const run of life.runs) {
    const from = seconds(run.startedAt) ?? created;
    const to = seconds(run.endedAt);
    const failed = run.exitCode !== null && run.exitCode !== 0;
    const kind = to === null ? "run" : failed ? "failed" : "ended";
    bar(kind, from, Math.max(to ?? end, from), to === null ? "running" : `exit code ${run.exitCode ?? 0}`);
  }
  const ready = seconds(life.readyAt);
  if (ready !== null) {
    const x = scale(Math.min(ready, end));
    const mark = shape("line", { class: "mark", x1: x, x2: x, y1: y + 2, y2: y + ROW - 2 });
    mark.append(shape("title", {}, `${pod.name}: ready`));
    parts.push(mark);
  }
  return parts;
}
