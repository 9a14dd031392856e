// Whether a program has said nothing for longer than it usually does. Nothing here draws.
// Terminals have the same rule: display/quiet.py.

const KEPT = 200;
const FEWEST = 10;
/** Seconds that are never too long. */
const SHORTEST = 30;
/** How many times the usual pause is too long. */
const FACTOR = 10;
/** How many times the longest pause is too long. */
const LONGER = 2;
/** Seconds within which lines are written together, as the metrics of one step. */
const AT_ONCE = 0.1;
/** Seconds after the beginning in which lines may be old: the history of the log. */
const HISTORY = 2;
const MOST_DELAY = 10;

export class Quiet {
  constructor() {
    /** @type {number[]} times of the newest lines */
    this.times = [];
    this.began = 0;
    /** How far the clock of the cluster is behind the one of this browser, in seconds. */
    this.behind = 0;
  }

  /** @param {number} now in seconds since 1970 */
  clear(now) {
    this.times = [];
    this.began = now;
    this.behind = 0;
  }

  /**
   * @param {number[]} times of new lines
   * @param {number} now
   */
  note(times, now) {
    const last = times[times.length - 1];
    if (last === undefined) return;
    this.times = [...this.times, ...times.slice(-KEPT)].slice(-KEPT);
    const delay = now - last;
    if (delay < -1 || (delay > MOST_DELAY && now - this.began > HISTORY)) this.behind = delay;
  }

  /**
   * Return for how long nothing was said, and what the usual pause is; null if that is not long.
   * @param {number} now
   * @returns {{seconds: number, usual: number} | null}
   */
  since(now) {
    const { times } = this;
    const last = times[times.length - 1];
    if (last === undefined || times.length < FEWEST) return null;
    const gaps = times.slice(1).map((time, index) => time - /** @type {number} */ (times[index])).sort((a, b) => a - b);
    const apart = gaps.filter((gap) => gap >= AT_ONCE);
    const pauses = apart.length > 0 ? apart : gaps;
    const usual = /** @type {number} */ (pauses[pauses.length >> 1]);
    const longest = /** @type {number} */ (pauses[pauses.length - 1]);
    const seconds = now - last - this.behind;
    return seconds > Math.max(SHORTEST, FACTOR * usual, LONGER * longest) ? { seconds, usual } : null;
  }
}
