/**
 * One entry of the log as people read it. Owns how each kind looks.
 *
 * Invariant: whatever an entry says is text; what is long is cut here and read whole on demand.
 */

import { el } from "./dom.js";
import { api, exported } from "./data.js";
import { href } from "./routes.js";
import { clock, count, moment, tokens } from "./format.js";
import { changesOf } from "./lines.js";
import { foreign, foreignBlock, legible, plain } from "./text.js";
import { showDetails, showWhole } from "./entry_details.js";

/** @typedef {import("./types.js").Entry} Entry */
/** @typedef {import("./types.js").Place} Place */

/** Kinds that are one line: what happened, not what was said. */
const SLIM = new Set(["request", "response", "settings", "completion", "epoch"]);
const CODE = new Set(["output", "unreadable", "other"]);
/** Kinds whose text stands in a box of its own, as it was told. */
const BOXED = new Set(["context", "settings"]);
/** What a person or a hook decided about a call. */
const DECISIONS = new Set(["approval", "hook"]);

/** @type {Record<string, string>} */
const TITLES = {
  user: "User",
  assistant: "Model",
  thinking: "Reasoning",
  context: "Context",
  summary: "Summary",
};
const PLAIN = new Set(["user", "assistant", "developer", "system", "thinking", "context", "summary"]);

/**
 * Return who or what an entry is.
 *
 * @param {import("./types.js").EntryView} view
 */
function titleOf(view) {
  if (view.kind === "call" && view.call?.name) return view.call.name;
  if (view.kind === "output") return view.call?.name ? `Result of ${view.call.name}` : "Result";
  const title = view.title ?? view.kind;
  const named = PLAIN.has(title) ? (TITLES[view.kind] ?? title) : title;
  return named.charAt(0).toUpperCase() + named.slice(1);
}

/**
 * A digest is told by its start; the details have all of it.
 *
 * @param {string} text
 */
function shortened(text) {
  return text.replace(/\b([0-9a-f]{10})[0-9a-f]{20,}\b/g, "$1…").replace(/\s*\n\s*/g, " · ");
}

/**
 * @param {Place} where
 * @param {Entry} entry
 */
export function drawEntry(where, entry) {
  const { view } = entry;
  const slim = SLIM.has(view.kind) && !view.diff && (view.text ?? "").length < 200;
  const seq = el(
    "a",
    {
      class: "seq",
      href: href(["threads", where.id, "transcript"], { seq: entry.seq }),
      title: moment(entry.time),
      "aria-label": `entry ${entry.seq}`,
    },
    count(entry.seq),
  );
  return el(
    "article",
    {
      class: `entry${slim ? " slim" : ""}`,
      "data-seq": entry.seq,
      "data-kind": view.kind,
      "data-visible": String(entry.visible),
      "aria-label": legible(`${titleOf(view)}, entry ${entry.seq}`),
    },
    seq,
    el("div", null, head(where, entry, slim), slim ? null : body(where, entry)),
  );
}

/**
 * The kind and the state of an entry are told in other ways than by a badge.
 *
 * @param {string} badge
 */
function told(badge) {
  return badge !== "rolled back" && badge !== "context";
}

/**
 * @param {Place} where
 * @param {Entry} entry
 * @param {boolean} slim
 */
function head(where, entry, slim) {
  const { view } = entry;
  const title = titleOf(view);
  const number = /** @type {any} */ (view).request_number;
  const badges = (view.badges ?? [])
    .filter(told)
    .map((each) =>
      el(
        "span",
        { class: `badge${/refus|fail|error|denied|damaged/.test(each) ? " break" : ""}` },
        foreign(each),
      ),
    );
  return el(
    "div",
    { class: "head" },
    el("b", null, foreign(title)),
    slim && view.text ? el("span", { class: "clipped" }, foreign(shortened(view.text))) : null,
    number
      ? el("a", { href: href(["threads", where.id, "requests", number]) }, `request ${count(number)}`)
      : null,
    badges,
    entry.visible ? null : el("span", { class: "badge outline" }, "rolled back"),
    view.verdict ? el("span", { class: "badge outline" }, foreign(plain(view.verdict).slice(0, 120))) : null,
    entry.tokens ? el("span", { class: "quiet small" }, `${tokens(entry.tokens)} tok`) : null,
    el("span", { class: "quiet small" }, clock(entry.time)),
    el(
      "button",
      {
        class: "button bare small more",
        type: "button",
        "data-act": "details",
        "aria-label": `Details of entry ${entry.seq}`,
        on: { click: () => showDetails(where, entry) },
      },
      "Details",
    ),
  );
}

/**
 * @param {Place} where
 * @param {Entry} entry
 */
function body(where, entry) {
  const { view } = entry;
  const parts = [];
  const called = view.kind === "call" && view.call;
  // A patch reads as what it changes, a call as what it was given.
  if (called && !view.diff?.length) parts.push(foreignBlock(argumentsOf(view.call), "arguments"));
  if (view.text && !called) parts.push(foreignBlock(view.text, lookOf(view)));
  if (view.diff?.length) parts.push(...changesOf(view.diff));
  for (const n of view.images ?? []) parts.push(image(where, entry, n));
  if (view.cut)
    parts.push(
      el(
        "div",
        { class: "row" },
        el(
          "button",
          {
            class: "button",
            type: "button",
            "data-act": "whole",
            on: { click: () => showWhole(where, entry) },
          },
          `Show all ${count(view.chars)} characters`,
        ),
      ),
    );
  return el("div", { class: "body stack" }, parts);
}

/** @param {import("./types.js").EntryView} view */
function lookOf(view) {
  if (CODE.has(view.kind)) return "output shaded";
  if (BOXED.has(view.kind)) return "said shaded";
  return DECISIONS.has(view.kind) && /^(refused|a hook (that failed )?stopped)/.test(view.text ?? "")
    ? "said denied"
    : "said";
}

/** @param {{name: string, arguments: string | object} | undefined} call */
function argumentsOf(call) {
  const given = call?.arguments ?? "";
  if (typeof given !== "string") return plain(given);
  try {
    const value = JSON.parse(given);
    // A command reads best as it would be typed.
    const only =
      typeof value === "object" && value ? (value.cmd ?? value.command ?? value.input ?? null) : null;
    if (typeof only === "string") {
      const { cmd, command, input, ...rest } = value;
      return Object.keys(rest).length ? `${only}\n${JSON.stringify(rest)}` : only;
    }
    return JSON.stringify(value, null, 2);
  } catch {
    return given;
  }
}

/**
 * @param {Place} where
 * @param {Entry} entry
 * @param {number} n
 */
function image(where, entry, n) {
  if (exported()) return el("p", { class: "quiet small" }, "An image; it is not in this file.");
  const shown = el("img", {
    src: api("threads", where.id, "entries", entry.seq, "images", n),
    alt: `image ${n + 1} of entry ${entry.seq}`,
    loading: "lazy",
  });
  shown.addEventListener("error", () =>
    shown.replaceWith(el("p", { class: "quiet small" }, "An image that cannot be shown.")),
  );
  return shown;
}
