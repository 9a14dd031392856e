// What pods use, as words and two small curves: processors and memory.

import { element } from "./format.js";
import { piecesOfCourse } from "./usage.js";

/**
 * @typedef {import("./usage.js").Usage} Usage
 * @typedef {import("./usage.js").Course} Course
 */

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 48, HEIGHT = 16;
const CURVES = /** @type {[("cpu" | "memory"), string][]} */ ([["cpu", "CPU"], ["memory", "memory"]]);

/**
 * Show in an element what pods use: nothing if none of them was ever measured.
 * @param {HTMLElement} place
 * @param {Usage} usage
 * @param {string[]} uids
 */
export function showUsage(place, usage, uids) {
  const course = usage.courseOf(uids);
  const words = usage.wordsOf(uids);
  place.hidden = words === null && (course === null || course.cpu.at.length < 2);
  place.replaceChildren(...(place.hidden ? [] : CURVES).map(([part, name]) => {
    const text = words ? words[part] : "";
    return element("span", { class: "use", title: `${name}: ${text || "not measured any more"}` }, course && curve(course[part], name), element("span", { class: "words" }, text));
  }));
}

/**
 * @param {Course} course
 * @param {string} name
 */
function curve(course, name) {
  const svg = document.createElementNS(SVG, "svg");
  const values = course.value.filter((each) => each !== null);
  for (const [key, value] of Object.entries({ width: WIDTH, height: HEIGHT, role: "img", "aria-label": `${name} over time`, class: "spark" })) svg.setAttribute(key, String(value));
  if (course.at.length > 1) {
    for (const piece of piecesOfCourse(course, Math.max(...values), WIDTH, HEIGHT - 2)) {
      const line = document.createElementNS(SVG, "polyline");
      line.setAttribute("points", piece.map(([x, y]) => `${x},${y + 1}`).join(" "));
      svg.append(line);
    }
  }
  return svg;
}
