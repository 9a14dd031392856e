// One sign, one colour and one word for each state of a job or a pod: in the list, the header, the pods and the timeline.

import { element } from "./format.js";

/**
 * @typedef {"run" | "good" | "bad" | "wait" | "again" | "held" | "plain"} Tone the class that has the colour
 */

/** Told apart without colour, too. */
export const SIGNS = /** @type {Record<Tone, string>} */ ({
  run: "▶", good: "✓", bad: "✕", wait: "◌", again: "↻", held: "‖", plain: "○",
});
/** The same for small pods in a row, of which most run. */
export const DOTS = { ...SIGNS, run: "■" };
/** The phases of jobs, those first that somebody should look at. */
export const PHASES = /** @type {Record<string, Tone>} */ ({
  Failed: "bad", Pending: "wait", Created: "wait", Restarting: "again", Running: "run", Suspended: "held", Succeeded: "good", Deleted: "plain",
});
const OF_PODS = /** @type {Record<string, Tone>} */ ({ good: "good", bad: "bad", busy: "wait" });
const ENDED_WELL = "finished";

/**
 * Return the tone of a job's phase.
 * @param {string} phase
 * @returns {Tone}
 */
export function toneOfPhase(phase) {
  return PHASES[phase] ?? "plain";
}

/**
 * Return the tone of a pod. One that is only running is not well if the others wait for it.
 * @param {{tone: string, state: string, behind: string}} pod
 * @returns {Tone}
 */
export function toneOfPod(pod) {
  if (pod.tone === "good" && pod.state !== ENDED_WELL) return pod.behind ? "again" : "run";
  return OF_PODS[pod.tone] ?? "plain";
}

/**
 * Return a state with its colour and sign.
 * @param {string} text
 * @param {Tone} tone
 */
export function state(text, tone) {
  return element("span", { class: `state ${tone}`, "data-sign": SIGNS[tone] }, text);
}
