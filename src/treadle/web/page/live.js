/**
 * What happens while one looks: the server's stream of events, handed on as events of `bus`.
 *
 * Owns the one open stream. Invariant: there is never more than one, and when it is lost the page
 * says so and tries again until it is back; views then read again what they show.
 */

import { Refused, exported, fetchJson, query } from "./data.js";

const NAMES = ["threads", "entries", "ledger", "running", "live"];
const PAUSES = [500, 1000, 2000, 4000, 8000];

/**
 * Events: those of the server with its data as `detail`, `open` (from now on nothing is missed),
 * `lost` (with why) and `back`; and `thread`, when the page knows more of the thread it shows.
 */
export const bus = new EventTarget();

/** @type {EventSource | null} */
let source = null;
/** @type {string | null} */
let watched = null;
let failures = 0;
let timer = 0;

/**
 * Follow a thread, or all of them when `thread` is empty.
 *
 * @param {string} thread
 */
export function follow(thread) {
  if (exported() || watched === thread) return;
  watched = thread;
  connect();
}

function connect() {
  clearTimeout(timer);
  source?.close();
  const opened = new EventSource(`/api/events${query({ thread: watched })}`);
  source = opened;
  opened.addEventListener("open", () => {
    if (failures) tell("back", null);
    failures = 0;
    tell("open", null);
  });
  opened.addEventListener("error", () => {
    if (source !== opened) return;
    // The browser's own attempts have no end and no pause that grows; ours do.
    opened.close();
    ask();
    timer = setTimeout(connect, PAUSES[Math.min(failures, PAUSES.length - 1)]);
    failures += 1;
  });
  for (const name of NAMES) {
    opened.addEventListener(name, (event) =>
      tell(name, JSON.parse(/** @type {MessageEvent} */ (event).data)),
    );
  }
}

/** Find out why there is no stream: no server, an old link, or too many pages. */
async function ask() {
  let why = "full";
  try {
    await fetchJson("/api/server");
  } catch (error) {
    why = error instanceof Refused && error.code === "locked" ? "locked" : "gone";
  }
  if (failures) tell("lost", { why });
}

/**
 * Hear events until `signal` ends.
 *
 * @param {string} name
 * @param {(detail: any) => void} heard
 * @param {AbortSignal} signal
 */
export function hear(name, heard, signal) {
  bus.addEventListener(name, (event) => heard(/** @type {CustomEvent} */ (event).detail), { signal });
}

/** Try at once, as the user asked. */
export function reconnect() {
  if (watched !== null) connect();
}

/**
 * Tell those who hear it.
 *
 * @param {string} name
 * @param {any} detail
 */
export function tell(name, detail) {
  bus.dispatchEvent(new CustomEvent(name, { detail }));
}
