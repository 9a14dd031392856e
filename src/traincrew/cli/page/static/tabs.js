// Tabs: one of several parts is shown. The keys 1 to 9 choose one, arrows go from one to the next.

import { element } from "./format.js";

/** @typedef {{name: string, place: HTMLElement, shown?: () => void}} Part */

export class Tabs {
  /** @param {Part[]} parts the first is shown at first */
  constructor(parts) {
    this.parts = parts;
    /** @type {Map<string, HTMLElement>} */
    this.extras = new Map();
    this.buttons = parts.map(({ name, place }, index) => {
      const id = `part-${name.toLowerCase()}`;
      place.id = id;
      place.setAttribute("role", "tabpanel");
      place.setAttribute("aria-labelledby", `${id}-tab`);
      const extra = element("span", { class: "faint" });
      this.extras.set(name, extra);
      return element("button", {
        type: "button", role: "tab", id: `${id}-tab`, "aria-controls": id, "data-shortcut": String(index + 1),
        onclick: () => this.choose(name),
      }, name, extra);
    });
    this.bar = element("div", { class: "tabs", role: "tablist", "aria-label": "Parts of this page", onkeydown: (event) => this.onKey(/** @type {KeyboardEvent} */ (event)) },
      ...this.buttons);
    this.chosen = "";
    this.choose(parts[0]?.name ?? "");
  }

  /**
   * Say more beside the name of a part: how much there is.
   * @param {string} name
   * @param {string} text
   */
  say(name, text) {
    const extra = this.extras.get(name);
    if (extra) extra.textContent = text ? ` ${text}` : "";
  }

  /** @param {string} name */
  choose(name) {
    this.chosen = name;
    this.parts.forEach((part, index) => {
      const chosen = part.name === name;
      part.place.hidden = !chosen;
      const button = this.buttons[index];
      button?.setAttribute("aria-selected", String(chosen));
      button?.setAttribute("tabindex", chosen ? "0" : "-1");
      if (chosen) part.shown?.();
    });
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const count = this.parts.length;
    const next = (this.parts.findIndex(({ name }) => name === this.chosen) + step + count) % count;
    this.choose(this.parts[next]?.name ?? "");
    this.buttons[next]?.focus();
    event.preventDefault();
  }
}
