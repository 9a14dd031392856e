// The pods of a job as squares, by role and rank: a thousand are legible, and those stand out that are not well.

import { count, element } from "./format.js";
import { byPlace, EXPLAINS, restartsOf } from "./rows.js";
import { SIGNS } from "./shared.js";
import { showUsage } from "./usageview.js";

/**
 * @typedef {import("./rows.js").Row} Row
 * @typedef {import("./pods.js").Role} Role
 */

export class Squares {
  /**
   * @param {(row: Row) => void} choose called when somebody clicks a pod
   * @param {import("./usage.js").Usage} usage
   */
  constructor(choose, usage) {
    this.choose = choose;
    this.usage = usage;
    this.pointed = "";
    this.roles = element("div", { class: "squares" });
    this.about = element("p", { class: "about faint", "aria-live": "polite" });
    this.used = element("p", { class: "usage", hidden: "" });
    this.place = element("div", {}, this.roles, this.about, this.used);
    /** @type {Map<string, HTMLElement>} */
    this.known = new Map();
    /** @type {Map<string, Row>} */
    this.rows = new Map();
    this.place.addEventListener("click", (event) => this.onEvent(event, (row) => this.choose(row)));
    for (const name of ["mouseover", "focusin"]) {
      this.place.addEventListener(name, (event) => this.onEvent(event, (row) => this.point(row)));
    }
  }

  /** @param {Row} row that is pointed at, or has the focus */
  point(row) {
    this.pointed = row.pod.uid;
    this.about.textContent = aboutPod(row);
    this.drawUsage();
  }

  drawUsage() {
    if (this.pointed) showUsage(this.used, this.usage, [this.pointed]);
  }

  /**
   * @param {Event} event
   * @param {(row: Row) => void} use
   */
  onEvent(event, use) {
    const uid = /** @type {HTMLElement} */ (event.target).dataset["uid"];
    const row = uid === undefined ? undefined : this.rows.get(uid);
    if (row) use(row);
  }

  /**
   * @param {Role[]} roles
   * @param {Row[]} rows
   */
  draw(roles, rows) {
    this.rows = new Map(rows.map((row) => [row.pod.uid, row]));
    for (const uid of this.known.keys()) if (!this.rows.has(uid)) this.known.delete(uid);
    const groups = roles.map((role) => {
      const own = rows.filter((row) => row.role === role.name && !row.life.goneAt).sort(byPlace);
      const box = element("div", { class: "square-row", role: "group", "aria-label": `Pods of ${role.name}` }, ...own.map((row) => this.square(row)));
      return element("div", { class: "role" },
        element("h3", {}, role.name), element("span", { class: "number faint" }, `${count(role.ready)} of ${count(role.desired)} ready`), box);
    });
    const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset["uid"];
    this.roles.replaceChildren(...groups);
    if (focused && this.known.has(focused)) this.known.get(focused)?.focus({ preventScroll: true });
  }

  /** @param {Row} row */
  square(row) {
    const { pod, level, sign } = row;
    const made = this.known.get(pod.uid) ?? element("button", { type: "button", "data-uid": pod.uid });
    this.known.set(pod.uid, made);
    const more = [level === EXPLAINS && "explains", pod.behind && "behind", pod.restarts > 0 && "restarted"].filter(Boolean).join(" ");
    made.className = `square ${sign} ${more}`.trim();
    made.dataset["sign"] = SIGNS[sign];
    const text = aboutPod(row);
    if (made.getAttribute("aria-label") !== text) made.setAttribute("aria-label", text);
    return made;
  }
}

/** @param {Row} row */
function aboutPod({ role, pod, level }) {
  const words = [pod.state, level === EXPLAINS && "explains the failure", pod.behind, pod.detail, restartsOf(pod), pod.node && `on ${pod.node}`];
  return `${role} ${pod.rank}: ${words.filter(Boolean).join(", ")}`;
}
