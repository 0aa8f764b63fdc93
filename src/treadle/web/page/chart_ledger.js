/**
 * The ledger as a picture: a bar for each request, what it repeats below and what is new above.
 *
 * Owns where everything stands. Invariant: one bar per request that is given, the same scale for
 * all of them, and a letter on every break.
 */

import { svg } from "./dom.js";
import { bytes, count, money, share, tokens } from "./format.js";
import { isCompaction, reasonLetter, reasonWords } from "./kinds.js";
import { legible } from "./text.js";

/** @typedef {import("./types.js").LedgerRow} LedgerRow */

const GUTTER = 54;
const TOP = 26;
const PLOT = 196;
const BAND = 22;
export const CHART_HEIGHT = TOP + PLOT + 20 + BAND + 2;
const WIDEST = 92;
/** A bar is not wider than this, however much room it has. */
const WIDEST_BAR = 30;
const NARROWEST = 9;
/** Below this a bar has no room beside it. */
const NARROW = 13;

/**
 * Return how many requests fit side by side.
 *
 * @param {number} width
 */
export function fitting(width) {
  return Math.max(12, Math.min(160, Math.floor((width - GUTTER) / NARROWEST)));
}

/**
 * Return the picture.
 *
 * @param {LedgerRow[]} rows
 * @param {number} width
 * @param {number} selected
 */
export function drawTimeline(rows, width, selected) {
  const slot = Math.min(WIDEST, (width - GUTTER) / Math.max(rows.length, 1));
  const most = niceTop(Math.max(...rows.map((row) => row.size), 1));
  const scale = { slot, most, width, y: (/** @type {number} */ size) => TOP + PLOT - (size / most) * PLOT };
  const chart = svg("svg", {
    class: "chart",
    id: "timeline",
    viewBox: `0 0 ${width} ${CHART_HEIGHT}`,
    height: CHART_HEIGHT,
    role: "group",
    "aria-label": "Requests, oldest first. Arrow keys move, Enter opens.",
  });
  chart.append(...bands(rows, scale), ...grid(scale), ...turns(rows, scale));
  rows.forEach((row, n) => chart.append(bar(row, GUTTER + n * slot, scale, row.number === selected)));
  return chart;
}

/** @typedef {{slot: number, most: number, width: number, y: (size: number) => number}} Scale */

/** @param {number} most */
function niceTop(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((top) => top >= most) ?? most;
}

/** @param {Scale} scale */
function grid(scale) {
  const lines = [];
  for (const part of [0, 0.5, 1]) {
    const y = Math.round(scale.y(scale.most * part)) + 0.5;
    lines.push(svg("line", { class: part ? "grid" : "axis", x1: GUTTER, x2: scale.width, y1: y, y2: y }));
    lines.push(svg("text", { x: GUTTER - 8, y: y + 4, "text-anchor": "end" }, bytes(scale.most * part)));
  }
  return lines;
}

/**
 * @param {LedgerRow[]} rows
 * @param {Scale} scale
 */
function bands(rows, scale) {
  const found = [];
  const y = TOP + PLOT + 20;
  let start = 0;
  let many = 0;
  for (let n = 1; n <= rows.length; n += 1) {
    if (n < rows.length && rows[n].epoch === rows[start].epoch) continue;
    const { epoch } = rows[start];
    const reason = rows[start].epoch_reason ?? rows[start].reason ?? "";
    const x = GUTTER + start * scale.slot;
    const wide = (n - start) * scale.slot;
    many += 1;
    const odd = many % 2 ? " odd" : "";
    if (odd === "") found.push(svg("rect", { class: "band-shade", x, y: TOP, width: wide, height: PLOT }));
    found.push(
      svg(
        "g",
        { "data-epoch": epoch },
        svg("title", null, legible(`epoch of entry ${epoch}: ${reasonWords(reason)}`)),
        svg("rect", {
          class: `band${odd}`,
          x: x + 0.5,
          y,
          width: Math.max(wide - 1, 1),
          height: BAND - 2,
          rx: 3,
        }),
        wide > 20 ? svg("text", { class: "band-text", x: x + 6, y: y + 14 }, cutTo(reason, wide - 10)) : null,
      ),
    );
    start = n;
  }
  return found;
}

/**
 * @param {string} label
 * @param {number} wide
 */
function cutTo(label, wide) {
  const fits = Math.floor(wide / 6.2);
  return label.length <= fits ? label : label.slice(0, Math.max(fits - 1, 1)).trim();
}

/**
 * @param {LedgerRow[]} rows
 * @param {Scale} scale
 */
function turns(rows, scale) {
  /** @type {SVGElement[]} */
  const found = [];
  let free = 0;
  rows.forEach((row, n) => {
    const x = GUTTER + n * scale.slot;
    if ((n && rows[n - 1].turn === row.turn) || x < free) return;
    const label = n === 0 || !free ? `turn ${count(row.turn)}` : count(row.turn);
    found.push(svg("text", { x: x + 2, y: TOP + PLOT + 14 }, label));
    free = x + 12 + label.length * 7;
  });
  return found;
}

/**
 * @param {LedgerRow} row
 * @param {number} x
 * @param {Scale} scale
 * @param {boolean} current
 */
function bar(row, x, scale, current) {
  const { slot, y } = scale;
  const wide = Math.min(Math.max(slot * (slot < NARROW ? 0.78 : 0.6), 3), WIDEST_BAR);
  const column = Math.min(Math.max(slot * 0.12, 1.4), 7);
  const gap = Math.min(Math.max(slot * 0.06, 0.8), 3);
  const inset = slot > 14 ? Math.max((slot - wide - column - gap) / 2, slot * 0.08) : 1;
  const base = y(0);
  const broke = Boolean(row.difference);
  const compacts = broke && isCompaction(row.reason) && !row.unexplained;
  const rounded = Math.min(2, wide / 4);
  const group = svg("g", {
    class: `bar${compacts ? " compaction" : ""}`,
    "data-request": row.number,
    "data-reason": broke ? (row.reason ?? "unexplained") : null,
    tabindex: current ? 0 : -1,
    role: "link",
    "aria-current": current ? "true" : "false",
    "aria-label": words(row),
  });
  group.append(svg("rect", { class: "hit-area", x, y: 2, width: slot, height: base - 2, rx: 3 }));
  const held = Math.min(row.shared_size, row.size);
  group.append(svg("rect", { class: "held", x: x + inset, y: y(held), width: wide, height: base - y(held) }));
  group.append(
    svg("rect", {
      class: "new",
      x: x + inset,
      y: y(row.size),
      width: wide,
      height: Math.max(y(held) - y(row.size) - (held ? 1 : 0), 1),
      rx: rounded,
    }),
  );
  group.append(...cache(row, x + inset + wide + gap, column, scale));
  const letter = row.unexplained ? "!" : reasonLetter(row.reason);
  if (broke) group.append(...breakMark(letter, x + inset + wide / 2, y(row.size)));
  return group;
}

/**
 * What the provider served beside what we expected, at the scale of the bar.
 *
 * @param {LedgerRow} row
 * @param {number} x
 * @param {number} width
 * @param {Scale} scale
 */
function cache(row, x, width, scale) {
  if (!row.input_tokens) return [];
  /** @type {SVGElement[]} */
  const found = [];
  const at = (/** @type {number} */ part) =>
    scale.y((part / /** @type {number} */ (row.input_tokens)) * row.size);
  const base = scale.y(0);
  const expected = Math.min(row.expected_cached_tokens ?? 0, row.input_tokens);
  const column = (/** @type {string} */ look, /** @type {number} */ part) =>
    svg("rect", { class: look, x: x + 0.5, y: at(part), width, height: base - at(part) });
  if (scale.slot < NARROW) {
    // No room for a column: a line across the bar where the cache ended.
    const y = at(row.cached_tokens ?? 0) - 0.75;
    return [
      svg("rect", { class: "served", x: x - scale.slot * 0.84, y, width: scale.slot * 0.78, height: 1.5 }),
    ];
  }
  if (expected) found.push(column("expected", expected));
  if (row.cached_tokens) found.push(column("served", row.cached_tokens));
  return found;
}

/**
 * Return a shield with a letter, whose tip stands above a point.
 *
 * @param {string} letter
 * @param {number} x
 * @param {number} y
 */
export function breakMark(letter, x, y) {
  return [
    svg("path", {
      class: "break",
      d: `M${x - 6.5} ${y - 19}h13v11l-6.5 5l-6.5 -5z`,
      "stroke-linejoin": "round",
    }),
    svg("text", { class: "break-letter", x, y: y - 9.5 }, letter),
  ];
}

/** @param {LedgerRow} row */
export function words(row) {
  const parts = [
    `Request ${row.number}, turn ${row.turn} step ${row.step}`,
    `${bytes(row.size)}, ${share(row.shared_size, row.size)} of it as before`,
    row.input_tokens
      ? `${tokens(row.cached_tokens)} of ${tokens(row.input_tokens)} tokens from the cache`
      : "",
    row.cost ? money(row.cost) : "",
    row.difference
      ? `prefix broke at ${row.difference}: ${row.unexplained ? "unexplained" : reasonWords(row.reason)}`
      : "",
  ];
  return legible(parts.filter(Boolean).join("; "));
}

/** @param {LedgerRow} row */
export function numberOf(row) {
  return `Request ${count(row.number)}`;
}
