// The pods of a job as a list that can be filtered, with those first that are not well.

import { arrange, count, element, throttled } from "./format.js";
import { BEHIND, byPlace, labelOf, RESTARTED, restartsOf } from "./rows.js";
import { state } from "./states.js";
import { LEVELS, WORDS } from "./shared.js";
import { showUsage } from "./usageview.js";
import { VisibleRows } from "./visible.js";

/**
 * @typedef {import("./rows.js").Row} Row
 * @typedef {import("./shared.js").Tone} Tone
 * @typedef {{name: string, desired: number, ready: number}} Role
 */

const ROW = 30;
const MOST_STATES = 12;
/** What pods can be besides their state, with the level of those that are only that. */
const MORE_STATES = /** @type {{name: string, level: number, is: (pod: import("./rows.js").Pod) => boolean}[]} */ ([
  { name: BEHIND, level: LEVELS.behind, is: (pod) => pod.behind !== "" },
  { name: RESTARTED, level: LEVELS.restarted, is: (pod) => pod.restarts > 0 },
]);

export class Pods {
  /**
   * @param {(shown: Row[]) => void} changed called when other rows are to be shown
   * @param {(pod: string) => void} showLog
   * @param {import("./usage.js").Usage} usage
   */
  constructor(changed, showLog, usage) {
    this.usage = usage;
    /** @type {Row[]} in the order in which they are shown */
    this.rows = [];
    /** @type {Row[]} those that the filter lets through */
    this.shown = [];
    this.changed = changed;
    this.showLog = showLog;
    this.wanted = "";
    /** @type {Map<string, HTMLElement>} */
    this.buttons = new Map();
    /** @type {WeakMap<Row, HTMLElement>} */
    this.drawn = new WeakMap();
    this.search = /** @type {HTMLInputElement} */ (element("input", {
      type: "search", placeholder: "Filter: name, role, rank, node, state   ( f )", "aria-label": "Filter the pods",
      "data-shortcut": "f", oninput: () => this.choose(),
    }));
    this.count = element("span", { class: "faint", role: "status" });
    this.tools = element("div", { class: "pod-tools" }, this.search, this.count);
    this.states = element("div", { class: "states", role: "group", "aria-label": "Pods by state" });
    this.box = element("div", { class: "pod-list", tabindex: "0", role: "list", "aria-label": "Pods, those first that are not well" });
    this.list = new VisibleRows(this.box, ROW, (index) => this.rowAt(index));
    this.place = element("div", {}, this.states, this.tools, this.box);
    this.say = throttled(() => this.drawCount(), 500);
    this.choose();
  }

  /** @param {Row[]} rows */
  set(rows) {
    this.rows = rows.sort((a, b) => a.level - b.level || byPlace(a, b));
    this.choose();
  }

  choose() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = this.rows.filter((row) => words.every((word) => row.text.includes(word)) && (!this.wanted || isIn(row, this.wanted)));
    this.draw();
    this.changed(this.shown);
  }

  draw() {
    this.drawStates();
    const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest(".pod-row"));
    this.list.show(this.shown.length);
    if (focused && !focused.isConnected) this.focus(focused.dataset["uid"] ?? "");
    this.say();
  }

  drawCount() {
    const filtered = this.shown.length < this.rows.length;
    this.count.textContent = filtered ? `${count(this.shown.length)} of ${count(this.rows.length)} pods` : `${count(this.rows.length)} pods`;
  }

  /** @param {string} uid of a pod whose row was replaced while it had the focus */
  focus(uid) {
    const row = this.list.rows.querySelector(`[data-uid="${CSS.escape(uid)}"]`);
    /** @type {HTMLElement} */ (row?.querySelector("button") ?? this.box).focus({ preventScroll: true });
  }

  drawStates() {
    /** @type {Map<string, {tone: Tone, count: number, level: number}>} */
    const states = new Map();
    for (const { pod, level, sign } of this.rows) {
      const found = states.get(pod.state);
      if (!found) states.set(pod.state, { tone: sign, count: 1, level });
      else {
        found.count += 1;
        if (level > found.level) Object.assign(found, { tone: sign, level });
      }
    }
    for (const { name, level, is } of MORE_STATES) {
      const number = this.rows.filter(({ pod }) => is(pod)).length;
      if (number) states.set(name, { tone: "wait", count: number, level });
    }
    const sorted = [...states].sort(([, a], [, b]) => a.level - b.level || b.count - a.count).slice(0, MOST_STATES);
    if (this.wanted && !sorted.some(([name]) => name === this.wanted)) {
      sorted.push([this.wanted, { tone: "plain", count: 0, level: LEVELS.gone }]);
    }
    arrange(this.states, sorted.map(([name, { tone, count: number }]) => this.buttonOf(name, tone, number)));
  }

  /**
   * @param {string} name
   * @param {Tone} tone
   * @param {number} number
   */
  buttonOf(name, tone, number) {
    const known = this.buttons.get(name);
    const button = known ?? element("button", { type: "button", onclick: () => this.want(name) });
    this.buttons.set(name, button);
    button.setAttribute("aria-pressed", String(this.wanted === name));
    button.replaceChildren(state(`${count(number)} ${name}`, tone));
    return button;
  }

  /** @param {string} name of a state; the one that is chosen already is given up */
  want(name) {
    this.wanted = this.wanted === name ? "" : name;
    this.box.scrollTop = 0;
    this.choose();
  }

  /** @param {number} index */
  rowAt(index) {
    const row = /** @type {Row} */ (this.shown[index]);
    const made = this.drawn.get(row) ?? this.rowOf(row);
    this.drawn.set(row, made);
    this.use(made);
    made.setAttribute("aria-posinset", String(index + 1));
    made.setAttribute("aria-setsize", String(this.shown.length));
    return made;
  }

  /** Only rows that can be seen show what their pods use. */
  drawUsage() {
    this.box.classList.toggle("measured", this.usage.any());
    for (const row of this.list.rows.children) this.use(/** @type {HTMLElement} */ (row));
  }

  /** @param {HTMLElement} row */
  use(row) {
    const place = /** @type {HTMLElement | null} */ (row.querySelector(".usage"));
    if (place && place.dataset["at"] !== String(this.usage.at)) {
      place.dataset["at"] = String(this.usage.at);
      showUsage(place, this.usage, [row.dataset["uid"] ?? ""]);
    }
  }

  /** @param {Row} row */
  rowOf(row) {
    const { pod, life, sign } = row;
    return element("div", { class: `pod-row${life.goneAt ? " gone" : ""}`, role: "listitem", "data-uid": pod.uid, title: titleOf(row) },
      state(wordsOf(pod), sign),
      element("span", { class: "place" }, labelOf(row)),
      element("span", { class: "optional" }, pod.name),
      element("span", { class: "optional faint" }, pod.node || "no node yet"),
      element("span", { class: "optional faint" }, moreOf(pod)),
      element("span", { class: "optional usage" }),
      element("button", { type: "button", "aria-label": `Log of ${pod.name}`, onclick: () => this.showLog(pod.name) }, "Log"));
  }
}

/**
 * @param {Row} row
 * @param {string} name of a state
 */
function isIn({ pod }, name) {
  return pod.state === name || MORE_STATES.some((more) => more.name === name && more.is(pod));
}

/**
 * The state of a pod, and what else there is to say of it, in a few words.
 * @param {import("./rows.js").Pod} pod
 */
function wordsOf(pod) {
  const notReady = pod.state === WORDS.running && !pod.ready ? "not ready" : "";
  return [pod.state, pod.behind && BEHIND, notReady, restartsOf(pod)].filter(Boolean).join(", ");
}

/**
 * The same at length: why it is in that state, how far its rank is.
 * @param {import("./rows.js").Pod} pod
 */
function moreOf({ behind, detail }) {
  return [behind, detail].filter(Boolean).join("; ");
}

/** @param {Row} row */
function titleOf({ pod }) {
  const more = moreOf(pod);
  return `${pod.name}: ${pod.state}${more ? ` (${more})` : ""}${pod.node ? ` on ${pod.node}` : ""}`;
}
