// One sign, one colour and one word for each state of a job or a pod: in the list, the header, the pods and the timeline.

import { element } from "./format.js";
import { SIGNS } from "./shared.js";

/** @typedef {import("./shared.js").Tone} Tone */

/** The same for small pods in a row, of which most run. */
export const DOTS = { ...SIGNS, run: "■" };

/**
 * Return a state with its colour and sign.
 * @param {string} text
 * @param {Tone} tone
 */
export function state(text, tone) {
  return element("span", { class: `state ${tone}`, "data-sign": SIGNS[tone] }, text);
}
