/**
 * What a view shows instead of content: that it waits, that there is nothing, that it failed.
 */

import { el, fill } from "./dom.js";
import { Refused, exported } from "./data.js";
import { foreign } from "./text.js";

/** Return lines that stand for what is being loaded. */
export function waiting(lines = 6) {
  const box = el("div", {
    class: "waiting",
    role: "status",
    "aria-label": "Loading",
    "data-state": "loading",
  });
  for (let n = 0; n < lines; n += 1) box.append(el("i", { class: "pulse" }));
  return box;
}

/**
 * @param {string} title
 * @param {string} words
 * @param {...(Node | null)} acts
 */
export function empty(title, words, ...acts) {
  return el(
    "div",
    { class: "empty", "data-state": "empty" },
    el("h2", null, title),
    el("p", null, ...coded(words)),
    acts.length ? el("div", { class: "row" }, acts) : null,
  );
}

/**
 * @param {unknown} error
 * @param {() => void} [again]
 */
export function failed(error, again) {
  const message = error instanceof Error ? error.message : String(error);
  const words = error instanceof Refused ? coded(message) : [foreign(message)];
  const act =
    again && !exported()
      ? el("button", { class: "button", type: "button", on: { click: again } }, "Try again")
      : null;
  return el(
    "div",
    { class: "problem row apart", role: "alert", "data-state": "error" },
    el("p", { class: "grow" }, ...words),
    act,
  );
}

/**
 * Load something into a place: lines while it waits, the error if it fails.
 *
 * @template T
 * @param {Element} root
 * @param {AbortSignal} signal
 * @param {() => Promise<T>} load
 * @param {(value: T) => void} draw
 */
export async function loadInto(root, signal, load, draw) {
  // A wait too short to see shows nothing.
  const timer = setTimeout(() => fill(root, waiting()), 120);
  try {
    const value = await load();
    clearTimeout(timer);
    if (!signal.aborted) draw(value);
  } catch (error) {
    clearTimeout(timer);
    if (signal.aborted) return;
    // What is not there is not there a second time either.
    const gone = error instanceof Refused && error.code === "not_found";
    fill(root, failed(error, gone ? undefined : () => loadInto(root, signal, load, draw)));
  }
}

/**
 * Return words, with what stands between backquotes as code.
 *
 * @param {string} words
 */
export function coded(words) {
  return words.split("`").map((piece, n) => (n % 2 ? el("code", null, foreign(piece)) : foreign(piece)));
}
