// The events about a job: each warning, and one line about all others, which opens.

import { count, duration, element, seconds } from "./format.js";
import { state } from "./states.js";

/**
 * @typedef {{at: string, kind: string, about: string, reason: string, message: string, count: number}} EventRow `about` is the kind
 *   and name of an object
 */

const WARNING = "Warning";
const MOST_GROUPS = 4;

export class Events {
  constructor() {
    this.warnings = element("tbody");
    this.others = element("tbody");
    this.none = element("p", { class: "faint" }, "No events.");
    this.summary = element("summary", {});
    this.rest = /** @type {HTMLDetailsElement} */ (element("details", { class: "other-events", hidden: "" }, this.summary, scrolling(this.others, "Other events")));
    this.warned = scrolling(this.warnings, "Warnings");
    this.place = element("div", { class: "events" }, this.none, this.warned, this.rest);
    this.touched = false;
    this.summary.addEventListener("click", () => { this.touched = true; });
  }

  /**
   * Draw the events; return how many are warnings.
   * @param {EventRow[]} events in the order of time
   */
  draw(events) {
    const newest = events.slice().reverse();
    const warnings = newest.filter(({ kind }) => kind === WARNING), others = newest.filter(({ kind }) => kind !== WARNING);
    this.none.hidden = events.length > 0;
    this.warned.hidden = warnings.length === 0;
    this.warnings.replaceChildren(...warnings.map(eventRow));
    this.rest.hidden = others.length === 0;
    this.summary.textContent = summaryOf(others);
    this.others.replaceChildren(...others.map(eventRow));
    if (!this.touched) this.rest.open = warnings.length === 0; // else there is nothing to see
    return warnings.length;
  }

  /** Time has passed. */
  tick() {
    for (const each of /** @type {NodeListOf<HTMLElement>} */ (this.place.querySelectorAll("[data-at]"))) {
      each.textContent = ago(Number(each.dataset["at"]));
    }
  }
}

/**
 * Return what happened, in one line: `40 pods started, 1 job created, in 12s`.
 * @param {EventRow[]} events in any order
 */
export function summaryOf(events) {
  /** @type {Map<string, {reason: string, kind: string, objects: Set<string>}>} */
  const groups = new Map();
  for (const { reason, about } of events) {
    const [kind = ""] = about.split(" ");
    const group = groups.get(`${kind} ${reason}`) ?? { reason, kind, objects: new Set() };
    group.objects.add(about);
    groups.set(`${kind} ${reason}`, group);
  }
  const sorted = [...groups.values()].sort((a, b) => b.objects.size - a.objects.size);
  const words = sorted.slice(0, MOST_GROUPS).map(({ reason, kind, objects }) => {
    const number = objects.size, things = `${count(number)} ${kind === "Pod" ? "pod" : kind}${number === 1 ? "" : "s"}`;
    return /^[A-Z][a-z]+ed$/.test(reason) ? `${things} ${reason.toLowerCase()}` : `${reason} of ${things}`;
  });
  if (sorted.length > MOST_GROUPS) words.push(`${count(sorted.length - MOST_GROUPS)} more kinds of events`);
  const times = events.flatMap(({ at }) => seconds(at) ?? []);
  const length = times.length ? Math.max(...times) - Math.min(...times) : 0;
  return `${words.join(", ")}${length >= 1 ? `, in ${duration(length)}` : ""}`;
}

/**
 * @param {HTMLElement} body
 * @param {string} name
 */
function scrolling(body, name) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, element("table", {}, body));
}

/** @param {number} at */
function ago(at) {
  return `${duration(Date.now() / 1000 - at)} ago`;
}

/** @param {EventRow} event */
function eventRow(event) {
  const then = seconds(event.at);
  const times = event.count > 1 ? ` ×${event.count}` : "";
  return element("tr", {},
    then === null ? element("td") : element("td", { class: "number faint", "data-at": String(then) }, ago(then)),
    element("td", {}, event.kind === WARNING ? state(event.reason + times, "bad") : event.reason + times),
    element("td", { class: "faint" }, event.about),
    element("td", { class: "why" }, event.message));
}
