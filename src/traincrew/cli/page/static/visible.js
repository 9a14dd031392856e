// A long list of rows of one height. Only those that can be seen are elements, so that 20,000 cost little.

import { arrange, element } from "./format.js";

const BEYOND = 5;

export class VisibleRows {
  /**
   * @param {HTMLElement} box scrolls; it must have a limited height
   * @param {number} height of a row in pixels
   * @param {(index: number, there: ChildNode | undefined) => Node} make returns a row; it may use the one that
   *   is drawn at this place
   */
  constructor(box, height, make) {
    this.box = box;
    this.height = height;
    this.make = make;
    this.count = 0;
    this.space = element("div", { class: "space", role: "presentation" });
    this.rows = element("div", { class: "rows", role: "presentation" });
    this.space.append(this.rows);
    box.append(this.space);
    box.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(box);
  }

  /** @param {number} count of rows there are */
  show(count) {
    this.count = count;
    this.space.style.height = `${count * this.height}px`;
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - BEYOND);
    const last = Math.min(this.count, first + Math.ceil(this.box.clientHeight / this.height) + 2 * BEYOND);
    const there = [...this.rows.childNodes];
    const nodes = [];
    for (let index = first; index < last; index += 1) nodes.push(this.make(index, there[index - first]));
    this.rows.style.top = `${first * this.height}px`;
    arrange(this.rows, nodes);
  }
}
