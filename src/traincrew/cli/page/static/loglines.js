// Lines of a log as rows on the screen: where they are wrapped, what is marked in them. Nothing here draws.

/** @typedef {import("./ansi.js").Styled} Styled */

/** Which rows each line has, when lines are wrapped; each row has the same height, so that only those in sight are drawn. */
export class Wrapped {
  /** @param {number} columns letters in a row; 0 does not wrap */
  constructor(columns) {
    this.columns = columns;
    /** @type {number[]} the first row of each line, if lines are wrapped */
    this.firsts = [];
    this.count = 0;
  }

  /** @param {number} length letters of the next line */
  add(length) {
    if (!this.columns) { this.count += 1; return; }
    this.firsts.push(this.count);
    this.count += Math.max(1, Math.ceil(length / this.columns));
  }

  /**
   * Return the line of a row, and which of its letters stand there.
   * @param {number} row
   * @returns {{line: number, from: number, to: number}}
   */
  at(row) {
    if (!this.columns) return { line: row, from: 0, to: Infinity };
    let low = 0, high = this.firsts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (/** @type {number} */ (this.firsts[middle]) <= row) low = middle + 1; else high = middle;
    }
    const line = low - 1, from = (row - (this.firsts[line] ?? 0)) * this.columns;
    return { line, from, to: from + this.columns };
  }
}

/**
 * Return where a text has a word, in lower or upper case.
 * @param {string} text
 * @param {string} wanted in lower case
 * @returns {[number, number][]}
 */
export function matchesIn(text, wanted) {
  /** @type {[number, number][]} */
  const found = [];
  if (!wanted) return found;
  const lower = text.toLowerCase();
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, at + wanted.length)) found.push([at, at + wanted.length]);
  return found;
}

/**
 * Cut a part of a text where its style, or that it is marked, changes.
 * @param {string} text
 * @param {Styled[]} styles
 * @param {[number, number][]} marks
 * @param {number} from
 * @param {number} to
 * @returns {{text: string, classes: string, marked: boolean}[]}
 */
export function piecesOf(text, styles, marks, from, to) {
  const end = Math.min(to, text.length);
  const cuts = [from, end, ...styles.flatMap(([a, b]) => [a, b]), ...marks.flat()].filter((at) => at >= from && at <= end);
  const places = [...new Set(cuts)].sort((a, b) => a - b);
  const has = (/** @type {number} */ at) => (/** @type {[number, number, ...unknown[]]} */ [a, b]) => a <= at && at < b;
  return places.slice(0, -1).map((at, index) => ({
    text: text.slice(at, places[index + 1]), classes: styles.find(has(at))?.[2] ?? "", marked: marks.some(has(at)),
  }));
}

/**
 * Return the next or previous line that matches, going on at the other end; -1 if none does.
 * @param {number} count of lines
 * @param {(index: number) => boolean} matches
 * @param {number} current line, or -1
 * @param {1 | -1} step
 */
export function nextMatch(count, matches, current, step) {
  const begin = current < 0 ? (step > 0 ? -1 : count) : current;
  for (let tried = 1; tried <= count; tried += 1) {
    const index = (((begin + step * tried) % count) + count) % count;
    if (matches(index)) return index;
  }
  return -1;
}

/**
 * Return a time of the day as the clock of this browser has it: `14:03:59.120`.
 * @param {number} at in seconds since 1970
 */
export function clockOf(at) {
  const when = new Date(at * 1000);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  return `${two(when.getHours())}:${two(when.getMinutes())}:${two(when.getSeconds())}.${String(when.getMilliseconds()).padStart(3, "0")}`;
}
