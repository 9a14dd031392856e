// The list of jobs.

import { age as ageText, arrange, element, seconds, state, throttled, toneOf } from "./format.js";
import { stream } from "./session.js";

/**
 * @typedef {{kind: string, namespace: string, name: string, phase: string, ready: number, desired: number,
 *   restarts: number, createdAt: string, startedAt: string | null, endedAt: string | null, reason: string,
 *   message: string, warning: string}} Summary
 */

const SELF_EVIDENT = new Set(["Running", "Succeeded"]);

/**
 * Show the list; return how to leave it.
 * @param {HTMLElement} place
 * @param {(problem: string) => void} report
 */
export function showList(place, report) {
  /** @type {Map<string, {row: HTMLElement, summary: Summary, age: HTMLElement, text: string}>} */
  const rows = new Map();
  const body = element("tbody");
  const count = element("span", { class: "faint", role: "status" });
  const problems = element("div");
  const empty = element("p", { class: "faint", hidden: "" },
    "No jobs yet. Create one with kubectl create -f JOB.yaml, or traincrew run -f JOB.yaml.");
  const search = /** @type {HTMLInputElement} */ (element("input", {
    type: "search", placeholder: "Filter: name, namespace, kind, phase   ( / )", "aria-label": "Filter",
    "data-shortcut": "/", oninput: () => filter(),
  }));
  const head = ["Phase", "Job", "Kind", "Namespace", "Ready", "Restarts", "Age", "Reason"].map((title) =>
    element("th", { scope: "col", class: classOf(title) }, title));
  place.append(
    element("h1", {}, "Jobs"), element("div", { class: "tools" }, search, count), problems, empty,
    element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), body)),
  );

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, text } of rows.values()) {
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) shown += 1;
    }
    count.textContent = words.length ? `${shown} of ${rows.size} jobs` : `${rows.size} jobs`;
    empty.hidden = rows.size > 0;
  }

  /** Newest first; of the same time, by name. */
  function order() {
    const sorted = [...rows.values()].sort((a, b) =>
      b.summary.createdAt.localeCompare(a.summary.createdAt) || a.summary.name.localeCompare(b.summary.name));
    arrange(body, sorted.map(({ row }) => row));
  }
  const orderSoon = throttled(order, 100);

  /** @param {{changed: Record<string, Summary>, removed: string[], problems: string[]}} content */
  function onRows(content) {
    for (const key of content.removed) {
      rows.get(key)?.row.remove();
      rows.delete(key);
    }
    const first = rows.size === 0;
    for (const [key, summary] of Object.entries(content.changed)) {
      const known = rows.get(key);
      const made = rowOf(key, summary);
      const focused = known?.row.contains(document.activeElement);
      if (known) known.row.replaceWith(made.row);
      if (focused) made.row.querySelector("a")?.focus();
      rows.set(key, made);
    }
    problems.replaceChildren(...content.problems.map((text) => element("p", { class: "problem" }, text)));
    if (first) order(); else orderSoon();
    filter();
  }

  const ageing = setInterval(() => {
    for (const each of rows.values()) each.age.textContent = ageOf(each.summary);
  }, 5000);
  const end = stream("/jobs", {
    begin: () => { rows.clear(); body.replaceChildren(); },
    rows: onRows,
  }, report);
  return () => { clearInterval(ageing); end(); };
}

/** @param {string} title */
function classOf(title) {
  const number = ["Ready", "Restarts", "Age"].includes(title) ? "number" : "";
  return `${number} ${["Namespace", "Restarts", "Kind"].includes(title) ? "optional" : ""}`.trim();
}

/** @param {Summary} summary */
function ageOf(summary) {
  const then = seconds(summary.createdAt);
  return then === null ? "" : ageText(Date.now() / 1000 - then);
}

/**
 * @param {string} key
 * @param {Summary} summary
 */
function rowOf(key, summary) {
  const why = SELF_EVIDENT.has(summary.phase) ? summary.warning : [summary.reason, summary.message].filter(Boolean).join(": ");
  const age = element("td", { class: "number" }, ageOf(summary));
  const address = `#/job/${key.split("/").map(encodeURIComponent).join("/")}`;
  const row = element("tr", { "data-key": key },
    element("td", {}, state(summary.phase, toneOf(summary.phase))),
    element("td", { class: "name" }, element("a", { href: address }, summary.name)),
    element("td", { class: "optional" }, summary.kind),
    element("td", { class: "optional" }, summary.namespace),
    element("td", { class: "number" }, summary.endedAt ? "–" : `${summary.ready}/${summary.desired}`),
    element("td", { class: "number optional" }, summary.restarts),
    age,
    element("td", { class: "why" }, why),
  );
  const text = `${summary.name} ${summary.namespace} ${summary.kind} ${summary.phase}`.toLowerCase();
  return { row, summary, age, text };
}
