/**
 * The transcript: every entry of the log, of which only a screenful exists in the page.
 *
 * Owns how one moves in it, and how it follows a thread that grows.
 */

import { byId, el, fill } from "./dom.js";
import { api, fetchJson, query } from "./data.js";
import { href, rename } from "./routes.js";
import { bindKey } from "./keys.js";
import { VirtualList } from "./virtual.js";
import { drawEntry } from "./entry.js";
import { UNKNOWN, count, duration, money, turnState } from "./format.js";
import { empty, loadInto } from "./states.js";
import { hear } from "./live.js";
import { foreign } from "./text.js";
import { notKnown } from "./view_ledger.js";
import { liveTurn } from "./live_turn.js";
import { composer } from "./composer.js";
import { turnActs } from "./turn_acts.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").Entry} Entry */
/** @typedef {import("./types.js").Turn} Turn */

/** @param {Place} where */
export async function showTranscript(where) {
  const path = `${api("threads", where.id, "entries")}${query({ limit: 1 })}`;
  await loadInto(
    where.root,
    where.signal,
    () => fetchJson(path, where.signal),
    (page) => {
      const last = page.last ?? 0;
      if (!last && !where.server.control) {
        fill(where.root, empty("Nothing in the log yet", "Entries appear here as soon as they are written."));
        hear("entries", () => showTranscript(where), where.signal);
        return;
      }
      new Transcript(where, page.first ?? 1, last).start();
    },
  );
}

class Transcript {
  /**
   * @param {Place} where
   * @param {number} first
   * @param {number} last
   */
  constructor(where, first, last) {
    this.where = where;
    this.first = first || 1;
    this.last = last;
    this.scroller = byId("main");
    this.wanted = Number(where.query.get("seq")) || 0;
    /** Whether the end stays in sight while it grows. */
    this.follows = false;
    /** @type {Map<number, Turn>} */
    this.turns = new Map();
    this.list = new VirtualList({
      scroller: this.scroller,
      first: this.first,
      last,
      size: 25,
      guess: 64,
      load: (from, to) => this.load(from, to),
      signal: where.signal,
      label: "Entries of the thread",
    });
  }

  start() {
    const { where } = this;
    const box = el("div", { class: "transcript" }, this.list.root);
    const live = liveTurn(where);
    fill(
      where.root,
      this.tools(),
      notKnown(where),
      box,
      live,
      where.server.control ? composer(where, () => this.toEnd()) : null,
    );
    this.list.draw();
    if (this.wanted) this.goTo(this.wanted);
    // Who talks or watches is where it ends; who reads begins at the start.
    else if (where.server.control || where.thread?.running) this.toEnd();
    this.listen();
    this.follow();
  }

  tools() {
    const field = el("input", {
      type: "number",
      class: "number",
      id: "go-to",
      min: this.first,
      max: this.last,
      placeholder: "entry",
      "aria-label": "Go to an entry",
    });
    const jump = el("form", { class: "row" }, field, el("button", { class: "button", type: "submit" }, "Go"));
    jump.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value) this.goTo(Number(field.value));
    });
    const button = (/** @type {string} */ id, /** @type {string} */ words, /** @type {() => void} */ act) =>
      el("button", { class: "button bare", type: "button", id, on: { click: act } }, words);
    this.counter = el("span", { class: "quiet small", id: "entry-count" }, this.known());
    const { signal } = this.where;
    bindKey("Home", "the first entry", () => this.goTo(this.first), signal);
    bindKey("End", "the last entry", () => this.toEnd(), signal);
    bindKey("g", "go to an entry", () => field.focus(), signal);
    bindKey("j", "the next entry", () => this.step(1), signal);
    bindKey("k", "the entry before", () => this.step(-1), signal);
    return el(
      "div",
      { class: "tools row apart" },
      el(
        "div",
        { class: "row" },
        button("to-start", "Start", () => this.goTo(this.first)),
        button("to-end", "End", () => this.toEnd()),
        this.counter,
      ),
      jump,
    );
  }

  known() {
    return this.first > 1
      ? `entries ${count(this.first)} to ${count(this.last)} are in this file`
      : `${count(this.last)} entries`;
  }

  /**
   * Load entries; the one before tells whether a turn begins with the first.
   *
   * @param {number} from
   * @param {number} to
   */
  async load(from, to) {
    const { where } = this;
    const start = Math.max(this.first, from - 1);
    const page = await fetchJson(
      `${api("threads", where.id, "entries")}${query({ from: start, to, limit: to - start + 1 })}`,
      where.signal,
    );
    /** @type {Entry[]} */
    const entries = page.entries;
    await this.knowTurns(entries);
    /** @type {Node[]} */
    const rows = [];
    let turn = entries[0] && entries[0].seq < from ? entries[0].turn : -1;
    for (const entry of entries) {
      if (entry.seq < from) continue;
      if (entry.turn && entry.turn !== turn) rows.push(this.turnMark(entry.turn));
      turn = entry.turn || turn;
      const drawn = drawEntry(where, entry);
      if (entry.seq === this.wanted) drawn.classList.add("here");
      rows.push(drawn);
    }
    return rows;
  }

  /** @param {Entry[]} entries */
  async knowTurns(entries) {
    const last = Math.max(0, ...entries.map((entry) => entry.turn));
    const first = Math.min(...entries.map((entry) => entry.turn || Infinity));
    if (!last || (this.turns.has(last) && this.turns.has(first))) return;
    const page = await fetchJson(
      `${api("threads", this.where.id, "turns")}${query({ before: last + 1, limit: 50 })}`,
      this.where.signal,
    ).catch(() => null);
    for (const each of page?.turns ?? []) this.turns.set(each.number, each);
  }

  /** @param {number} number */
  turnMark(number) {
    const turn = this.turns.get(number);
    const facts = [];
    if (turn?.state && turn.state !== "completed") facts.push(turnState(turn.state));
    if (turn?.steps) facts.push(`${turn.steps} step${turn.steps === 1 ? "" : "s"}`);
    if (turn?.ended && turn.admitted) facts.push(duration(turn.ended - turn.admitted));
    if (turn?.cost && money(turn.cost) !== UNKNOWN) facts.push(money(turn.cost));
    if (turn?.model) facts.push(turn.model);
    return el(
      "header",
      { class: "turn-mark", "data-turn": number },
      el("h2", null, `Turn ${count(number)}`),
      el(
        "div",
        { class: "row" },
        el("span", { class: "quiet small" }, foreign(facts.join(" · "))),
        this.where.server.control ? turnActs(this.where, number) : null,
      ),
    );
  }

  listen() {
    const { signal } = this.where;
    hear(
      "entries",
      (told) => {
        if (told.thread && told.thread !== this.where.id) return;
        this.follows ||= this.atEnd();
        this.last = Math.max(this.last, told.last ?? this.last);
        if (this.counter) this.counter.textContent = this.known();
        this.list.grow(this.last);
      },
      signal,
    );
    hear(
      "running",
      () => {
        this.turns.clear();
        this.list.refresh();
      },
      signal,
    );
  }

  atEnd() {
    return this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < 40;
  }

  /** Keep the end in sight, whatever grows above or below it, until the reader goes elsewhere. */
  follow() {
    const { scroller } = this;
    const { signal } = this.where;
    let touched = -Infinity;
    const touch = (/** @type {Event} */ each) => {
      if (isScrolling(each, scroller)) touched = each.timeStamp;
    };
    for (const event of ["wheel", "touchmove", "pointerdown", "keydown"])
      scroller.addEventListener(event, touch, { passive: true, signal });
    const moved = (/** @type {Event} */ each) => {
      if (this.atEnd()) this.follows = true;
      else if (each.timeStamp - touched < 1000) this.follows = false;
    };
    scroller.addEventListener("scroll", moved, { passive: true, signal });
    const grown = new ResizeObserver(() => {
      if (this.follows) scroller.scrollTop = scroller.scrollHeight;
    });
    grown.observe(this.where.root);
    signal.addEventListener("abort", () => grown.disconnect());
  }

  toEnd() {
    clearInterval(this.timer);
    this.follows = true;
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  /** @param {number} seq */
  goTo(seq) {
    this.follows = false;
    this.wanted = Math.min(Math.max(seq, this.first), this.last);
    rename(href(["threads", this.where.id, "transcript"], { seq: this.wanted }));
    this.list.show(this.wanted);
    this.hold(() => {
      const found = this.list.root.querySelector(`[data-seq="${this.wanted}"]`);
      if (!found) return false;
      this.list.root.querySelector(".here")?.classList.remove("here");
      found.classList.add("here");
      const high = this.where.root.querySelector(".tools")?.getBoundingClientRect().height ?? 0;
      this.scroller.scrollTop +=
        found.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top - high - 12;
      return !this.list.loading;
    });
  }

  /**
   * Do it again for a moment: heights are known only when chunks have been drawn.
   *
   * @param {() => boolean} act  Returns whether it has found its place.
   */
  hold(act) {
    clearInterval(this.timer);
    let left = 300;
    let found = 0;
    const again = () => {
      found += act() ? 1 : 0;
      left -= 1;
      if (!left || found > 3) clearInterval(this.timer);
    };
    again();
    this.timer = setInterval(again, 50);
    const stop = () => clearInterval(this.timer);
    for (const event of ["wheel", "touchstart", "keydown"])
      this.scroller.addEventListener(event, stop, { once: true, passive: true, signal: this.where.signal });
    this.where.signal.addEventListener("abort", stop, { once: true });
  }

  /** @param {number} by */
  step(by) {
    const shown = [...this.list.root.querySelectorAll("[data-seq]")];
    const edge = this.scroller.getBoundingClientRect().top + 64;
    const at = this.wanted
      ? shown.findIndex((each) => each.getAttribute("data-seq") === String(this.wanted))
      : shown.findIndex((each) => each.getBoundingClientRect().top >= edge) - 1;
    const next = shown[at + by];
    if (next) this.goTo(Number(next.getAttribute("data-seq")));
  }
}

/**
 * Say whether a reader scrolls by that, and does not talk or press a button.
 *
 * @param {Event} event
 * @param {HTMLElement} scroller
 */
function isScrolling(event, scroller) {
  if (event instanceof KeyboardEvent) {
    const writes = /** @type {Element} */ (event.target).matches("input, textarea, select");
    return !writes && /^(Arrow|Page|Home|End| )/.test(event.key);
  }
  // On the scroller itself only its bar can be pressed.
  return event.type !== "pointerdown" || event.target === scroller;
}
