/**
 * The words and figures around the timeline: the legend, the totals, the facts of one request.
 */

import { breakMark } from "./chart_ledger.js";
import { el, svg } from "./dom.js";
import { href } from "./routes.js";
import { bytes, count, duration, moment, money, share, tokens } from "./format.js";
import { reasonWords } from "./kinds.js";
import { foreign, legible } from "./text.js";

/** @typedef {import("./types.js").LedgerRow} LedgerRow */

/**
 * @param {string} name
 * @param {string} value
 * @param {string} more
 */
export function figure(name, value, more) {
  return el("div", null, el("dt", null, name), el("dd", null, value, more ? el("small", null, more) : null));
}

export function legend() {
  const entry = (/** @type {string} */ look, /** @type {string} */ words) =>
    el("span", null, el("i", { class: `swatch ${look}` }), words);
  const mark = (/** @type {string} */ look, /** @type {string} */ words, /** @type {string} */ letter) => {
    const size = { width: 13, height: 15, viewBox: "-7.5 -20 15 17.5" };
    const sign = svg("svg", { class: look, "aria-hidden": "true", ...size }, ...breakMark(letter, 0, 0));
    return el("span", null, sign, words);
  };
  return el(
    "div",
    { class: "legend" },
    entry("held", "as before"),
    entry("new", "new"),
    entry("expected", "cache expected"),
    entry("served", "cache served"),
    mark("bar", "break", "M"),
    mark("bar compaction", "compaction", "C"),
  );
}

/**
 * @param {LedgerRow} row
 * @param {string} thread
 */
export function requestFacts(row, thread) {
  const fact = (/** @type {string} */ name, /** @type {(Node | string)[]} */ ...value) =>
    el("div", null, el("dt", null, name), el("dd", null, value));
  const cached = row.input_tokens
    ? `${tokens(row.cached_tokens)} (${share(row.cached_tokens, row.input_tokens)})`
    : "not reported";
  const acts = el(
    "div",
    { class: "row" },
    row.number > 1
      ? el(
          "a",
          {
            class: "button",
            href: href(["threads", thread, "requests", row.number - 1, "diff", row.number]),
          },
          "What changed",
        )
      : null,
    el(
      "a",
      {
        class: "button main-act",
        href: href(["threads", thread, "requests", row.number]),
        id: "open-request",
      },
      `Open request ${count(row.number)}`,
    ),
  );
  const broke = row.difference
    ? el("span", { class: "badge break" }, row.unexplained ? "unexplained" : legible(row.reason ?? ""))
    : null;
  return [
    el(
      "div",
      { class: "wide" },
      el(
        "div",
        { class: "row" },
        el("h2", null, `Request ${count(row.number)}`),
        el("span", { class: "quiet" }, `turn ${count(row.turn)}, step ${row.step} · ${moment(row.time)}`),
        row.purpose ? el("span", { class: "badge" }, legible(row.purpose)) : null,
        broke,
      ),
      acts,
    ),
    fact("As before", `${bytes(row.shared_size)} (${share(row.shared_size, row.size)})`),
    fact("New", bytes(row.size - row.shared_size)),
    fact("Tokens in", tokens(row.input_tokens)),
    fact("Cache served", cached),
    fact(
      "Cache expected",
      row.expected_cached_tokens === null || row.expected_cached_tokens === undefined
        ? "–"
        : `${tokens(row.expected_cached_tokens)} (${share(row.expected_cached_tokens, row.input_tokens)})`,
    ),
    fact("Cache written", tokens(row.written_tokens)),
    fact("Tokens out", tokens(row.output_tokens)),
    fact("Time", duration(row.latency)),
    fact("Cost", money(row.cost)),
    row.model
      ? el(
          "div",
          { class: row.difference ? "" : "long" },
          el("dt", null, "Model"),
          el("dd", null, foreign(row.model)),
        )
      : null,
    row.difference
      ? el(
          "div",
          { class: "long" },
          el("dt", null, "Broke at"),
          el(
            "dd",
            null,
            foreign(row.difference),
            " – ",
            row.unexplained ? "no entry says why: a defect" : reasonWords(row.reason),
          ),
        )
      : null,
  ];
}
