// The header of a job, which stays in sight: its name, state, how far it is, and commands to copy.

import { duration, element, number, seconds } from "./format.js";
import { state } from "./states.js";

/**
 * @typedef {{kind: string, namespace: string, name: string}} JobName
 * @typedef {{done: number | null, remaining: number | null, latest: [string, number][]}} Progress
 */

const MOST_VALUES = 2;

export class Head {
  /** @param {JobName} job */
  constructor(job) {
    this.job = job;
    this.title = element("h1", {}, job.name, " ", state("…", "plain"));
    this.facts = element("dl", { class: "facts" });
    this.bar = element("div", { class: "progress" });
    this.place = element("div", { class: "head" },
      element("div", { class: "head-line" },
        element("nav", { class: "path faint", "aria-label": "Where this is" },
          element("a", { href: "#/" }, "← All jobs"), ` / ${job.namespace} / ${job.kind.split(".")[0] ?? ""}`),
        commands(job)),
      element("div", { class: "head-line" }, this.title, this.facts),
      this.bar);
    /** @type {number | null} */
    this.began = null;
    /** @type {HTMLElement | null} */
    this.age = null;
  }

  /**
   * @param {string} phase
   * @param {import("./shared.js").Tone} tone
   * @param {any} [summary]
   */
  show(phase, tone, summary) {
    this.title.replaceChildren(this.job.name, " ", state(phase, tone));
    if (!summary) return;
    const began = seconds(summary.startedAt ?? summary.createdAt);
    const ended = seconds(summary.endedAt);
    const length = began === null ? "" : duration((ended ?? Date.now() / 1000) - began);
    this.began = ended === null ? began : null;
    this.age = element("dd", {}, length);
    const facts = /** @type {[string, string | number | HTMLElement][]} */ ([
      [ended === null ? "runs for" : "ran for", this.age],
      ["ready", summary.endedAt ? "" : `${summary.ready} of ${summary.desired}`],
      ["restarts", summary.restarts || ""],
    ]);
    this.facts.replaceChildren(...facts.filter(([, value]) => value !== "").map(([title, value]) => fact(title, value)));
    this.bar.dataset["tone"] = tone;
  }

  /** Time has passed. */
  tick() {
    if (this.began !== null && this.age) this.age.textContent = duration(Date.now() / 1000 - this.began);
  }

  /**
   * @param {Progress} progress
   * @param {boolean} ended
   * @param {{seconds: number, usual: number} | null} quiet if the program has said nothing for long; then no time is estimated
   */
  showProgress({ done, remaining, latest }, ended, quiet) {
    const values = latest.slice(0, MOST_VALUES).map(([name, value]) => element("span", {}, `${name} `, element("b", {}, number(value))));
    if (quiet) {
      values.push(state(`no output for ${duration(quiet.seconds)} (usually every ${quiet.usual < 1 ? "second" : duration(quiet.usual)})`, "wait"));
    }
    if (done === null) {
      this.bar.replaceChildren(...values);
      return;
    }
    const percent = Math.round(done * 100);
    const left = ended || quiet || remaining === null || done >= 1 ? null : element("span", {}, "about ", element("b", {}, duration(remaining)), " left");
    this.bar.replaceChildren(element("b", {}, `${percent} % done`),
      element("progress", { value: String(done), max: "1", "aria-label": "Progress" }), ...values, ...(left ? [left] : []));
  }
}

/**
 * @param {string} title
 * @param {string | number | HTMLElement} value
 */
function fact(title, value) {
  return element("div", {}, element("dt", {}, title), value instanceof HTMLElement ? value : element("dd", {}, value));
}

/**
 * A menu of commands about the job, to copy.
 * @param {JobName} job
 */
function commands({ kind, namespace, name }) {
  const short = (kind.split(".")[0] ?? "").toLowerCase();
  const where = namespace === "default" ? "" : ` -n ${namespace}`;
  const menu = element("details", { class: "menu" }, element("summary", {}, "Copy a command"));
  const items = [
    `traincrew why ${short}/${name}${where}`, `traincrew logs ${short}/${name}${where} --follow`,
    `traincrew watch ${short}/${name}${where}`, `kubectl delete ${kind.toLowerCase()} ${name}${where}`,
  ].map((command) => copying(command, () => { menu.removeAttribute("open"); }));
  menu.append(element("div", { class: "menu-items" }, ...items));
  return menu;
}

/**
 * Return a button that copies a command.
 * @param {string} command
 * @param {() => void} [after]
 */
export function copying(command, after) {
  const said = element("span", { class: "faint", role: "status" });
  return element("button", {
    type: "button", class: "command", title: "Copy", onclick: () => {
      void navigator.clipboard.writeText(command).then(
        () => { said.textContent = " copied"; setTimeout(() => { said.textContent = ""; after?.(); }, 900); },
        () => { said.textContent = " select it, and copy it by hand"; });
    },
  }, element("code", {}, command), said);
}
