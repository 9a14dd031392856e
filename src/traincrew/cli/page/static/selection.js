// The jobs that are selected in the list, to be compared: which they are, and the bar that says so.

import { element } from "./format.js";

/** Jobs that can be compared: as many as there are colours for. */
export const MOST_COMPARED = 8;

/**
 * Return the address of a comparison.
 * @param {string[]} keys of jobs
 * @param {Record<string, string>} [more] what else was chosen, such as the metric
 */
export function compareAddress(keys, more = {}) {
  const chosen = new URLSearchParams([...keys.map((key) => ["job", key]), ...Object.entries(more).filter(([, value]) => value)]);
  return `#/compare?${chosen}`;
}

export class Selection {
  /**
   * @param {string[]} keys of jobs that are selected at first
   * @param {() => void} changed
   */
  constructor(keys, changed) {
    this.keys = new Set(keys.slice(0, MOST_COMPARED));
    this.changed = changed;
    /** @type {Map<string, HTMLInputElement>} */
    this.boxes = new Map();
    this.words = element("span", { role: "status" });
    this.compare = element("button", { type: "button", class: "main-action", "data-shortcut": "c", "data-press": "", onclick: () => this.open() }, "Compare", element("kbd", {}, "c"));
    this.place = element("div", { class: "selected", hidden: "" }, this.words, this.compare,
      element("button", { type: "button", onclick: () => this.clear() }, "Clear"));
    this.draw();
  }

  /**
   * Return the box with which a job is selected: the same each time, so that it keeps the focus.
   * @param {string} key
   * @param {string} name
   */
  box(key, name) {
    const known = this.boxes.get(key);
    if (known) return known;
    const made = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox", "aria-label": `Select ${name}`, onchange: () => this.set(key, made.checked) }));
    made.checked = this.keys.has(key);
    made.disabled = this.isFull && !made.checked;
    this.boxes.set(key, made);
    return made;
  }

  /** @param {string} key of a job that is not listed any more */
  forget(key) {
    this.boxes.delete(key);
    if (this.keys.delete(key)) this.draw();
  }

  get isFull() {
    return this.keys.size >= MOST_COMPARED;
  }

  /**
   * @param {string} key
   * @param {boolean} selected
   */
  set(key, selected) {
    if (selected && !this.isFull) this.keys.add(key); else this.keys.delete(key);
    this.draw();
    this.changed();
  }

  clear() {
    this.keys.clear();
    this.draw();
    this.changed();
  }

  open() {
    location.hash = compareAddress([...this.keys]);
  }

  draw() {
    const { size } = this.keys;
    this.place.hidden = size === 0;
    this.words.textContent = `${size} selected${this.isFull ? ", which is the most" : ""}`;
    for (const [key, box] of this.boxes) {
      box.checked = this.keys.has(key);
      box.disabled = this.isFull && !box.checked;
    }
  }
}
