/**
 * A long list of which only a screenful exists. Owns which parts of it are drawn.
 *
 * The list is cut into chunks of numbers; a chunk that comes near the screen is loaded and drawn,
 * one that leaves it is taken away and its height remembered. Invariant: the number of elements
 * does not depend on the length of the list, and what one reads does not move.
 */

import { el, fill } from "./dom.js";
import { failed, waiting } from "./states.js";

/**
 * @typedef {object} ListOptions
 * @property {HTMLElement} scroller  What scrolls.
 * @property {number} first
 * @property {number} last
 * @property {number} [size]  Numbers in a chunk.
 * @property {number} [guess]  The height of one row before it was seen.
 * @property {(from: number, to: number) => Promise<Node[]>} load
 * @property {AbortSignal} signal
 * @property {string} label
 */

/** @typedef {{from: number, to: number, height: number, known: boolean, box: HTMLElement | null, asked: number}} Chunk */

export class VirtualList {
  /** @param {ListOptions} options */
  constructor(options) {
    this.options = options;
    this.size = options.size ?? 25;
    this.guess = options.guess ?? 72;
    this.last = options.first - 1;
    /** @type {Chunk[]} */
    this.chunks = [];
    this.before = el("div", { "aria-hidden": "true" });
    this.after = el("div", { "aria-hidden": "true" });
    this.middle = el("div", { class: "virtual-middle" });
    this.root = el(
      "div",
      {
        class: "virtual",
        role: "feed",
        "aria-label": options.label,
        "aria-busy": "false",
        "data-list": "virtual",
      },
      this.before,
      this.middle,
      this.after,
    );
    this.watcher = new ResizeObserver((seen) => this.measure(seen));
    this.grow(options.last);
    let asked = 0;
    options.scroller.addEventListener(
      "scroll",
      () => {
        cancelAnimationFrame(asked);
        asked = requestAnimationFrame(() => this.draw());
      },
      { passive: true, signal: options.signal },
    );
    addEventListener("resize", () => this.draw(), { signal: options.signal });
    options.signal.addEventListener("abort", () => this.watcher.disconnect());
  }

  /**
   * Let the list end at a later number; the last chunk is read again.
   *
   * @param {number} last
   */
  grow(last) {
    if (last <= this.last) return;
    const end = this.chunks.at(-1);
    if (end && end.to - end.from + 1 < this.size) {
      end.to = Math.min(end.from + this.size - 1, last);
      if (end.box) this.fillChunk(end, end.box);
      else if (!end.known) end.height = (end.to - end.from + 1) * this.guess;
    }
    let from = end ? end.to + 1 : this.options.first;
    for (; from <= last; from += this.size) {
      const to = Math.min(from + this.size - 1, last);
      this.chunks.push({ from, to, height: (to - from + 1) * this.guess, known: false, box: null, asked: 0 });
    }
    this.last = last;
    if (this.root.isConnected) this.draw();
  }

  /** Whether something that is near the screen is not there yet. */
  get loading() {
    return this.root.querySelector('[data-state="loading"]') !== null;
  }

  /** Read again what is drawn. */
  refresh() {
    for (const chunk of this.chunks) if (chunk.box) this.fillChunk(chunk, chunk.box);
  }

  /** Draw what is near the screen, and nothing else. */
  draw() {
    const { scroller } = this.options;
    const top = scroller.getBoundingClientRect().top - this.root.getBoundingClientRect().top;
    const reach = scroller.clientHeight;
    let at = 0;
    let above = 0;
    let below = 0;
    /** @type {HTMLElement[]} */
    const wanted = [];
    for (const chunk of this.chunks) {
      const near = at + chunk.height > top - reach * 0.6 && at < top + reach * 1.6;
      if (near) wanted.push(this.open(chunk));
      else {
        if (chunk.box) this.close(chunk);
        if (wanted.length) below += chunk.height;
        else above += chunk.height;
      }
      at += chunk.height;
    }
    this.before.style.height = `${above}px`;
    this.after.style.height = `${below}px`;
    wanted.forEach((box, n) => {
      if (this.middle.children[n] !== box) this.middle.insertBefore(box, this.middle.children[n] ?? null);
    });
  }

  /** @param {Chunk} chunk */
  open(chunk) {
    if (chunk.box) return chunk.box;
    const box = el("div", { class: "chunk", "data-from": chunk.from, "data-to": chunk.to });
    box.style.minHeight = `${chunk.height}px`;
    chunk.box = box;
    this.watcher.observe(box);
    this.fillChunk(chunk, box);
    return box;
  }

  /** @param {Chunk} chunk */
  close(chunk) {
    if (!chunk.box) return;
    this.watcher.unobserve(chunk.box);
    chunk.box.remove();
    chunk.box = null;
  }

  /**
   * @param {Chunk} chunk
   * @param {HTMLElement} box
   */
  async fillChunk(chunk, box) {
    if (!box.childElementCount) fill(box, waiting(3));
    chunk.asked += 1;
    const mine = chunk.asked;
    try {
      const rows = await this.options.load(chunk.from, chunk.to);
      // An older answer that comes late must not stand in the place of a newer one.
      if (chunk.box !== box || mine !== chunk.asked) return;
      // What the reader works in stays: a row that was opened, a text that was selected.
      fill(box, rows);
    } catch (error) {
      if (this.options.signal.aborted || chunk.box !== box) return;
      fill(
        box,
        failed(error, () => this.fillChunk(chunk, box)),
      );
    }
    box.style.minHeight = "";
  }

  /** @param {ResizeObserverEntry[]} seen */
  measure(seen) {
    const { scroller } = this.options;
    const edge = scroller.getBoundingClientRect().top;
    let moved = 0;
    for (const { target } of seen) {
      const chunk = this.chunks.find((each) => each.box === target);
      if (!chunk) continue;
      const box = target.getBoundingClientRect();
      // What stands wholly above the screen must not push what is read.
      if (box.bottom - (box.height - chunk.height) <= edge) moved += box.height - chunk.height;
      chunk.height = box.height;
      chunk.known = true;
    }
    if (moved) scroller.scrollTop += moved;
    this.draw();
  }

  /**
   * Bring a number to the top of the screen.
   *
   * @param {number} number
   */
  show(number) {
    let at = 0;
    for (const chunk of this.chunks) {
      if (number <= chunk.to) {
        const inside = ((number - chunk.from) / (chunk.to - chunk.from + 1)) * chunk.height;
        this.jump(at + Math.max(0, inside));
        return;
      }
      at += chunk.height;
    }
    this.jump(at);
  }

  /** @param {number} offset */
  jump(offset) {
    const { scroller } = this.options;
    const start =
      this.root.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop;
    scroller.scrollTop = start + offset - 8;
    this.draw();
  }
}
