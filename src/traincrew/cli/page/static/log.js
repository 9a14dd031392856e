// The merged log of all pods, or of one.

import { withoutColours } from "./ansi.js";
import { count, element, save, throttled } from "./format.js";
import { clockOf, matchesIn, nextMatch, piecesOf, Wrapped } from "./loglines.js";
import { VisibleRows } from "./visible.js";

const LINE = 18;
const PADDING = 24; // of the box, and its scroll bar
const LETTERS = 10; // of which the width is measured
const MOST_LINES = 20000;
const CUT = 5000;
const NONE = 0; // the time of what is about the log
const OPTIONS = "traincrew-log";
/** What lines have that are worth reading when something is wrong. */
const ERRORS = /\b(error|exception|traceback|fatal|failed|failure|critical|panic|segfault|killed|abort(ed)?|cannot|could not)\b|Error\b|Exception\b/i;

/**
 * @typedef {[number, string, string]} Line time, pod, text; without a pod it is about the log
 * @typedef {{at: number, pod: string, text: string, styles: import("./ansi.js").Styled[]}} Entry
 * @typedef {{ask: (pod: string) => void, previous: (pod: string) => Promise<Line[]>}} Source what the server is asked for: to follow the
 *   log of a pod, and what its containers have printed before their last restart
 */

export class Log {
  /** @param {Source} source */
  constructor(source) {
    this.source = source;
    /** @type {Entry[]} */
    this.lines = [];
    /** @type {Entry[] | null} those of an earlier run, if they are shown */
    this.earlier = null;
    /** @type {Entry[]} */
    this.shown = [];
    this.wrapped = new Wrapped(0);
    this.current = -1;
    this.total = 0;
    this.missed = 0;
    /** @type {Map<string, number>} restarts by the name of the pod */
    this.pods = new Map();
    /** @type {Map<number, HTMLElement>} by row */
    this.drawn = new Map();
    const known = JSON.parse(localStorage.getItem(OPTIONS) ?? "{}");
    this.search = /** @type {HTMLInputElement} */ (element("input", {
      type: "search", placeholder: "Search the log   ( / )", "aria-label": "Search the log", "data-shortcut": "/",
      oninput: () => this.choose(), onkeydown: (event) => this.onKey(/** @type {KeyboardEvent} */ (event)),
    }));
    this.names = element("datalist", { id: "pods-of-log" });
    this.pod = /** @type {HTMLInputElement} */ (element("input", {
      type: "search", list: "pods-of-log", placeholder: "All pods", "aria-label": "Pod", oninput: () => this.choosePod(),
    }));
    this.end = box(true, () => this.draw());
    this.errors = box(false, () => this.choose());
    this.only = box(true, () => this.choose());
    this.wrap = box(known.wrap === true, () => this.keepOptions());
    this.times = box(known.times === true, () => this.keepOptions());
    this.before = element("button", { type: "button", "aria-pressed": "false", hidden: "", title: "What it printed before its last restart", onclick: () => void this.showEarlier() }, "Previous run");
    this.steps = element("span", { class: "choice", hidden: "" }, step("↑", "Previous match (N)", "N", () => this.go(-1)), step("↓", "Next match (n)", "n", () => this.go(1)));
    this.onlyLabel = element("label", { hidden: "" }, this.only, " Only matches");
    this.count = element("span", { class: "faint", role: "status" });
    this.problem = element("div");
    this.box = element("div", { class: "log", tabindex: "0", role: "region", "aria-label": "Log" });
    this.letter = element("span", { class: "letter", "aria-hidden": "true" }, "0".repeat(LETTERS));
    this.rows = new VisibleRows(this.box, LINE, (index) => this.rowAt(index));
    this.place = element("div", { class: "log-place" },
      element("div", { class: "tools" }, this.search, this.steps, this.pod, this.names, this.before,
        element("label", {}, this.end, " Follow"), element("label", {}, this.errors, " Errors"), this.onlyLabel,
        element("label", { class: "of-large" }, this.wrap, " Wrap"), element("label", { class: "of-large" }, this.times, " Times"),
        element("button", { type: "button", onclick: () => this.download() }, "Save"), this.count),
      this.problem, this.box, this.letter);
    this.draw = throttled(() => this.drawNow(), 60);
    // Screen readers read it aloud when it changes.
    this.tell = throttled(() => this.drawCount(), 1000);
    this.box.addEventListener("scroll", () => {
      const atEnd = this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - LINE;
      if (!atEnd && this.end.checked && !this.moving) this.end.checked = false;
    });
    new ResizeObserver(() => { if (this.columns() !== this.wrapped.columns) this.layOut(); }).observe(this.box);
    this.moving = false;
  }

  /**
   * Leave the field for the first match, from which n and N go on.
   * @param {KeyboardEvent} event
   */
  onKey(event) {
    if (event.key !== "Enter" || !this.search.value) return;
    this.box.focus({ preventScroll: true });
    this.go(event.shiftKey ? -1 : 1);
  }

  clear() {
    this.lines = [];
    this.total = 0;
    this.missed = 0;
    this.choose();
  }

  leave() {
    this.lines = [];
    this.shown = [];
  }

  /**
   * Offer pods to choose from.
   * @param {Iterable<{name: string, restarts: number}>} pods
   */
  offer(pods) {
    const made = [];
    for (const { name, restarts } of pods) {
      if (!this.pods.has(name)) made.push(element("option", { value: name }));
      this.pods.set(name, restarts);
    }
    if (made.length) this.names.append(...made);
    this.drawBefore();
  }

  drawBefore() {
    this.before.hidden = !this.pods.get(this.pod.value);
    this.before.setAttribute("aria-pressed", String(this.earlier !== null));
  }

  /**
   * Show the log of a pod.
   * @param {string} name
   */
  show(name) {
    this.pod.value = name;
    this.choosePod();
    this.box.focus({ preventScroll: true });
  }

  /**
   * Return the last lines of a pod.
   * @param {string} pod
   * @param {number} most
   */
  lastOf(pod, most) {
    const found = [];
    for (let index = this.lines.length - 1; index >= 0 && found.length < most; index -= 1) {
      const { pod: from, text } = /** @type {Entry} */ (this.lines[index]);
      if (from === pod || from.startsWith(`${pod}/`)) found.push(text);
    }
    return found.reverse();
  }

  choosePod() {
    if (this.pods.has(this.pod.value)) this.source.ask(this.pod.value);
    this.earlier = null;
    this.drawBefore();
    this.choose();
  }

  /** Show what the pod has printed before its last restart, or what it prints now. */
  async showEarlier() {
    if (this.earlier !== null) { this.choosePod(); return; }
    const pod = this.pod.value;
    const said = (/** @type {string} */ text) => ({ at: NONE, pod: "", text, styles: [] });
    /** @type {Entry[]} */
    let found;
    try {
      const lines = (await this.source.previous(pod)).map(entryOf);
      found = [said(lines.length ? `What ${pod} printed before its last restart:` : `${pod} printed nothing before its last restart.`), ...lines];
    } catch (error) {
      found = [said(`What ${pod} printed before its last restart cannot be read: ${error instanceof Error ? error.message : String(error)}`)];
    }
    if (this.pod.value !== pod) return;
    this.earlier = found;
    this.drawBefore();
    this.choose();
  }

  /** @param {number} unfollowed number of logs */
  setUnfollowed(unfollowed) {
    this.problem.replaceChildren(...(unfollowed ? [element("p", { class: "faint" },
      `The logs of ${count(unfollowed)} containers are not followed: there are too many. Choose a pod to see its log.`)] : []));
  }

  /**
   * @param {Line[]} lines
   * @param {number} missed
   */
  add(lines, missed) {
    this.total += lines.length;
    this.missed += missed;
    if (missed) this.take({ at: NONE, pod: "", text: `… ${count(missed)} lines are missing here: they came too fast to be shown`, styles: [] });
    for (const line of lines) this.take(entryOf(line));
    // Cut off in large pieces: each time, all lines are searched again.
    if (this.lines.length > MOST_LINES + CUT) {
      this.lines = this.lines.slice(-MOST_LINES);
      this.choose();
    }
    this.draw();
    this.tell();
  }

  /** @param {Entry} line */
  take(line) {
    this.lines.push(line);
    if (this.earlier !== null || !this.isChosen(line)) return;
    this.shown.push(line);
    this.wrapped.add(this.lengthOf(line));
  }

  /** @param {Entry} line */
  isChosen({ pod, text }) {
    const chosen = this.pod.value;
    return (!pod || !chosen || pod === chosen || (this.pods.has(chosen) ? pod.startsWith(`${chosen}/`) : pod.includes(chosen)))
      && (!this.only.checked || this.hasWanted(text)) && (!this.errors.checked || !pod || ERRORS.test(text));
  }

  /** @param {string} text */
  hasWanted(text) {
    const wanted = this.search.value;
    return !wanted || text.toLowerCase().includes(wanted.toLowerCase());
  }

  /** Save the lines that are chosen. */
  download() {
    const lines = this.shown.map((line) => (line.at && this.times.checked ? `${new Date(line.at * 1000).toISOString()} ` : "") + (line.pod ? `${line.pod} | ` : "") + line.text);
    save(new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }), `${this.pod.value.replace(/[^\w.-]+/g, "-") || "log"}.txt`);
  }

  choose() {
    this.shown = (this.earlier ?? this.lines).filter((line) => this.isChosen(line));
    this.current = -1;
    this.steps.hidden = this.onlyLabel.hidden = !this.search.value;
    this.layOut();
    this.drawCount();
  }

  keepOptions() {
    localStorage.setItem(OPTIONS, JSON.stringify({ wrap: this.wrap.checked, times: this.times.checked }));
    this.layOut();
  }

  /** How many letters a row has, if lines are wrapped; else 0. */
  columns() {
    const width = this.letter.getBoundingClientRect().width / LETTERS;
    if (!this.wrap.checked || !width || !this.box.clientWidth) return 0;
    return Math.max(20, Math.floor((this.box.clientWidth - PADDING) / width));
  }

  /** Count the rows of all lines anew. */
  layOut() {
    this.wrapped = new Wrapped(this.columns());
    for (const line of this.shown) this.wrapped.add(this.lengthOf(line));
    this.drawn = new Map();
    this.draw();
  }

  /** @param {Entry} line */
  prefixOf({ at, pod }) {
    return `${at && this.times.checked ? `${clockOf(at)} ` : ""}${pod ? `${pod} | ` : ""}`;
  }

  /** @param {Entry} line */
  lengthOf(line) {
    return this.wrapped.columns ? this.prefixOf(line).length + line.text.length : 0;
  }

  /**
   * Go to the next line that has what is searched for, or the previous one.
   * @param {1 | -1} step
   */
  go(step) {
    if (!this.search.value) return;
    const found = nextMatch(this.shown.length, (index) => this.hasWanted(this.shown[index]?.text ?? ""), this.current, step);
    if (found < 0) return;
    this.current = found;
    this.end.checked = false;
    this.drawn = new Map();
    const row = this.wrapped.columns ? this.wrapped.firsts[found] ?? 0 : found;
    this.rows.show(this.wrapped.count); // lines that were just chosen may not be drawn yet: there would be no place to scroll to
    this.box.scrollTop = Math.max(0, row * LINE - this.box.clientHeight / 2);
    this.rows.draw();
    this.drawCount();
  }

  drawCount() {
    const kept = this.total > this.lines.length ? `, the newest of ${count(this.total)}` : "";
    const missed = this.missed ? `, ${count(this.missed)} more came too fast to be shown` : "";
    const wanted = this.search.value && !this.only.checked ? `, ${count(this.shown.filter(({ pod, text }) => pod && this.hasWanted(text)).length)} match` : "";
    this.count.textContent = `${count(this.shown.filter(({ pod }) => pod).length)} lines${wanted}${kept}${missed}`;
  }

  drawNow() {
    if (this.drawn.size > 2 * MOST_LINES) this.drawn = new Map();
    this.rows.show(this.wrapped.count);
    if (!this.end.checked) return;
    this.moving = true;
    this.box.scrollTop = this.box.scrollHeight;
    this.rows.draw();
    requestAnimationFrame(() => { this.moving = false; });
  }

  /** @param {number} row */
  rowAt(row) {
    const { line, from, to } = this.wrapped.at(row);
    const entry = this.shown[line];
    if (!entry) return element("div", { class: "line" }); // other lines were chosen since the rows were counted
    const made = this.drawn.get(row) ?? this.rowOf(entry, from, to, line === this.current);
    this.drawn.set(row, made);
    return made;
  }

  /**
   * @param {Entry} line
   * @param {number} from the first letter of the row
   * @param {number} to the one behind its last letter
   * @param {boolean} current
   */
  rowOf(line, from, to, current) {
    const { pod, text, styles } = line;
    const prefix = this.prefixOf(line), start = prefix.length;
    const marks = matchesIn(text, this.search.value.toLowerCase());
    const parts = to > start ? piecesOf(text, styles, marks, Math.max(0, from - start), to - start) : [];
    return element("div", { class: `line${pod ? "" : " gap"}${current ? " current" : ""}` },
      from < start ? element("span", { class: "pod" }, prefix.slice(from, to)) : null,
      ...parts.map((part) => {
        const made = part.classes ? element("span", { class: part.classes }, part.text) : part.text;
        return part.marked ? element("mark", {}, made) : made;
      }));
  }
}

/**
 * @param {Line} line as the server sends it
 * @returns {Entry}
 */
function entryOf([at, pod, line]) {
  const { text, styles } = withoutColours(line);
  return { at, pod, text, styles };
}

/**
 * @param {boolean} checked
 * @param {() => void} changed
 */
function box(checked, changed) {
  return /** @type {HTMLInputElement} */ (element("input", { type: "checkbox", ...(checked ? { checked: "" } : {}), onchange: changed }));
}

/**
 * @param {string} sign
 * @param {string} title
 * @param {string} key
 * @param {() => void} press
 */
function step(sign, title, key, press) {
  return element("button", { type: "button", title, "aria-label": title, "data-shortcut": key, "data-press": "", onclick: press }, sign);
}
