// What pods use of processors and memory over time: numbers, and the words for them. Nothing here draws.

/**
 * @typedef {{at: number[], value: (number | null)[]}} Course times in seconds since 1970; null where it was not measured
 * @typedef {[number | null, number | null]} Amounts thousandths of a processor, and KiB of memory; null if not limited
 * @typedef {{times: number[], pods: Record<string, [number[], number[]]>, latest: Record<string, Amounts>,
 *   limits: Record<string, Amounts>, problem: string}} All
 */

const CPU = 0, MEMORY = 1;
const UNITS = ["KiB", "MiB", "GiB", "TiB"];

export class Usage {
  constructor() {
    /** @type {number[]} */
    this.times = [];
    /** @type {Record<string, [number[], number[]]>} by the UID of the pod; a number below 0 was not measured */
    this.pods = {};
    /** @type {Record<string, Amounts>} what was measured last of the pods that run */
    this.latest = {};
    /** @type {Record<string, Amounts>} */
    this.limits = {};
    this.problem = "";
    this.at = 0;
  }

  clear() {
    this.set({ times: [], pods: {}, latest: {}, limits: {}, problem: "" });
  }

  /** @param {All} all */
  set({ times, pods, latest, limits, problem }) {
    Object.assign(this, { times, pods, latest, limits, problem, at: times[times.length - 1] ?? 0 });
  }

  /**
   * Add a measurement.
   * @param {{at: number, kept: boolean, latest: Record<string, Amounts>}} next
   */
  add({ at, kept, latest }) {
    this.latest = latest;
    this.at = at;
    if (!kept) return;
    for (const uid of Object.keys(latest)) this.pods[uid] ??= [this.times.map(() => -1), this.times.map(() => -1)];
    this.times.push(at);
    for (const [uid, curves] of Object.entries(this.pods)) {
      const now = latest[uid];
      curves[CPU].push(now?.[CPU] ?? -1);
      curves[MEMORY].push(now?.[MEMORY] ?? -1);
    }
  }

  /** Whether anything was measured. */
  any() {
    return this.times.length > 0;
  }

  /**
   * Return the course of what pods use, from the first to the last time at which one of them was measured.
   * @param {string[]} uids
   * @returns {{cpu: Course, memory: Course} | null} null if none of them was ever measured
   */
  courseOf(uids) {
    const own = uids.flatMap((uid) => this.pods[uid] ?? []);
    if (!own.length) return null;
    const measured = this.times.map((_, index) => uids.some((uid) => (this.pods[uid]?.[CPU][index] ?? -1) >= 0));
    const first = measured.indexOf(true), last = measured.lastIndexOf(true);
    if (first < 0) return null;
    const at = this.times.slice(first, last + 1);
    const [cpu, memory] = [CPU, MEMORY].map((part) => at.map((_, index) => this.sumAt(uids, part, first + index)));
    return { cpu: { at, value: cpu ?? [] }, memory: { at, value: memory ?? [] } };
  }

  /**
   * @param {string[]} uids
   * @param {number} part
   * @param {number} index of the time
   */
  sumAt(uids, part, index) {
    /** @type {number | null} */
    let sum = null;
    for (const uid of uids) {
      const value = this.pods[uid]?.[part]?.[index] ?? -1;
      if (value >= 0) sum = (sum ?? 0) + value;
    }
    return sum;
  }

  /**
   * Return what pods use now, in words: `1.9 cores` and `1.2 GiB of 4 GiB`; null if none of them was measured.
   * @param {string[]} uids
   * @returns {{cpu: string, memory: string} | null}
   */
  wordsOf(uids) {
    const measured = uids.filter((uid) => this.latest[uid]);
    if (!measured.length) return null;
    const [cpu, memory] = [CPU, MEMORY].map((part) => ({
      used: sumOf(measured.map((uid) => this.latest[uid]?.[part] ?? 0)) ?? 0,
      limit: sumOf(measured.map((uid) => this.limits[uid]?.[part] ?? null)),
    }));
    return { cpu: coresOf(cpu?.used ?? 0, cpu?.limit ?? null), memory: memoryOf(memory?.used ?? 0, memory?.limit ?? null) };
  }
}

/**
 * Return a sum; null if one of its parts is not known.
 * @param {(number | null)[]} parts
 */
function sumOf(parts) {
  let sum = 0;
  for (const part of parts) {
    if (part === null) return null;
    sum += part;
  }
  return sum;
}

/**
 * Return processors in words: `1.9 cores`, `0.05 of 2 cores`.
 * @param {number} thousandths
 * @param {number | null} limit
 */
export function coresOf(thousandths, limit) {
  const used = short(thousandths / 1000);
  if (limit === null) return `${used} ${used === "1" ? "core" : "cores"}`;
  const most = short(limit / 1000);
  return `${used} of ${most} ${most === "1" ? "core" : "cores"}`;
}

/**
 * Return an amount of memory in words: `1.2 GiB`, `1.2 GiB of 4 GiB`.
 * @param {number} kibibytes
 * @param {number | null} limit
 */
export function memoryOf(kibibytes, limit) {
  return limit === null ? bytes(kibibytes) : `${bytes(kibibytes)} of ${bytes(limit)}`;
}

/** @param {number} kibibytes */
function bytes(kibibytes) {
  let value = kibibytes, unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${short(value)} ${UNITS[unit]}`;
}

/**
 * Return a number with two digits, or as many as stand before its point.
 * @param {number} value
 */
function short(value) {
  if (value >= 10) return String(Math.round(value));
  return String(Number(value >= 1 ? value.toFixed(1) : value.toFixed(2)));
}

/**
 * Return the pieces of a small curve: numbers from 0 to `width` and 0 to `height`, the highest value on top; a gap ends a piece.
 * @param {Course} course
 * @param {number} highest the value on top
 * @param {number} width
 * @param {number} height
 * @returns {[number, number][][]}
 */
export function piecesOfCourse({ at, value }, highest, width, height) {
  const first = at[0] ?? 0, length = Math.max((at[at.length - 1] ?? 0) - first, 1e-9);
  /** @type {[number, number][][]} */
  const pieces = [[]];
  at.forEach((time, index) => {
    const one = value[index] ?? null;
    const last = /** @type {[number, number][]} */ (pieces[pieces.length - 1]);
    if (one !== null) last.push([tenth((time - first) / length * width), tenth(height * (1 - one / Math.max(highest, 1e-9)))]);
    else if (last.length) pieces.push([]);
  });
  return pieces.filter((piece) => piece.length);
}

/** @param {number} value */
function tenth(value) {
  return Math.round(value * 10) / 10;
}
