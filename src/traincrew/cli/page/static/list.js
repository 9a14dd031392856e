// The list of jobs. What is chosen of it stands in the address, so that Back and a bookmark restore it.

import { age as ageText, arrange, count, element, seconds, throttled } from "./format.js";
import { copying } from "./head.js";
import { stream } from "./session.js";
import { PHASES, state, toneOfPhase } from "./states.js";

/**
 * @typedef {{kind: string, namespace: string, name: string, phase: string, ready: number, desired: number,
 *   restarts: number, percentage: number | null, createdAt: string, startedAt: string | null, endedAt: string | null, reason: string,
 *   message: string, warning: string}} Summary
 * @typedef {{row: HTMLElement, summary: Summary, age: HTMLElement, text: string}} Shown
 * @typedef {{phase: string, kind: string, namespace: string, text: string, sort: string}} Choice
 */

const SELF_EVIDENT = new Set(["Running", "Succeeded"]);
const ORDER = Object.keys(PHASES);
const NEWEST = "Age";
/** How a column is sorted; titles without one are not. */
const SORTS = /** @type {Record<string, (a: Summary, b: Summary) => number>} */ ({
  Phase: (a, b) => ORDER.indexOf(a.phase) - ORDER.indexOf(b.phase),
  Job: (a, b) => a.name.localeCompare(b.name),
  Kind: (a, b) => a.kind.localeCompare(b.kind),
  Namespace: (a, b) => a.namespace.localeCompare(b.namespace),
  Progress: (a, b) => (b.percentage ?? -1) - (a.percentage ?? -1),
  Ready: (a, b) => b.ready - a.ready,
  Restarts: (a, b) => b.restarts - a.restarts,
  [NEWEST]: (a, b) => b.createdAt.localeCompare(a.createdAt),
});
const COLUMNS = ["Phase", "Job", "Kind", "Namespace", "Progress", "Ready", "Restarts", NEWEST, "What to know"];
const NUMBERS = new Set(["Ready", "Restarts", NEWEST]);
const OPTIONAL = new Set(["Kind", "Namespace", "Restarts", "Progress"]);
const FIELDS = /** @type {(keyof Choice)[]} */ (["phase", "kind", "namespace", "text", "sort"]);

/**
 * Return what the address chooses of the list.
 * @param {string} hash such as `#/?phase=Failed&sort=Job`
 * @returns {Choice}
 */
function choiceOf(hash) {
  const given = new URLSearchParams(hash.split("?")[1] ?? "");
  const choice = { phase: "", kind: "", namespace: "", text: "", sort: "" };
  for (const field of FIELDS) choice[field] = given.get(field) ?? "";
  return choice;
}

/**
 * Return the address of a choice.
 * @param {Choice} choice
 */
function addressOf(choice) {
  const given = FIELDS.filter((field) => choice[field] !== "").map((field) => `${field}=${encodeURIComponent(choice[field])}`);
  return given.length ? `#/?${given.join("&")}` : "#/";
}

/**
 * Show the list; return how to leave it.
 * @param {HTMLElement} place
 * @param {(problem: string) => void} report
 */
export function showList(place, report) {
  const list = new List();
  place.append(...list.parts);
  const ageing = setInterval(() => list.grow(), 5000);
  const end = stream("/jobs", {
    begin: () => list.clear(),
    rows: (/** @type {{changed: Record<string, Summary>, removed: string[], problems: string[]}} */ content) => list.change(content),
  }, report);
  return () => { clearInterval(ageing); end(); };
}

class List {
  constructor() {
    /** @type {Map<string, Shown>} */
    this.rows = new Map();
    /** @type {Map<string, HTMLElement>} */
    this.buttons = new Map();
    this.choice = choiceOf(location.hash);
    this.body = element("tbody");
    this.count = element("span", { class: "faint", role: "status" });
    this.problems = element("div");
    this.empty = element("div", { class: "empty", hidden: "" }, element("p", {}, "No jobs yet. Create one:"),
      copying("traincrew run -f JOB.yaml"), " or ", copying("kubectl create -f JOB.yaml"));
    this.chips = element("div", { class: "states", role: "group", "aria-label": "Jobs by phase" });
    this.kind = this.menu("kind", "All kinds");
    this.namespace = this.menu("namespace", "All namespaces");
    this.search = /** @type {HTMLInputElement} */ (element("input", {
      type: "search", placeholder: "Filter: name, namespace, kind, phase   ( / )", "aria-label": "Filter",
      "data-shortcut": "/", oninput: () => this.choose("text", this.search.value),
    }));
    this.search.value = this.choice.text;
    this.headers = new Map(COLUMNS.map((title) => [title, this.header(title)]));
    this.parts = [
      element("h1", { class: "visually-hidden" }, "Jobs"),
      element("div", { class: "tools" }, this.chips, this.kind, this.namespace, this.search, this.count), this.problems, this.empty,
      element("div", { class: "scroll" }, element("table", { class: "jobs" }, element("thead", {}, element("tr", {}, ...this.headers.values())), this.body)),
    ];
    this.orderSoon = throttled(() => this.order(), 100);
    this.drawMenusSoon = throttled(() => this.drawMenus(), 250);
    this.markSort();
  }

  /**
   * @param {"kind" | "namespace"} field
   * @param {string} all what choosing nothing is called
   */
  menu(field, all) {
    const made = /** @type {HTMLSelectElement} */ (element("select", { "aria-label": all, "data-all": all, onchange: () => this.choose(field, made.value) }));
    return made;
  }

  /** @param {string} title */
  header(title) {
    const classes = `${NUMBERS.has(title) ? "number" : ""} ${OPTIONAL.has(title) ? "optional" : ""}`.trim();
    const content = SORTS[title] ? element("button", { type: "button", onclick: () => this.choose("sort", title === NEWEST ? "" : title) }, title) : title;
    return element("th", { scope: "col", class: classes }, content);
  }

  markSort() {
    const sorted = this.choice.sort || NEWEST;
    for (const [title, header] of this.headers) {
      if (title === sorted) header.setAttribute("aria-sort", title === NEWEST ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    }
  }

  /**
   * @param {keyof Choice} field
   * @param {string} value
   */
  choose(field, value) {
    this.choice[field] = value;
    // What is typed is one step of the history, not one for each letter.
    history[field === "text" ? "replaceState" : "pushState"](null, "", addressOf(this.choice));
    this.markSort();
    this.order();
    this.filter();
  }

  clear() {
    this.rows.clear();
    this.body.replaceChildren();
  }

  /** Time has passed. */
  grow() {
    for (const each of this.rows.values()) each.age.textContent = ageOf(each.summary);
  }

  /** @param {{changed: Record<string, Summary>, removed: string[], problems: string[]}} content */
  change(content) {
    for (const key of content.removed) {
      this.rows.get(key)?.row.remove();
      this.rows.delete(key);
    }
    const first = this.rows.size === 0;
    for (const [key, summary] of Object.entries(content.changed)) {
      const known = this.rows.get(key);
      const made = rowOf(key, summary);
      const focused = known?.row.contains(document.activeElement);
      if (known) known.row.replaceWith(made.row);
      if (focused) made.row.querySelector("a")?.focus();
      this.rows.set(key, made);
    }
    this.problems.replaceChildren(...content.problems.map((text) => element("p", { class: "problem" }, text)));
    if (first) this.order(); else this.orderSoon();
    this.filter();
  }

  /** By the column that is chosen; then the newest first; of the same time, by name. */
  order() {
    const chosen = SORTS[this.choice.sort] ?? (() => 0);
    const newest = /** @type {(a: Summary, b: Summary) => number} */ (SORTS[NEWEST]);
    const sorted = [...this.rows.values()].sort(({ summary: a }, { summary: b }) => chosen(a, b) || newest(a, b) || a.name.localeCompare(b.name));
    arrange(this.body, sorted.map(({ row }) => row));
  }

  filter() {
    const { phase, kind, namespace, text: wanted } = this.choice;
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { row, summary, text } of this.rows.values()) {
      row.hidden = !words.every((word) => text.includes(word)) || Boolean(phase && summary.phase !== phase)
        || Boolean(kind && summary.kind !== kind) || Boolean(namespace && summary.namespace !== namespace);
      if (!row.hidden) shown += 1;
    }
    const all = `${count(this.rows.size)} ${this.rows.size === 1 ? "job" : "jobs"}`;
    this.count.textContent = shown < this.rows.size ? `${count(shown)} of ${all}` : all;
    this.empty.hidden = this.rows.size > 0;
    this.drawMenusSoon();
  }

  /**
   * Return the button of a phase, the same each time: it keeps the focus, and a click that has begun.
   * @param {string} phase
   * @param {number} number
   */
  chip(phase, number) {
    const made = this.buttons.get(phase) ?? element("button", {
      type: "button", "data-phase": phase, onclick: () => this.choose("phase", this.choice.phase === phase ? "" : phase),
    });
    this.buttons.set(phase, made);
    made.setAttribute("aria-pressed", String(this.choice.phase === phase));
    const text = `${phase} ${count(number)}`;
    if (made.textContent !== text) made.replaceChildren(state(text, toneOfPhase(phase)));
    return made;
  }

  drawMenus() {
    const jobs = [...this.rows.values()].map(({ summary }) => summary);
    const phases = counted(jobs.map(({ phase }) => phase));
    if (this.choice.phase && !phases.has(this.choice.phase)) phases.set(this.choice.phase, 0);
    const sorted = [...phases].sort(([a], [b]) => ORDER.indexOf(a) - ORDER.indexOf(b));
    arrange(this.chips, sorted.map(([phase, number]) => this.chip(phase, number)));
    offer(this.kind, counted(jobs.map(({ kind }) => kind)), this.choice.kind);
    offer(this.namespace, counted(jobs.map(({ namespace }) => namespace)), this.choice.namespace);
  }
}

/** @param {string[]} values */
function counted(values) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const value of values) found.set(value, (found.get(value) ?? 0) + 1);
  return found;
}

/**
 * Offer values in a menu; one that has nothing to choose from is hidden.
 * @param {HTMLSelectElement} menu
 * @param {Map<string, number>} values
 * @param {string} chosen
 */
function offer(menu, values, chosen) {
  const names = [...new Set([...values.keys(), ...(chosen ? [chosen] : [])])].sort();
  menu.hidden = names.length < 2 && !chosen;
  const known = [...menu.options].slice(1).map(({ value }) => value);
  if (!menu.options.length || known.join("\n") !== names.join("\n")) {
    menu.replaceChildren(element("option", { value: "" }, menu.dataset["all"]), ...names.map((name) => element("option", { value: name }, name)));
  }
  menu.value = chosen;
}

/** @param {Summary} summary */
function ageOf(summary) {
  const then = seconds(summary.createdAt);
  return then === null ? "" : ageText(Date.now() / 1000 - then);
}

/**
 * Return why a job is in a state that does not speak for itself.
 * @param {Summary} summary
 */
function knownOf({ phase, reason, message, warning }) {
  if (SELF_EVIDENT.has(phase)) return warning;
  return [reason, message].filter(Boolean).join(": ");
}

/**
 * @param {string} key
 * @param {Summary} summary
 * @returns {Shown}
 */
function rowOf(key, summary) {
  const why = knownOf(summary);
  const age = element("td", { class: "number" }, ageOf(summary));
  const address = `#/job/${key.split("/").map(encodeURIComponent).join("/")}`;
  const { percentage } = summary;
  const progress = percentage === null ? [] : [
    element("progress", { class: toneOfPhase(summary.phase), value: String(percentage), max: "100", "aria-label": `${percentage} % done` }), element("span", { class: "number" }, `${percentage} %`)];
  const row = element("tr", { "data-key": key },
    element("td", {}, state(summary.phase, toneOfPhase(summary.phase))),
    element("td", { class: "name" }, element("a", { href: address }, summary.name)),
    element("td", { class: "optional" }, summary.kind),
    element("td", { class: "optional" }, summary.namespace),
    element("td", { class: "optional" }, element("div", { class: "progress-cell" }, ...progress)),
    element("td", { class: "number" }, summary.endedAt ? "–" : `${summary.ready}/${summary.desired}`),
    element("td", { class: "number optional" }, summary.restarts || ""),
    age,
    element("td", { class: "why" }, element("div", { class: "clipped", title: why }, why)),
  );
  const text = `${summary.name} ${summary.namespace} ${summary.kind} ${summary.phase}`.toLowerCase();
  return { row, summary, age, text };
}
