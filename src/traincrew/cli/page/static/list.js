// The list of jobs. What is chosen of it stands in the address, so that Back and a bookmark restore it.

import { arrange, count, element, throttled } from "./format.js";
import { copying } from "./head.js";
import { ageOf, rowOf, shownOf } from "./jobrow.js";
import { Selection } from "./selection.js";
import { firstJob, stream } from "./session.js";
import { state } from "./states.js";
import { DELETED, SIGNS } from "./shared.js";

/**
 * @typedef {import("./jobrow.js").JobRow} JobRow
 * @typedef {import("./jobrow.js").Shown} Shown
 * @typedef {import("./shared.js").Tone} Tone
 * @typedef {{phase: string, kind: string, namespace: string, text: string, sort: string}} Choice
 */

/** A row is at least so high, in pixels. */
const LOWEST = 30;
/** Rows that are not on the first screen are drawn so long at once, in milliseconds: a frame has 16. */
const SLICE = 8;
const ORDER = Object.keys(SIGNS);
const NEWEST = "Age";
/** How a column is sorted; titles without one are not. */
const SORTS = /** @type {Record<string, (a: Shown, b: Shown) => number>} */ ({
  Phase: (a, b) => ORDER.indexOf(a.sign) - ORDER.indexOf(b.sign) || a.phase.localeCompare(b.phase),
  Job: (a, b) => a.job.name.localeCompare(b.job.name),
  Kind: (a, b) => a.job.kind.localeCompare(b.job.kind),
  Namespace: (a, b) => a.job.namespace.localeCompare(b.job.namespace),
  Progress: (a, b) => (b.job.percentage ?? -1) - (a.job.percentage ?? -1),
  Pods: (a, b) => b.job.desired - a.job.desired,
  Restarts: (a, b) => b.job.restarts - a.job.restarts,
  [NEWEST]: (a, b) => b.job.createdAt.localeCompare(a.job.createdAt),
});
const SELECT = "Select";
const COLUMNS = [SELECT, "Phase", "Job", "Kind", "Namespace", "Progress", "Metric", "Pods", "Restarts", NEWEST, "What to know"];
const NUMBERS = new Set(["Restarts", NEWEST]);
const OPTIONAL = new Set(["Kind", "Namespace", "Restarts"]);
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
 * @param {string[]} selected keys of jobs
 */
function addressOf(choice, selected) {
  const given = [...FIELDS.filter((field) => choice[field] !== "").map((field) => `${field}=${encodeURIComponent(choice[field])}`),
    ...selected.map((key) => `job=${encodeURIComponent(key)}`)];
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
    rows: (/** @type {{changed: Record<string, JobRow>, removed: string[], problems: string[]}} */ content) => list.change(content),
  }, report);
  return () => { clearInterval(ageing); end(); list.clear(); };
}

class List {
  constructor() {
    /** @type {Map<string, Shown>} */
    this.rows = new Map();
    /** @type {[string, Shown][]} the rows in their order */
    this.sorted = [];
    this.drawing = false;
    /** @type {Map<string, HTMLElement>} */
    this.buttons = new Map();
    this.choice = choiceOf(location.hash);
    this.selection = new Selection(new URLSearchParams(location.hash.split("?")[1] ?? "").getAll("job"),
      () => history.replaceState(null, "", addressOf(this.choice, [...this.selection.keys])));
    this.body = element("tbody");
    this.count = element("span", { class: "faint", role: "status" });
    this.problems = element("div");
    this.empty = element("div", { class: "empty", hidden: "" }, element("p", {}, firstJob() ? "No jobs yet. This creates one here; click to copy it:" : "No jobs yet."),
      firstJob() && copying(firstJob()));
    this.chips = element("div", { class: "states", role: "group", "aria-label": "Jobs by phase" });
    this.kind = this.menu("kind", "All kinds");
    this.namespace = this.menu("namespace", "All namespaces");
    this.search = /** @type {HTMLInputElement} */ (element("input", {
      type: "search", placeholder: "Filter: name, namespace, kind, phase   ( / )", "aria-label": "Filter",
      "data-shortcut": "/", oninput: () => this.choose("text", this.search.value),
    }));
    this.search.value = this.choice.text;
    this.headers = new Map(COLUMNS.map((title) => [title, this.header(title)]));
    this.table = element("table", { class: "jobs" }, element("thead", {}, element("tr", {}, ...this.headers.values())), this.body);
    this.parts = [
      element("h1", { class: "visually-hidden" }, "Jobs"),
      element("div", { class: "tools" }, this.chips, this.kind, this.namespace, this.search, this.count), this.problems, this.empty,
      element("div", { class: "scroll" }, this.table), this.selection.place,
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
    const classes = `${NUMBERS.has(title) ? "number" : ""} ${OPTIONAL.has(title) ? "optional" : ""} ${title.toLowerCase().replaceAll(" ", "-")}`.trim();
    if (title === SELECT) return element("th", { scope: "col", class: "select" }, element("span", { class: "visually-hidden" }, title));
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
    history[field === "text" ? "replaceState" : "pushState"](null, "", addressOf(this.choice, [...this.selection.keys]));
    this.markSort();
    this.filter();
    this.order();
  }

  clear() {
    this.rows.clear();
    this.sorted = [];
    this.body.replaceChildren();
  }

  /** Time has passed. */
  grow() {
    for (const { job, drawn } of this.rows.values()) if (drawn) drawn.age.textContent = ageOf(job);
  }

  /** @param {{changed: Record<string, JobRow>, removed: string[], problems: string[]}} content */
  change(content) {
    for (const key of content.removed) {
      this.rows.get(key)?.drawn?.row.remove();
      this.rows.delete(key);
      this.selection.forget(key);
    }
    const first = this.rows.size === 0;
    for (const [key, changed] of Object.entries(content.changed)) {
      const made = shownOf(changed), before = this.rows.get(key)?.drawn;
      this.rows.set(key, made);
      if (!before) continue;
      const focused = before.row.contains(document.activeElement) ? document.activeElement : null;
      const { row } = this.drawn(key, made);
      before.row.replaceWith(row);
      if (focused) row.querySelector(focused instanceof HTMLInputElement ? "input" : "a")?.focus();
    }
    this.problems.replaceChildren(...content.problems.map((text) => element("p", { class: "problem" }, text)));
    this.filter();
    if (first) { this.order(); this.drawMenus(); } else this.orderSoon();
  }

  /** By the column that is chosen; then the newest first; of the same time, by name. */
  order() {
    const chosen = SORTS[this.choice.sort] ?? (() => 0);
    const newest = /** @type {(a: Shown, b: Shown) => number} */ (SORTS[NEWEST]);
    this.sorted = [...this.rows].sort(([, a], [, b]) => chosen(a, b) || newest(a, b) || a.job.name.localeCompare(b.job.name));
    this.draw(Math.ceil(innerHeight / LOWEST), 0);
  }

  /**
   * Draw the first rows, and after the next frame more of them: all at once would keep the first screen waiting.
   * @param {number} least how many of those that are shown are drawn in any case
   * @param {number} milliseconds for how long more of them are drawn
   */
  draw(least, milliseconds) {
    const end = performance.now() + milliseconds;
    let there = 0, all = true;
    const rows = [];
    for (const [key, shown] of this.sorted) {
      if (!shown.drawn && (shown.hidden || there >= least && performance.now() >= end)) {
        all &&= shown.hidden;
        continue;
      }
      rows.push(this.drawn(key, shown).row);
      if (!shown.hidden) there += 1;
    }
    arrange(this.body, rows);
    if (all || this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => setTimeout(() => { this.drawing = false; this.draw(0, SLICE); }));
  }

  /**
   * Return the row of a job, which is drawn once.
   * @param {string} key
   * @param {Shown} shown
   */
  drawn(key, shown) {
    shown.drawn ??= rowOf(key, shown.content, this.selection.box(key, shown.job.name));
    shown.drawn.row.hidden = shown.hidden;
    return shown.drawn;
  }

  filter() {
    const { phase, kind, namespace, text: wanted } = this.choice;
    const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0, there = 0;
    for (const shownRow of this.rows.values()) {
      const { job, phase: own, text, drawn } = shownRow;
      const hidden = !words.every((word) => text.includes(word)) || Boolean(phase && own !== phase)
        || Boolean(kind && job.kind !== kind) || Boolean(namespace && job.namespace !== namespace);
      shownRow.hidden = hidden;
      if (drawn) drawn.row.hidden = hidden;
      if (own === DELETED) continue;
      there += 1;
      if (!hidden) shown += 1;
    }
    const all = `${count(there)} ${there === 1 ? "job" : "jobs"}`, deleted = this.rows.size - there;
    this.count.textContent = `${shown < there ? `${count(shown)} of ${all}` : all}${deleted ? `, ${count(deleted)} deleted` : ""}`;
    this.empty.hidden = this.rows.size > 0;
    this.table.hidden = this.rows.size === 0;
    this.drawMenusSoon();
  }

  /**
   * Return the button of a phase, the same each time: it keeps the focus, and a click that has begun.
   * @param {string} phase
   * @param {number} number
   * @param {Tone} tone
   */
  chip(phase, number, tone) {
    const made = this.buttons.get(phase) ?? element("button", {
      type: "button", "data-phase": phase, onclick: () => this.choose("phase", this.choice.phase === phase ? "" : phase),
    });
    this.buttons.set(phase, made);
    made.setAttribute("aria-pressed", String(this.choice.phase === phase));
    const text = `${phase} ${count(number)}`;
    if (made.textContent !== text || !made.querySelector(`.${tone}`)) made.replaceChildren(state(text, tone));
    return made;
  }

  drawMenus() {
    const shown = [...this.rows.values()], jobs = shown.map(({ job }) => job);
    const phases = counted(shown.map(({ phase }) => phase));
    if (this.choice.phase && !phases.has(this.choice.phase)) phases.set(this.choice.phase, 0);
    /** @type {Map<string, Tone>} of each phase; some kinds call both ends the same */
    const tones = new Map();
    for (const { phase, sign } of shown) tones.set(phase, (tones.get(phase) ?? sign) === sign ? sign : "plain");
    const placeOf = (/** @type {string} */ phase) => ORDER.indexOf(tones.get(phase) ?? "plain");
    const sorted = [...phases].sort(([a], [b]) => placeOf(a) - placeOf(b) || a.localeCompare(b));
    arrange(this.chips, sorted.map(([phase, number]) => this.chip(phase, number, tones.get(phase) ?? "plain")));
    // A column that says the same of all jobs has no room here.
    this.table.classList.toggle("one-namespace", new Set(jobs.map(({ namespace }) => namespace)).size < 2);
    this.table.classList.toggle("no-restarts", jobs.every(({ restarts }) => !restarts));
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
