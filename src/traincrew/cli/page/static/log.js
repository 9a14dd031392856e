// The merged log of all pods, or of one.

import { count, element, save, throttled } from "./format.js";
import { VisibleRows } from "./visible.js";

const LINE = 18;
const MOST_LINES = 20000;
const CUT = 5000;
/** What lines have that are worth reading when something is wrong. */
const ERRORS = /\b(error|exception|traceback|fatal|failed|failure|critical|panic|segfault|killed|abort(ed)?|cannot|could not)\b|Error\b|Exception\b/i;

/** @typedef {[number, string, string]} Line time, pod, text; without a pod it is about the log */

export class Log {
  /** @param {(pod: string) => void} ask called when somebody wants to read the log of a pod */
  constructor(ask) {
    /** @type {Line[]} */
    this.lines = [];
    /** @type {Line[]} */
    this.shown = [];
    this.total = 0;
    this.missed = 0;
    /** @type {Set<string>} */
    this.pods = new Set();
    /** @type {WeakMap<Line, HTMLElement>} */
    this.drawn = new WeakMap();
    this.search = /** @type {HTMLInputElement} */ (element("input", {
      type: "search", placeholder: "Search the log   ( / )", "aria-label": "Search the log", "data-shortcut": "/",
      oninput: () => this.choose(),
    }));
    this.names = element("datalist", { id: "pods-of-log" });
    this.pod = /** @type {HTMLInputElement} */ (element("input", {
      type: "search", list: "pods-of-log", placeholder: "All pods", "aria-label": "Pod", oninput: () => this.choosePod(),
    }));
    this.ask = ask;
    this.end = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox", checked: "", onchange: () => this.draw() }));
    this.errors = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox", onchange: () => this.choose() }));
    this.count = element("span", { class: "faint", role: "status" });
    this.problem = element("div");
    this.box = element("div", { class: "log", tabindex: "0", role: "region", "aria-label": "Log" });
    this.rows = new VisibleRows(this.box, LINE, (index) => this.lineAt(index));
    this.place = element("div", {},
      element("div", { class: "tools" }, this.search, this.pod, this.names, element("label", {}, this.end, " Follow"),
        element("label", {}, this.errors, " Errors"), element("button", { type: "button", onclick: () => this.download() }, "Save"), this.count),
      this.problem, this.box);
    this.draw = throttled(() => this.drawNow(), 60);
    // Screen readers read it aloud when it changes.
    this.tell = throttled(() => this.drawCount(), 1000);
    this.box.addEventListener("scroll", () => {
      const atEnd = this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - LINE;
      if (!atEnd && this.end.checked && !this.moving) this.end.checked = false;
    });
    this.moving = false;
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
   * @param {Iterable<string>} names
   */
  offer(names) {
    const made = [];
    for (const name of names) {
      if (this.pods.has(name)) continue;
      this.pods.add(name);
      made.push(element("option", { value: name }));
    }
    if (made.length) this.names.append(...made);
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
      const [, from, text] = /** @type {Line} */ (this.lines[index]);
      if (from === pod || from.startsWith(`${pod}/`)) found.push(text);
    }
    return found.reverse();
  }

  choosePod() {
    if (this.pods.has(this.pod.value)) this.ask(this.pod.value);
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
    if (missed) this.addGap(missed);
    for (const line of lines) {
      this.lines.push(line);
      if (this.isChosen(line)) this.shown.push(line);
    }
    // Cut off in large pieces: each time, all lines are searched again.
    if (this.lines.length > MOST_LINES + CUT) {
      this.lines = this.lines.slice(-MOST_LINES);
      this.choose();
    }
    this.draw();
    this.tell();
  }

  /** @param {number} missed */
  addGap(missed) {
    this.missed += missed;
    /** @type {Line} */
    const line = [0, "", `… ${count(missed)} lines are missing here: they came too fast to be shown`];
    this.lines.push(line);
    if (this.isChosen(line)) this.shown.push(line);
  }

  /** @param {Line} line */
  isChosen([, pod, text]) {
    const wanted = this.search.value.toLowerCase();
    const chosen = this.pod.value;
    return (!pod || !chosen || pod === chosen || (this.pods.has(chosen) ? pod.startsWith(`${chosen}/`) : pod.includes(chosen)))
      && (!wanted || text.toLowerCase().includes(wanted)) && (!this.errors.checked || !pod || ERRORS.test(text));
  }

  /** Save the lines that are chosen. */
  download() {
    const lines = this.shown.map(([, pod, text]) => (pod ? `${pod} | ${text}` : text));
    save(new Blob([`${lines.join("\n")}\n`], { type: "text/plain" }), `${this.pod.value.replace(/[^\w.-]+/g, "-") || "log"}.txt`);
  }

  choose() {
    this.shown = this.lines.filter((line) => this.isChosen(line));
    this.drawn = new WeakMap();
    this.draw();
    this.drawCount();
  }

  drawCount() {
    const kept = this.total > this.lines.length ? `, the newest of ${count(this.total)}` : "";
    const missed = this.missed ? `, ${count(this.missed)} more came too fast to be shown` : "";
    this.count.textContent = `${count(this.shown.filter(([, pod]) => pod).length)} lines${kept}${missed}`;
  }

  drawNow() {
    this.rows.show(this.shown.length);
    if (!this.end.checked) return;
    this.moving = true;
    this.box.scrollTop = this.box.scrollHeight;
    this.rows.draw();
    requestAnimationFrame(() => { this.moving = false; });
  }

  /** @param {number} index */
  lineAt(index) {
    const line = this.shown[index];
    if (!line) return element("div", { class: "line" }); // other lines were chosen since the rows were counted
    const made = this.drawn.get(line) ?? this.lineOf(line);
    this.drawn.set(line, made);
    return made;
  }

  /** @param {Line} line */
  lineOf([, pod, text]) {
    if (!pod) return element("div", { class: "line gap" }, text);
    const wanted = this.search.value;
    const found = wanted ? text.toLowerCase().indexOf(wanted.toLowerCase()) : -1;
    const parts = found < 0 ? [text] : [
      text.slice(0, found), element("mark", {}, text.slice(found, found + wanted.length)), text.slice(found + wanted.length),
    ];
    return element("div", { class: "line" }, element("span", { class: "pod" }, `${pod} | `), ...parts);
  }
}
