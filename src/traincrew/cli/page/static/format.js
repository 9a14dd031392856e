// Small helpers for text and elements. Nothing here sets HTML: what a cluster says is only ever text.

/** @typedef {string | number | Node | null | undefined | false} Child */

/**
 * Return a new element.
 * @param {string} tag
 * @param {Record<string, string | EventListener>} [attributes] `on...` are listeners
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) made.append(child instanceof Node ? child : String(child));
  }
  return made;
}

/**
 * Return the time of an RFC 3339 text in seconds since 1970, or null.
 * @param {string | null | undefined} text
 */
export function seconds(text) {
  const found = text ? Date.parse(text) : NaN;
  return Number.isNaN(found) ? null : found / 1000;
}

/**
 * Return a duration as people write it: `42s`, `3m 20s`, `5h 10m`, `3d 4h`.
 * @param {number} length in seconds
 */
export function duration(length) {
  const whole = Math.max(0, Math.round(length));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return parts(whole, 60, "m", 1, "s");
  return whole < 86400 ? parts(whole, 3600, "h", 60, "m") : parts(whole, 86400, "d", 3600, "h");
}

/**
 * @param {number} whole in seconds
 * @param {number} large
 * @param {string} largeUnit
 * @param {number} small
 * @param {string} smallUnit
 */
function parts(whole, large, largeUnit, small, smallUnit) {
  const rest = Math.floor((whole % large) / small);
  return `${Math.floor(whole / large)}${largeUnit}${rest ? ` ${rest}${smallUnit}` : ""}`;
}

/**
 * Return an age as kubectl writes it: `45s`, `12m`, `5h`, `3d`.
 * @param {number} length in seconds
 */
export function age(length) {
  const whole = Math.max(0, Math.floor(length));
  if (whole >= 172800) return `${Math.floor(whole / 86400)}d`;
  if (whole >= 7200) return `${Math.floor(whole / 3600)}h`;
  return whole >= 120 ? `${Math.floor(whole / 60)}m` : `${whole}s`;
}

/**
 * Return a number with four digits.
 * @param {number} value
 */
export function number(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  return Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3 ? value.toExponential(2) : value.toPrecision(4);
}

const COUNTS = new Intl.NumberFormat("en");

/**
 * Return a count with separators: `12,345`.
 * @param {number} value
 */
export function count(value) {
  return COUNTS.format(value);
}

/**
 * Save something as a file.
 * @param {Blob} content
 * @param {string} name
 */
export function save(content, name) {
  const address = URL.createObjectURL(content);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/**
 * Set the children of an element without moving those that stay: they keep focus and selection.
 * @param {HTMLElement} parent
 * @param {Node[]} nodes
 */
export function arrange(parent, nodes) {
  const wanted = new Set(nodes);
  for (const child of [...parent.childNodes]) if (!wanted.has(child)) child.remove();
  let there = parent.firstChild;
  for (const node of nodes) {
    if (node === there) there = there.nextSibling;
    else parent.insertBefore(node, there);
  }
}

/**
 * Call a function soon, but at most once in a while; what is asked for meanwhile is done at its end.
 * @param {() => unknown} work
 * @param {number} milliseconds
 */
export function throttled(work, milliseconds) {
  let timer = 0;
  let next = 0;
  return () => {
    if (timer) return;
    timer = window.setTimeout(() => {
      timer = 0;
      work();
      next = performance.now() + milliseconds;
    }, Math.max(0, next - performance.now()));
  };
}

/**
 * As `throttled`, for work that takes time elsewhere: a tenth of the time at most, and never twice at once.
 * @param {() => Promise<unknown>} work
 * @param {number} milliseconds
 */
export function paced(work, milliseconds) {
  let busy = false;
  let again = false;
  return async function start() {
    if (busy) { again = true; return; }
    busy = true;
    const began = performance.now();
    await work();
    const pause = Math.max(milliseconds, 9 * (performance.now() - began));
    setTimeout(() => {
      busy = false;
      if (again) { again = false; void start(); }
    }, pause);
  };
}
