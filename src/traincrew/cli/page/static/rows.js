// What list and timeline show of a pod, prepared once, when the server sends it. Nothing here draws.

import { count, seconds } from "./format.js";
import { LEVELS } from "./shared.js";

/**
 * @typedef {{startedAt: string, endedAt: string | null, exitCode: number | null, stopped: boolean}} Run
 * @typedef {{createdAt: string, scheduledAt: string | null, readyAt: string | null, goneAt: string | null,
 *   runs: Run[]}} Life
 * @typedef {{name: string, uid: string, rank: number, attempt: number, node: string, state: string,
 *   detail: string, tone: string, ready: boolean, restarts: number, behind: string}} Pod
 * @typedef {{role: string, pod: Pod, life: Life, level: number, sign: import("./shared.js").Tone}} PodRow as the server
 *   sends it; `level` is how soon somebody should look at the pod, the smallest is first
 * @typedef {{created: number | null, scheduled: number | null, ready: number | null, ended: number | null,
 *   runs: {from: number | null, to: number | null, exitCode: number | null, stopped: boolean}[]}} Times in seconds since 1970
 * @typedef {PodRow & {times: Times, text: string}} Row
 */

export const RESTARTED = "restarted";
export const BEHIND = "behind";
/** The level of the pod that explains why its job has failed. */
export const EXPLAINS = LEVELS.explains;

/**
 * Prepare a pod once, instead of each time when it is drawn.
 * @param {PodRow} row
 * @returns {Row}
 */
export function prepared(row) {
  const { role, pod, life } = row;
  const text = [pod.name, role, labelOf(row), pod.node, pod.state, pod.restarts ? RESTARTED : "", pod.behind ? BEHIND : ""].join(" ").toLowerCase();
  return { ...row, times: timesOf(life), text };
}

/**
 * @param {Row} a
 * @param {Row} b
 */
export function byPlace(a, b) {
  return a.role.localeCompare(b.role) || a.pod.rank - b.pod.rank || a.pod.attempt - b.pod.attempt;
}

/** @param {PodRow} row */
export function labelOf({ role, pod }) {
  return `${role} ${pod.rank}${pod.attempt > 1 ? ` (attempt ${pod.attempt})` : ""}`;
}

/**
 * Return the times of a life, so that they are read once.
 * @param {Life} life
 * @returns {Times}
 */
export function timesOf(life) {
  const runs = life.runs.map((run) => ({ from: seconds(run.startedAt), to: seconds(run.endedAt), exitCode: run.exitCode, stopped: run.stopped }));
  return {
    created: seconds(life.createdAt), scheduled: seconds(life.scheduledAt), ready: seconds(life.readyAt),
    ended: seconds(life.goneAt) ?? runs[runs.length - 1]?.to ?? null, runs,
  };
}

/** @param {Pod} pod */
export function restartsOf({ restarts }) {
  return restarts ? `${count(restarts)} ${restarts === 1 ? "restart" : "restarts"}` : "";
}
