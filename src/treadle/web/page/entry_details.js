/**
 * An entry whole: its text in pages, and everything that is stored beside it.
 */

import { el } from "./dom.js";
import { api, query } from "./data.js";
import { openDialog } from "./dialog.js";
import { bytes, count, moment } from "./format.js";
import { foreign, foreignBlock } from "./text.js";
import { textPages } from "./text_pages.js";

/** @typedef {import("./types.js").Entry} Entry */
/** @typedef {import("./types.js").Place} Place */

/**
 * @param {Place} where
 * @param {Entry} entry
 */
export function showWhole(where, entry) {
  const path = (/** @type {number} */ offset) =>
    `${api("threads", where.id, "entries", entry.seq)}${query({ offset })}`;
  const pages = textPages(path, where.signal, (answer) => ({
    text: answer.view?.text ?? answer.text ?? "",
    chars: answer.view?.chars ?? answer.chars,
    next: answer.view?.next ?? answer.next ?? null,
  }));
  openDialog(`Entry ${count(entry.seq)}`, [
    el("p", { class: "quiet small" }, `${count(entry.view.chars)} characters`),
    pages,
  ]);
}

/**
 * @param {Place} where
 * @param {Entry} entry
 */
export function showDetails(where, entry) {
  const fact = (/** @type {string} */ name, /** @type {unknown} */ value) =>
    value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length)
      ? []
      : [el("dt", null, name), el("dd", null, foreign(value))];
  const stored = /** @type {any} */ (entry);
  openDialog(`Entry ${count(entry.seq)}`, [
    el(
      "dl",
      { class: "facts-list" },
      ...fact("kind", entry.kind),
      ...fact("turn, step", `${entry.turn}, ${entry.step}`),
      ...fact("time", moment(entry.time)),
      ...fact("tokens", count(entry.tokens)),
      ...fact("flags", entry.flags?.join(", ")),
      ...fact("visible", entry.visible ? "yes" : "no, rolled back"),
      ...fact("provenance", stored.provenance),
      ...fact("events", stored.events),
      ...fact("fragments", stored.fragments),
      ...fact("made by", stored.origin),
      ...fact("id", stored.id ?? stored.source_id),
      ...fact("thread", stored.thread && stored.thread !== where.id ? stored.thread : ""),
    ),
    el("h3", null, "As it is stored"),
    stored.body_bytes
      ? el(
          "p",
          { class: "quiet small" },
          `${bytes(stored.body_bytes)}; too long to stand here. \`treadle show\` prints it.`,
        )
      : foreignBlock(entry.item ?? entry.control ?? "", "whole-text"),
  ]);
}
