// The merged log. Only the lines that can be seen are elements, so that a long log costs little.

import { element, throttled } from "./format.js";

const LINE = 18;
const MOST_LINES = 20000;

/** @typedef {[number, string, string]} Line time, pod, text */

export class Log {
  constructor() {
    /** @type {Line[]} */
    this.lines = [];
    /** @type {Line[]} */
    this.shown = [];
    this.missed = 0;
    /** @type {Set<string>} */
    this.pods = new Set();
    this.search = /** @type {HTMLInputElement} */ (element("input", {
      type: "search", placeholder: "Search the log", "aria-label": "Search the log", oninput: () => this.choose(),
    }));
    this.pod = /** @type {HTMLSelectElement} */ (element("select", { "aria-label": "Pod", onchange: () => this.choose() },
      element("option", { value: "" }, "All pods")));
    this.end = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox", checked: "", onchange: () => this.draw() }));
    this.count = element("span", { class: "faint", role: "status" });
    this.space = element("div");
    this.visible = element("div", { class: "lines" });
    this.box = element("div", { class: "log", tabindex: "0", "aria-label": "Log" }, this.space, this.visible);
    this.place = element("div", {},
      element("div", { class: "tools" }, this.search, this.pod, element("label", {}, this.end, " Follow"), this.count), this.box);
    this.draw = throttled(() => this.drawNow(), 60);
    this.box.addEventListener("scroll", () => {
      const atEnd = this.box.scrollTop + this.box.clientHeight >= this.box.scrollHeight - LINE;
      if (!atEnd && this.end.checked && !this.moving) this.end.checked = false;
      this.draw();
    });
    this.moving = false;
  }

  clear() {
    this.lines = [];
    this.missed = 0;
    this.choose();
  }

  leave() {
    this.lines = [];
    this.shown = [];
  }

  /**
   * @param {Line[]} lines
   * @param {number} missed
   */
  add(lines, missed) {
    this.missed += missed;
    for (const [, pod] of lines) {
      if (!this.pods.has(pod)) {
        this.pods.add(pod);
        this.pod.append(element("option", { value: pod }, pod));
      }
    }
    this.lines.push(...lines);
    if (this.lines.length > MOST_LINES) {
      this.lines = this.lines.slice(-MOST_LINES);
      this.choose();
    } else {
      this.shown.push(...lines.filter((line) => this.isChosen(line)));
      this.draw();
    }
  }

  /** @param {Line} line */
  isChosen([, pod, text]) {
    const wanted = this.search.value.toLowerCase();
    return (!this.pod.value || pod === this.pod.value) && (!wanted || text.toLowerCase().includes(wanted));
  }

  choose() {
    this.shown = this.lines.filter((line) => this.isChosen(line));
    this.draw();
  }

  drawNow() {
    const missed = this.missed ? `, ${this.missed} more came too fast to be shown` : "";
    this.count.textContent = `${this.shown.length} lines${missed}`;
    this.space.style.height = `${this.shown.length * LINE}px`;
    if (this.end.checked) {
      this.moving = true;
      this.box.scrollTop = this.box.scrollHeight;
      requestAnimationFrame(() => { this.moving = false; });
    }
    const first = Math.max(0, Math.floor(this.box.scrollTop / LINE) - 5);
    const last = first + Math.ceil(this.box.clientHeight / LINE) + 10;
    this.visible.style.top = `${first * LINE}px`;
    this.visible.replaceChildren(...this.shown.slice(first, last).map((line) => this.lineOf(line)));
  }

  /** @param {Line} line */
  lineOf([, pod, text]) {
    const wanted = this.search.value;
    const found = wanted ? text.toLowerCase().indexOf(wanted.toLowerCase()) : -1;
    const parts = found < 0 ? [text] : [
      text.slice(0, found), element("mark", {}, text.slice(found, found + wanted.length)), text.slice(found + wanted.length),
    ];
    return element("div", { class: "line" }, element("span", { class: "pod" }, `${pod} | `), ...parts);
  }
}
