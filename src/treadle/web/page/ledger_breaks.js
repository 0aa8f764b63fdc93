/**
 * The breaks of the prefix with their reasons, and the epochs with what was compacted.
 */

import { el, fill } from "./dom.js";
import { api, fetchJson, query } from "./data.js";
import { href } from "./routes.js";
import { ago, bytes, count, tokens } from "./format.js";
import { isCompaction, reasonWords } from "./kinds.js";
import { failed, waiting } from "./states.js";
import { foreign, legible } from "./text.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").LedgerRow} LedgerRow */
/** @typedef {import("./types.js").EpochRow} EpochRow */

/**
 * @param {HTMLElement} root
 * @param {Place} where
 */
export function showBreaks(root, where) {
  const breaks = el("ul", { class: "event-list", id: "breaks" });
  const epochs = el("ul", { class: "event-list", id: "epochs" });
  fill(
    root,
    el(
      "section",
      { class: "card" },
      el(
        "div",
        { class: "section-head" },
        el("h2", null, "Where the prefix broke"),
        el("p", null, "newest first"),
      ),
      breaks,
    ),
    el(
      "section",
      { class: "card" },
      el("div", { class: "section-head" }, el("h2", null, "Epochs"), el("p", null, "one prefix each")),
      epochs,
    ),
  );
  list(
    breaks,
    where,
    api("threads", where.id, "ledger", "breaks"),
    "requests",
    (row) => breakRow(where.id, row),
    "The prefix never broke.",
    (row) => row.number,
  );
  list(
    epochs,
    where,
    api("threads", where.id, "epochs"),
    "epochs",
    (row) => epochRow(where.id, row),
    "No epoch yet.",
    (row) => row.seq,
  );
}

/**
 * @param {HTMLElement} root
 * @param {Place} where
 * @param {string} path
 * @param {string} key
 * @param {(row: any) => Node} draw
 * @param {string} none
 * @param {(row: any) => number} order
 * @param {number | string | null} [before]
 */
async function list(root, where, path, key, draw, none, order, before = null) {
  if (before === null) fill(root, el("li", null, waiting(3)));
  try {
    const answer = await fetchJson(`${path}${query({ limit: 20, before })}`, where.signal);
    if (where.signal.aborted) return;
    const rows = [...answer[key]].sort((a, b) => order(b) - order(a));
    if (before === null) fill(root);
    root.append(...rows.map(draw));
    if (!root.childElementCount) fill(root, el("li", null, el("p", { class: "quiet" }, none)));
    const next = answer.next ?? (rows.length === 20 ? order(rows[19]) : null);
    if (next === null || next === undefined) return;
    const more = el(
      "li",
      null,
      el("button", { class: "button", type: "button", "data-act": "more" }, "Earlier"),
    );
    more.addEventListener("click", () => {
      more.remove();
      list(root, where, path, key, draw, none, order, next);
    });
    root.append(more);
  } catch (error) {
    if (!where.signal.aborted) fill(root, el("li", null, failed(error)));
  }
}

/**
 * @param {string} thread
 * @param {LedgerRow} row
 */
function breakRow(thread, row) {
  const to =
    row.number > 1
      ? ["threads", thread, "requests", row.number - 1, "diff", row.number]
      : ["threads", thread, "requests", row.number];
  return el(
    "li",
    null,
    el(
      "span",
      { class: row.unexplained ? "badge break" : isCompaction(row.reason) ? "badge accent" : "badge outline" },
      row.unexplained ? "unexplained" : legible(row.reason ?? ""),
    ),
    el("a", { href: href(to), "data-request": row.number }, `Request ${count(row.number)}`),
    el("span", { class: "quiet small num" }, `${bytes(row.size - row.shared_size)} again`),
    el(
      "p",
      null,
      "at ",
      foreign(row.difference),
      " – ",
      row.unexplained ? "no entry says why; this is a defect" : reasonWords(row.reason),
    ),
  );
}

/**
 * @param {string} thread
 * @param {EpochRow} row
 */
function epochRow(thread, row) {
  const requests = row.first_request
    ? row.last_request && row.last_request !== row.first_request
      ? `requests ${count(row.first_request)}–${count(row.last_request)}`
      : `request ${count(row.first_request)}`
    : "no request";
  return el(
    "li",
    { "data-epoch-row": row.seq },
    el("span", { class: isCompaction(row.reason) ? "badge accent" : "badge outline" }, legible(row.reason)),
    row.first_request
      ? el(
          "a",
          { href: href(["threads", thread, "ledger"], { request: row.first_request }) },
          reasonWords(row.reason),
        )
      : el("span", null, reasonWords(row.reason)),
    el("span", { class: "quiet small num" }, ago(row.time)),
    el(
      "p",
      null,
      el("a", { href: href(["threads", thread, "transcript"], { seq: row.seq }) }, `entry ${count(row.seq)}`),
      ` · ${requests}`,
      row.model ? [" · ", foreign(row.model)] : null,
      row.detail ? [" · ", foreign(row.detail)] : null,
      compactedTokens(row.compaction),
    ),
  );
}

/** @param {Record<string, any> | null | undefined} compaction */
function compactedTokens(compaction) {
  if (!compaction) return null;
  const before = compaction.tokens_before ?? compaction.before;
  const after = compaction.tokens_after ?? compaction.after;
  if (before === undefined || after === undefined) return null;
  return ` · compacted ${tokens(before)} into ${tokens(after)} tokens`;
}
