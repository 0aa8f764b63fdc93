/**
 * The ledger: what each request repeated, what was new, where the prefix broke and why.
 *
 * Owns which requests are shown and which one is looked at. Invariant: a screenful is loaded,
 * however long the thread is.
 */

import { el, fill } from "./dom.js";
import { api, fetchJson, query } from "./data.js";
import { go, href, rename } from "./routes.js";
import { bytes, count, counted, money, share, tokens } from "./format.js";
import { figure, legend, requestFacts } from "./ledger_facts.js";
import { drawTimeline, fitting } from "./chart_ledger.js";
import { drawStrip } from "./chart_strip.js";
import { empty, failed, loadInto } from "./states.js";
import { hear } from "./live.js";
import { foreign } from "./text.js";
import { showBreaks } from "./ledger_breaks.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").LedgerRow} LedgerRow */

/** @param {Place} where */
export async function showLedger(where) {
  await loadInto(
    where.root,
    where.signal,
    () => fetchJson(`${api("threads", where.id, "ledger")}${query({ limit: 1 })}`, where.signal),
    (page) => {
      if (!page.total) {
        const imported = where.thread?.imported;
        const words = imported
          ? "This thread was imported. What its own program sent was never recorded, so there are no requests to show until a turn runs here."
          : "Each request appears here as soon as it is sent.";
        fill(
          where.root,
          notKnown(where),
          empty(
            "No request yet",
            words,
            el(
              "a",
              { class: "button", href: href(["threads", where.id, "transcript"]) },
              "Read the transcript",
            ),
          ),
        );
        hear("ledger", () => showLedger(where), where.signal);
        return;
      }
      new LedgerView(where, page).start();
    },
  );
}

/** @param {Place} where */
export function notKnown(where) {
  const unknown = where.thread?.what_is_not_known ?? [];
  if (!unknown.length) return where.thread?.harness === "codex" ? ofCodex() : null;
  return el(
    "aside",
    { class: "hint", id: "not-known" },
    el("h3", null, "Imported: what is not known"),
    el(
      "ul",
      null,
      unknown.map((each) => el("li", null, foreign(each))),
    ),
  );
}

/** Codex sends requests of its own: what is shown is what the log says that they were about. */
function ofCodex() {
  return el(
    "aside",
    { class: "hint", id: "not-known" },
    el("b", null, "Codex runs the turns of this thread "),
    "and sends its own requests. Those shown here are what the log represents; the bytes that Codex sent are not known. What its provider served from the cache is.",
  );
}

class LedgerView {
  /**
   * @param {Place} where
   * @param {{total: number, totals: any, requests: LedgerRow[]}} page
   */
  constructor(where, page) {
    this.where = where;
    this.total = page.total;
    this.totals = page.totals;
    /** @type {LedgerRow[]} */
    this.rows = [];
    this.selected = Number(where.query.get("request")) || page.total;
    this.asked = 0;
    this.figures = el("dl", { class: "figures", id: "totals" });
    this.chart = el("div", { class: "timeline-box" });
    this.stripBox = el("div", null);
    this.facts = el("dl", { class: "request-facts", id: "request-facts", "aria-live": "off" });
    /** @type {import("./chart_strip.js").Strip | null} */
    this.strip = null;
  }

  async start() {
    const { where } = this;
    const breaks = el("div", { class: "halves" });
    const card = el(
      "section",
      { class: "card", "aria-label": "Timeline of requests" },
      el("div", { class: "section-head" }, el("h2", null, "Requests"), legend()),
      this.chart,
      this.stripBox,
      this.facts,
    );
    fill(where.root, notKnown(where), this.figures, card, breaks);
    this.showTotals();
    this.listen();
    showBreaks(breaks, where);
    await this.load(this.selected);
    await this.showStrip();
  }

  get wide() {
    return fitting(this.chart.clientWidth || 800);
  }

  /**
   * Load the requests around one.
   *
   * @param {number} middle
   * @param {boolean} [focus]
   */
  async load(middle, focus = false) {
    const wide = this.wide;
    const to = Math.min(this.total, Math.max(Math.ceil(middle + wide / 2), Math.min(wide, this.total)));
    const from = Math.max(1, to - wide + 1);
    this.asked += 1;
    const mine = this.asked;
    const path = `${api("threads", this.where.id, "ledger")}${query({ from, to, limit: wide })}`;
    try {
      const page = await fetchJson(path, this.where.signal);
      if (mine !== this.asked) return;
      this.rows = page.requests;
    } catch (error) {
      if (!this.where.signal.aborted)
        fill(
          this.chart,
          failed(error, () => this.load(middle)),
        );
      return;
    }
    this.selected = Math.min(Math.max(this.selected, from), to);
    this.draw();
    this.strip?.look(from, to);
    if (focus) this.bar(this.selected)?.focus({ preventScroll: true });
  }

  draw() {
    if (!this.rows.length) {
      fill(this.chart, el("p", { class: "quiet" }, "These requests are not in the file."));
      return;
    }
    const held = this.chart.contains(document.activeElement);
    fill(this.chart, drawTimeline(this.rows, this.chart.clientWidth || 800, this.selected));
    if (held) this.bar(this.selected)?.focus({ preventScroll: true });
    this.showFacts(this.selected);
  }

  async showStrip() {
    if (this.total <= this.wide) {
      fill(this.stripBox);
      return;
    }
    const overview = await fetchJson(
      `${api("threads", this.where.id, "ledger", "overview")}${query({ buckets: 200 })}`,
      this.where.signal,
    ).catch(() => null);
    if (!overview || this.where.signal.aborted) return;
    this.strip = drawStrip(overview.buckets, this.total, (middle) => this.move(middle), this.where.signal);
    fill(this.stripBox, this.strip.root);
    this.strip.look(this.rows[0]?.number ?? 1, this.rows.at(-1)?.number ?? 1);
  }

  /** @param {number} middle */
  move(middle) {
    const at = Math.min(Math.max(middle, 1), this.total);
    const half = this.wide / 2;
    this.strip?.look(Math.max(1, Math.round(at - half)), Math.min(this.total, Math.round(at + half)));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.selected = at;
      this.load(at);
    }, 60);
  }

  /** @param {number} number */
  bar(number) {
    return /** @type {SVGElement | null} */ (this.chart.querySelector(`[data-request="${number}"]`));
  }

  /**
   * Look at another request.
   *
   * @param {number} number
   */
  select(number) {
    const wanted = Math.min(Math.max(number, 1), this.total);
    const before = this.bar(this.selected);
    const now = this.bar(wanted);
    this.selected = wanted;
    rename(href(["threads", this.where.id, "ledger"], { request: wanted }));
    if (!now) {
      this.load(wanted, true);
      return;
    }
    before?.setAttribute("tabindex", "-1");
    before?.setAttribute("aria-current", "false");
    now.setAttribute("tabindex", "0");
    now.setAttribute("aria-current", "true");
    now.focus({ preventScroll: true });
    this.showFacts(wanted);
  }

  listen() {
    const { signal } = this.where;
    const numberAt = (/** @type {Event} */ event) =>
      Number(
        /** @type {Element} */ (event.target).closest("[data-request]")?.getAttribute("data-request") ?? 0,
      );
    this.chart.addEventListener("pointerover", (event) => this.showFacts(numberAt(event) || this.selected), {
      signal,
    });
    this.chart.addEventListener("pointerleave", () => this.showFacts(this.selected), { signal });
    this.chart.addEventListener(
      "click",
      (event) => {
        const number = numberAt(event);
        if (number) this.select(number);
      },
      { signal },
    );
    this.chart.addEventListener(
      "dblclick",
      (event) => {
        const number = numberAt(event);
        if (number) this.open(number);
      },
      { signal },
    );
    this.chart.addEventListener("keydown", (event) => this.key(event), { signal });
    const fit = new ResizeObserver(() => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.rows.length && this.load(this.selected), 100);
    });
    fit.observe(this.where.root);
    signal.addEventListener("abort", () => fit.disconnect());
    hear("ledger", (told) => this.grow(told), signal);
    hear("thread", () => this.showTotals(), signal);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const wide = this.rows.length;
    /** @type {Record<string, number>} */
    const steps = {
      ArrowLeft: this.selected - 1,
      ArrowRight: this.selected + 1,
      PageUp: this.selected - wide,
      PageDown: this.selected + wide,
      Home: 1,
      End: this.total,
    };
    if (event.key === "Enter") this.open(this.selected);
    else if (event.key in steps) this.select(steps[event.key]);
    else return;
    event.preventDefault();
  }

  /** @param {number} number */
  open(number) {
    go(href(["threads", this.where.id, "requests", number]));
  }

  /** @param {any} told */
  async grow(told) {
    const page = await fetchJson(
      `${api("threads", this.where.id, "ledger")}${query({ limit: 1 })}`,
      this.where.signal,
    ).catch(() => null);
    if (!page || this.where.signal.aborted) return;
    const atEnd = (this.rows.at(-1)?.number ?? 0) >= this.total;
    const followed = this.selected === this.total;
    this.total = page.total;
    this.totals = page.totals;
    this.showTotals();
    if (!atEnd) return;
    if (followed) this.selected = this.total;
    await this.load(this.total);
    if (told) await this.showStrip();
  }

  showTotals() {
    const all = this.totals ?? {};
    const thread = this.where.thread;
    const breaks = all.breaks ?? null;
    fill(
      this.figures,
      figure("Sent", bytes(all.sent), counted(all.requests ?? this.total, "request")),
      figure("Sent again", share(all.shared, all.sent), bytes(all.shared)),
      figure(
        "From the cache",
        share(all.cached_tokens, all.input_tokens),
        all.input_tokens ? `of ${tokens(all.input_tokens)} tokens` : "not reported",
      ),
      breaks === null ? null : figure("Breaks", count(breaks), ""),
      figure(
        "Unexplained",
        count(all.unexplained ?? 0),
        all.unexplained ? "a defect" : breaks ? "all have a reason" : "",
      ),
      figure("Cost", money(all.cost ?? thread?.cost), ""),
    );
  }

  /** @param {number} number */
  showFacts(number) {
    const row = this.rows.find((each) => each.number === number);
    if (row) fill(this.facts, ...requestFacts(row, this.where.id));
  }
}
