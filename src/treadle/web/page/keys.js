/**
 * Keys of the page. Owns which key does what, and the list of them that `?` shows.
 *
 * Invariant: a key acts only where nobody is writing and nothing stands over the page.
 */

import { el } from "./dom.js";
import { openDialog } from "./dialog.js";

/** @type {Map<string, {words: string, act: () => void}>} */
const bound = new Map();

/** Keys that views handle where they have the focus. */
const OF_VIEWS = [
  ["← →", "the request before, the next one (ledger, request)"],
  ["Home End", "the first, the last of what is shown"],
  ["PgUp PgDn", "a screen of requests back, on (ledger)"],
  ["Enter", "open what has the focus"],
  ["Esc", "close what stands over the page"],
];

/** Where keys are text, or belong to something that stands over the page. */
const WRITTEN = "input:not([type=range], [type=radio]), textarea, select, dialog";

/**
 * Bind a key until `signal` ends.
 *
 * @param {string} key
 * @param {string} words
 * @param {() => void} act
 * @param {AbortSignal} [signal]
 */
export function bindKey(key, words, act, signal) {
  const binding = { words, act };
  bound.set(key, binding);
  signal?.addEventListener("abort", () => {
    if (bound.get(key) === binding) bound.delete(key);
  });
}

export function listenToKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest(WRITTEN)) return;
    const binding = bound.get(event.key);
    if (!binding) return;
    event.preventDefault();
    binding.act();
  });
  bindKey("?", "this list", showKeys);
}

export function showKeys() {
  if (document.getElementById("keys")) return;
  const rows = [...[...bound].map(([key, { words }]) => [key, words]), ...OF_VIEWS];
  const list = rows.flatMap(([keys, words]) => [
    el(
      "dt",
      null,
      keys.split(" ").flatMap((key) => [el("kbd", null, key), " "]),
    ),
    el("dd", null, words),
  ]);
  openDialog("Keys", [el("dl", { class: "keys" }, list)], { box: true, id: "keys" });
}
