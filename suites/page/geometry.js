// Finds what overlaps, is cut, or scrolls sideways. Of each text its place on the screen is compared, without what a box
// around it hides. Texts that are cut with dots are whole in their titles; a log and a manifest are as wide as their lines.

const done = arguments[arguments.length - 1];
// What has another size is drawn again in the next frame.
requestAnimationFrame(() => requestAnimationFrame(() => done(find())));

function find() {
const found = new Set();
const wide = ".log, pre, .last-lines", over = ".selected, .tip, .menu-items, dialog, .skip, .letter, .visually-hidden";
const nameOf = (each) => `${each.tagName.toLowerCase()}.${each.getAttribute("class") ?? ""}`;
const styles = new Map();
const styleOf = (each) => {
  if (!styles.has(each)) styles.set(each, getComputedStyle(each));
  return styles.get(each);
};
if (document.documentElement.scrollWidth > innerWidth) found.add("the page scrolls sideways");
const texts = [];
// One for all texts: until garbage is collected the browser adapts every range to each change of the page.
const range = document.createRange();
for (const each of document.querySelectorAll("body *")) {
  const box = each.getBoundingClientRect();
  if (!box.width || !box.height || each.closest(over) || each.closest("canvas, option, title")) continue;
  const style = styleOf(each);
  if (!each.closest(wide) && !each.closest("svg, .uplot")) {
    if (box.right > innerWidth + 1 || box.left < -1) found.add(`beyond the window: ${nameOf(each)}`);
    const wider = each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0;
    if (style.overflowX === "hidden" && style.textOverflow !== "ellipsis" && wider) found.add(`cut: ${nameOf(each)}`);
    if (["auto", "scroll"].includes(style.overflowX) && wider) found.add(`scrolls sideways: ${nameOf(each)}`);
    const higher = each.scrollHeight > each.clientHeight + 2 && each.clientHeight > 0;
    if (style.overflowY === "hidden" && style.textOverflow !== "ellipsis" && higher) found.add(`cut below: ${nameOf(each)}`);
  }
  for (const node of each.childNodes) {
    if (node.nodeType !== Node.TEXT_NODE || !node.data.trim()) continue;
    range.selectNodeContents(node);
    let {left, right, top, bottom} = range.getBoundingClientRect();
    let seen = true;
    for (let parent = each; parent && seen; parent = parent.parentElement) {
      const its = styleOf(parent);
      if (its.opacity === "0" || its.visibility === "hidden" || its.position === "sticky") seen = false;
      if (its.overflowX === "visible" && its.overflowY === "visible") continue;
      const edge = parent.getBoundingClientRect();
      left = Math.max(left, edge.left); right = Math.min(right, edge.right);
      top = Math.max(top, edge.top); bottom = Math.min(bottom, edge.bottom);
    }
    if (seen && right > left && bottom > top) texts.push({left, right, top, bottom, each, text: node.data.trim().slice(0, 30)});
  }
}
// Lines of texts are higher than their letters.
const SLACK = 3;
texts.sort((a, b) => a.top - b.top);
let open = [];
for (const text of texts) {
  open = open.filter(({bottom}) => bottom > text.top + SLACK);
  for (const other of open) {
    const both = Math.min(text.right, other.right) - Math.max(text.left, other.left);
    if (both > 1 && !text.each.contains(other.each) && !other.each.contains(text.each)) {
      found.add(`“${other.text}” (${nameOf(other.each)}) and “${text.text}” (${nameOf(text.each)}) overlap`);
    }
  }
  open.push(text);
}
return [...found].slice(0, 20);
}
