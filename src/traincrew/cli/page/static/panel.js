// What is wrong with a job, once: the cause, the end of the log that shows it, and what to do.

import { element } from "./format.js";

/**
 * @typedef {{text: string, evidence: string[], fix: string}} Explanation
 */

const TRACEBACK = /^Traceback \(most recent call last\)/;
/** The last line of a traceback: an exception, with or without a message. */
const RAISED = /^[A-Za-z_][\w.]*(:|$)/;
const MOST_LINES = 14;

export class Panel {
  /** @param {(pod: string) => void} showLog */
  constructor(showLog) {
    this.showLog = showLog;
    this.cause = element("p", { class: "cause" });
    this.lines = element("pre", { class: "last-lines", tabindex: "0", role: "region", "aria-label": "The last lines of its log" });
    this.evidence = element("ul", { class: "faint" });
    this.fix = element("p", { class: "fix" });
    this.place = element("section", { class: "panel", role: "region", "aria-label": "What is wrong", hidden: "" },
      this.cause, this.lines, this.evidence, this.fix);
    this.said = "";
  }

  hide() {
    this.place.hidden = true;
  }

  /**
   * @param {Explanation} found
   * @param {string} tone of the job
   * @param {{pod: string, lines: string[]}} log of the pod that explains it; without lines, none does
   */
  show({ text, evidence, fix }, tone, { pod, lines }) {
    this.place.hidden = false;
    this.place.className = `panel ${tone}`;
    const shown = JSON.stringify([text, evidence, fix, pod, lines]);
    if (shown === this.said) return; // what is selected stays selected
    this.said = shown;
    this.cause.textContent = text;
    const end = tone === "bad" ? endOf(lines) : [];
    this.lines.hidden = end.length === 0;
    this.lines.replaceChildren(...end.map((line, index) =>
      element("span", index === end.length - 1 && TRACEBACK.test(end[0] ?? "") ? { class: "raised" } : {}, `${line}\n`)));
    // The log says it already.
    const more = evidence.filter((each) => !end.some((line) => line.trim() && each.includes(line.trim())));
    this.evidence.replaceChildren(...more.map((each) => element("li", {}, each)));
    this.fix.replaceChildren(...(fix ? [element("strong", {}, "What to do: "), fix] : []),
      ...(end.length ? [" ", element("button", { type: "button", onclick: () => this.showLog(pod) }, "Show its log")] : []));
    this.fix.hidden = !fix && !end.length;
  }
}

/**
 * Return the last traceback of Python in these lines, or else the last of them.
 * @param {string[]} lines
 */
export function endOf(lines) {
  let first = -1;
  lines.forEach((line, index) => { if (TRACEBACK.test(line)) first = index; });
  if (first < 0) return lines.slice(-MOST_LINES);
  // Two streams are merged: what was printed before may arrive between its lines.
  const whole = [lines[first] ?? ""];
  for (const line of lines.slice(first + 1)) {
    const indented = /^\s/.test(line), raised = !indented && RAISED.test(line);
    if (indented || raised) whole.push(line);
    if (raised) break;
  }
  return whole.length <= MOST_LINES ? whole : [...whole.slice(0, 2), "  …", ...whole.slice(3 - MOST_LINES)];
}
