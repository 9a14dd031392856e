// Several jobs compared: one metric of all of them in one diagram. What is chosen stands in the address.

import { Chart, COLOURS } from "./chart.js";
import { anyCounts, comparedOf, labelsOf, metricsOf, valueAt } from "./comparing.js";
import { element, number, throttled } from "./format.js";
import { bestOf } from "./points.js";
import { compareAddress, MOST_COMPARED } from "./selection.js";
import { stream } from "./session.js";
import { state } from "./states.js";
import { DELETED } from "./shared.js";

/**
 * @typedef {import("./points.js").Series} Series
 * @typedef {import("./comparing.js").Axis} Axis
 * @typedef {import("./comparing.js").Compared} Compared
 * @typedef {{row: HTMLElement, phase: HTMLElement, at: HTMLElement, best: HTMLElement, note: HTMLElement}} LegendRow
 */

const AXES = /** @type {Axis[]} */ (["step", "time"]);

/**
 * Show a comparison; return how to leave it.
 * @param {HTMLElement} place
 * @param {(problem: string) => void} report
 */
export function showCompare(place, report) {
  document.title = "Compare \u00b7 traincrew";
  const given = new URLSearchParams(location.hash.split("?")[1] ?? "");
  const keys = [...new Set(given.getAll("job"))].slice(0, MOST_COMPARED);
  if (!keys.length) {
    place.append(element("h1", {}, "Compare jobs"), element("p", { class: "empty" }, "No jobs are chosen. ", element("a", { href: "#/" }, "Select some in the list.")));
    return () => {};
  }
  const view = new Comparison(keys, given);
  place.append(...view.parts);
  const path = `/compare?${new URLSearchParams(keys.map((key) => ["job", key]))}`;
  const end = stream(path, {
    begin: () => view.clear(),
    compared: (/** @type {any} */ content) => view.setState(content),
    series: (/** @type {any} */ content) => view.add(content),
  }, report);
  return () => { view.leave(); end(); };
}

class Comparison {
  /**
   * @param {string[]} keys KIND.GROUP/NAMESPACE/NAME
   * @param {URLSearchParams} given
   */
  constructor(keys, given) {
    this.keys = keys;
    this.labels = labelsOf(keys);
    this.metric = given.get("metric") ?? "";
    this.axis = /** @type {Axis | null} */ (AXES.find((axis) => axis === given.get("axis")) ?? null);
    /** @type {Series[][]} */
    this.series = keys.map(() => []);
    /** @type {Compared[]} */
    this.compared = [];
    this.chart = new Chart("");
    this.chart.pointed = (x) => this.drawValues(x);
    this.chart.setLarge(true);
    this.chart.enlarge.hidden = true;
    this.chart.place.classList.add("compared");
    this.menu = /** @type {HTMLSelectElement} */ (element("select", { "aria-label": "Metric", onchange: () => { this.metric = this.menu.value; this.choose(); } }));
    this.axes = AXES.map((axis) => element("button", { type: "button", onclick: () => { this.axis = axis; this.choose(); } }, axis));
    this.none = element("p", { class: "faint card" }, "No metrics yet.");
    this.where = element("th", { scope: "col", class: "number" }, "Last");
    this.rows = keys.map((key, index) => this.row(key, index));
    this.problems = element("div");
    /** @type {string[][]} problems of each job */
    this.said = keys.map(() => []);
    const back = `#/?${new URLSearchParams(keys.map((key) => ["job", key]))}`;
    this.parts = [
      element("nav", { class: "path faint", "aria-label": "Where this is" }, element("a", { href: back }, "\u2190 All jobs")),
      element("h1", {}, keys.length === 1 ? "1 job" : `${keys.length} jobs compared`),
      element("div", { class: "tools" }, this.menu, element("div", { class: "choice", role: "group", "aria-label": "Horizontal axis" }, ...this.axes)),
      this.problems, this.none, this.chart.place,
      element("table", { class: "legend" }, element("thead", {}, element("tr", {},
        element("th", { scope: "col" }, "Job"), element("th", { scope: "col" }, "Phase"), this.where,
        element("th", { scope: "col", class: "number optional" }, "Best"), element("th", { scope: "col" }, "Values of"))),
      element("tbody", {}, ...this.rows.map(({ row }) => row))),
    ];
    this.draw = throttled(() => this.drawNow(), 150);
    this.onTheme = () => { this.chart.clear(); this.draw(); };
    window.addEventListener("themechange", this.onTheme);
    this.draw();
  }

  /**
   * @param {string} key
   * @param {number} index
   * @returns {LegendRow}
   */
  row(key, index) {
    const colour = element("i", { class: "key" });
    colour.style.background = COLOURS[index] ?? "";
    const phase = element("td"), at = element("td", { class: "number" }), best = element("td", { class: "number optional" }), note = element("td", { class: "faint pod" });
    const link = element("a", { href: `#/job/${key.split("/").map(encodeURIComponent).join("/")}` }, this.labels[index]);
    return { row: element("tr", { "data-key": key }, element("td", { class: "name" }, colour, link), phase, at, best, note), phase, at, best, note };
  }

  choose() {
    history.pushState(null, "", compareAddress(this.keys, { metric: this.metric, axis: this.axis ?? "" }));
    this.drawNow();
  }

  clear() {
    this.series = this.keys.map(() => []);
    this.draw();
  }

  leave() {
    window.removeEventListener("themechange", this.onTheme);
    this.chart.clear();
  }

  /** @param {{job: number, exists: boolean | null, phase: string | null, sign: import("./shared.js").Tone, problems: string[]}} content */
  setState({ job, exists, phase, sign, problems }) {
    const word = exists === false ? (phase === null ? "absent" : DELETED) : phase ?? "\u2026";
    this.rows[job]?.phase.replaceChildren(state(word, sign));
    this.said[job] = problems;
    this.problems.replaceChildren(...[...new Set(this.said.flat())].map((text) => element("p", { class: "problem" }, text)));
  }

  /** @param {{job: number, again: boolean, names: [string, string][], points: [number, number, number][]}} content */
  add({ job, again, names, points }) {
    const series = again ? [] : this.series[job] ?? [];
    this.series[job] = series;
    for (const [metric, source] of names) series.push({ metric, source, at: [], value: [] });
    for (const [at, index, value] of points) {
      const own = series[index];
      if (!own) continue;
      const last = own.at[own.at.length - 1];
      own.at.push(last !== undefined && at <= last ? last + 0.001 : at); // uPlot needs times that grow
      own.value.push(value);
    }
    this.draw();
  }

  drawNow() {
    const metrics = metricsOf(this.series);
    if (this.metric && !metrics.includes(this.metric)) metrics.push(this.metric); // what the address has may come later
    const metric = this.metric || metrics[0] || "";
    const counted = anyCounts(this.series);
    const axis = this.axis ?? (counted ? "step" : "time");
    this.axes.forEach((button, index) => button.setAttribute("aria-pressed", String(AXES[index] === axis)));
    if ([...this.menu.options].map(({ value }) => value).join("\n") !== metrics.join("\n")) {
      this.menu.replaceChildren(...metrics.map((name) => element("option", { value: name }, name)));
    }
    this.menu.value = metric;
    this.menu.hidden = metrics.length === 0;
    this.none.hidden = metrics.length > 0;
    this.chart.place.hidden = metrics.length === 0;
    this.compared = this.series.map((series, index) => comparedOf(series, metric, axis, this.labels[index] ?? ""));
    const drawn = this.compared.flatMap(({ line }, index) => (line ? [{ line, colour: COLOURS[index] ?? "" }] : []));
    this.chart.rename(metric);
    this.chart.colours = drawn.map(({ colour }) => colour);
    this.chart.draw(drawn.map(({ line }) => line), [], { axis, smooth: false, logarithmic: false });
    this.drawValues(null);
  }

  /**
   * Show the values at a place of the axis, or the last ones.
   * @param {number | null} x
   */
  drawValues(x) {
    this.where.textContent = x === null ? "Last" : this.chart.placeText(x);
    this.compared.forEach(({ line, pod, others, why }, index) => {
      const row = this.rows[index];
      if (!row) return;
      const value = !line ? null : x === null ? line.y[line.y.length - 1] ?? null : valueAt(line, x);
      row.at.textContent = value === null ? "" : number(value);
      const best = line ? bestOf(this.chart.metric, [line]) : null;
      row.best.textContent = best ? `${number(best.value)} at ${this.chart.placeText(best.x)}` : "";
      row.note.textContent = why || `${pod}${others ? ` and ${others} more` : ""}`;
    });
  }
}
