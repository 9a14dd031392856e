// The colours in lines of logs (SGR): what is left is text, and which class each part of it has. Nothing here draws.
// Colours are those of the page, so that each can be read in light and dark; backgrounds and all other sequences are left out.

/** @typedef {[from: number, to: number, classes: string]} Styled a part of a text */

const SEQUENCE = /\x1b\[([0-9;:]*)m/g; // eslint-disable-line no-control-regex
const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
/** What the names stand for, to find the nearest one of any other colour. */
const VALUES = /** @type {[number, number, number][]} */ ([
  [0, 0, 0], [205, 0, 0], [0, 205, 0], [205, 205, 0], [0, 0, 238], [205, 0, 205], [0, 205, 205], [229, 229, 229],
]);
const LEVELS = [0, 95, 135, 175, 215, 255];
const ATTRIBUTES = /** @type {Record<number, string>} */ ({ 1: "bold", 2: "dim", 3: "italic", 4: "underline" });
const ENDS = /** @type {Record<number, string[]>} */ ({ 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"] });

/**
 * Separate a line from its colours.
 * @param {string} line
 * @returns {{text: string, styles: Styled[]}}
 */
export function withoutColours(line) {
  if (!line.includes("\x1b")) return { text: line, styles: [] };
  /** @type {Styled[]} */
  const styles = [];
  let text = "", last = 0, colour = "";
  /** @type {Set<string>} */
  const set = new Set();
  const add = (/** @type {string} */ piece) => {
    const classes = [colour, ...set].filter(Boolean).map((name) => `ansi-${name}`).join(" ");
    if (piece && classes) styles.push([text.length, text.length + piece.length, classes]);
    text += piece;
  };
  for (const match of line.matchAll(SEQUENCE)) {
    add(line.slice(last, match.index));
    last = match.index + match[0].length;
    const codes = (match[1] ?? "").split(/[;:]/).map(Number);
    for (let index = 0; index < codes.length; index += 1) {
      const code = codes[index] ?? 0;
      if (code === 0) { colour = ""; set.clear(); }
      else if (ATTRIBUTES[code]) set.add(ATTRIBUTES[code]);
      else if (ENDS[code]) ENDS[code].forEach((name) => set.delete(name));
      else if (code === 39) colour = "";
      else if (code >= 30 && code <= 37) colour = NAMES[code - 30] ?? "";
      else if (code >= 90 && code <= 97) colour = NAMES[code - 90] ?? "";
      else if (code === 38 || code === 48) {
        const five = codes[index + 1] === 5;
        const length = five ? 2 : (match[1] ?? "").includes(":") && codes.length - index > 5 ? 5 : 4;
        const given = codes.slice(index + 2, index + 1 + length);
        if (code === 38) colour = five ? indexed(given[0] ?? 0) : nearest(given.slice(-3));
        index += length;
      }
    }
  }
  add(line.slice(last));
  return { text, styles };
}

/**
 * Return the name that is nearest to one of 256 colours.
 * @param {number} index
 */
function indexed(index) {
  if (index < 16) return NAMES[index % 8] ?? "";
  if (index >= 232) return index < 244 ? "black" : "white";
  const rest = index - 16;
  return nearest([Math.floor(rest / 36), Math.floor(rest / 6) % 6, rest % 6].map((each) => LEVELS[each] ?? 0));
}

/**
 * Return the name that is nearest to a colour.
 * @param {number[]} colour red, green and blue, from 0 to 255
 */
function nearest(colour) {
  const distances = VALUES.map((value) => value.reduce((sum, each, index) => sum + (each - (colour[index] ?? 0)) ** 2, 0));
  return NAMES[distances.indexOf(Math.min(...distances))] ?? "";
}
