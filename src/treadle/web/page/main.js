/**
 * The inspector starts here. Owns the way from an address to a view.
 *
 * Invariant: one view lives at a time; its signal ends before the next one starts, and with it
 * every listener, request and timer of the view.
 *
 * What tests may rely on, all of it stable:
 * - `#top #main #foot #live #skip`; `#search` (the search field), `#theme` (the switch), `#help`,
 *   `#new-thread` (only with control), `#thread-tabs a[data-view]`, `#thread-title`, `#lost` (no server)
 * - `body[data-view]` names the view: threads, recall, ledger, request, diff, window, summaries,
 *   transcript, state, agents, plan, compare, locked, missing; `body[data-ready="true"]` once it is drawn
 * - `[data-state="loading|empty|error"]` in place of content
 * - threads: `a.thread-link[data-thread]`, recall: `a.hit[data-thread][data-seq]`
 * - ledger: `#timeline` with `[data-request]` bars (one has `tabindex=0`), `data-reason` on breaks,
 *   `[data-epoch]` bands, `#overview` (a slider), `#request-facts`, `#breaks a[data-request]`
 * - request: `tr[data-position][data-part]`, `#raw`, `#verify`, `#verdict[data-same]`, `#to-diff`
 * - diff: `[data-op]` segments with `[data-line]` lines, `#diff-a`, `#diff-b`, `#diff-reason`
 * - window: `#now [data-kind]`, `#series [data-kind]`, `#largest li[data-seq]`, `#unreferred li[data-seq]`
 * - summaries: `#dag [data-node]` with `data-in-view`, `#dag-request`, `#sheet` with text and entries
 * - transcript: `[data-list="virtual"]`, `article[data-seq][data-kind][data-visible]`, `[data-act]` on
 *   every button, `#live-turn`, `#composer` `#say` `#send` `#interrupt`, `[data-question]`
 * - state: `li[data-fragment]`; agents: `li[data-agent]`; plan: `section[data-domain]`
 * - compare: `#compare-with`, `[data-side="a|b"] li[data-turn]`; dialogs: `#sheet`, `#keys`, `#new`
 */

import { announce, byId, el, fill } from "./dom.js";
import { Refused, api, exported, fetchJson, openSession } from "./data.js";
import { closeDialogs } from "./dialog.js";
import { follow, hear, tell } from "./live.js";
import { go, here, href, takeToken } from "./routes.js";
import { bindKey, listenToKeys } from "./keys.js";
import { applyTheme, watchTheme } from "./theme.js";
import { empty, failed, waiting } from "./states.js";
import { showFoot, showTop } from "./top.js";
import { drawThreadHead, threadName } from "./thread_head.js";
import { showThreads } from "./view_threads.js";
import { showLedger } from "./view_ledger.js";
import { showRequest } from "./view_request.js";
import { showDiff } from "./view_diff.js";
import { showWindow } from "./view_window.js";
import { showSummaries } from "./view_summaries.js";
import { showTranscript } from "./view_transcript.js";
import { showState } from "./view_state.js";
import { showAgents } from "./view_agents.js";
import { showPlan } from "./view_plan.js";
import { showCompare } from "./view_compare.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {(place: Place) => Promise<void> | void} View */

/** @type {Record<string, View>} */
const VIEWS = {
  ledger: showLedger,
  transcript: showTranscript,
  window: showWindow,
  summaries: showSummaries,
  state: showState,
  agents: showAgents,
  plan: showPlan,
  compare: showCompare,
};

/** @type {import("./types.js").Server} */
let server = { version: "", control: false };
let ending = new AbortController();
/** @type {{id: string, head: HTMLElement, box: HTMLElement} | null} */
let drawn = null;

async function start() {
  applyTheme();
  watchTheme(applyTheme);
  listenToKeys();
  const token = takeToken();
  try {
    if (token) await openSession(token);
    server = await fetchJson("/api/server");
  } catch (error) {
    locked(error);
    return;
  }
  showTop(server);
  showFoot();
  // The fragment of the address names a view, so the link must not change it.
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  bindKey("t", "all threads", () => go(href([])));
  addEventListener("hashchange", arrive);
  hear("back", arrive, new AbortController().signal);
  await arrive();
}

/** @param {unknown} error */
function locked(error) {
  document.body.dataset.view = "locked";
  const known = error instanceof Refused && error.code === "locked";
  const words =
    "Open the link that `treadle web` has printed: it carries the token, and a token holds as long as its server runs.";
  fill(byId("main"), known ? empty("This page is locked", words) : failed(error, () => location.reload()));
  document.body.dataset.ready = "true";
}

async function arrive() {
  ending.abort();
  ending = new AbortController();
  const { signal } = ending;
  closeDialogs();
  const { parts, query } = here();
  document.body.dataset.ready = "false";
  if (parts[0] === "threads" && parts[1]) await arriveAtThread(parts[1], parts.slice(2), query, signal);
  else await arriveAtThreads(query, signal);
  if (!signal.aborted) document.body.dataset.ready = "true";
}

/**
 * @param {URLSearchParams} query
 * @param {AbortSignal} signal
 */
async function arriveAtThreads(query, signal) {
  drawn = null;
  const only = exported()?.thread;
  if (only) {
    location.replace(href(["threads", only]));
    return;
  }
  follow("");
  const root = el("div", { class: "page" });
  fill(byId("main"), root);
  byId("main").scrollTop = 0;
  title(query.get("q") ? `“${query.get("q")}”` : "Threads", query.get("q") ? "recall" : "threads");
  await run(showThreads, { root, server, id: "", rest: [], query, signal, again: arrive });
}

/**
 * @param {string} id
 * @param {string[]} rest
 * @param {URLSearchParams} query
 * @param {AbortSignal} signal
 */
async function arriveAtThread(id, rest, query, signal) {
  const place = placeOf(id);
  const [name, view] = viewOf(rest);
  /** @type {import("./types.js").Thread} */
  let thread;
  if (!place.head.childElementCount) fill(place.box, waiting());
  try {
    thread = await fetchJson(api("threads", id), signal);
  } catch (error) {
    if (signal.aborted) return;
    title("No such thread", "missing");
    fill(place.box, el("div", { class: "page" }, failed(error, arrive)));
    return;
  }
  if (signal.aborted) return;
  // Not before it is known: the server follows no thread that there is not.
  follow(id);
  const draw = (/** @type {import("./types.js").Thread} */ now) =>
    drawThreadHead(place.head, now, name, server);
  draw(thread);
  const root = el("div", { class: "page" });
  const shown = { root, server, thread, id, rest, query, signal, again: arrive };
  const again = async () => {
    const now = await fetchJson(api("threads", id), signal).catch(() => null);
    if (!now || signal.aborted) return;
    shown.thread = now;
    draw(now);
    tell("thread", now);
  };
  hear("running", again, signal);
  hear("ledger", again, signal);
  // What it cost is counted while one looks; that may have ended before the stream was open.
  for (const news of ["threads", "open"]) hear(news, () => shown.thread.counting && again(), signal);
  title(`${threadName(thread)} · ${name}`, name);
  fill(place.box, root);
  if (!query.has("seq")) byId("main").scrollTop = 0;
  await run(view, shown);
}

/**
 * Return where a thread is drawn; its head stays while one goes from view to view.
 *
 * @param {string} id
 */
function placeOf(id) {
  if (drawn?.id === id) return drawn;
  const head = el("div", { class: "thread-head" });
  const box = el("div", { id: "view" });
  fill(byId("main"), head, box);
  drawn = { id, head, box };
  return drawn;
}

/**
 * @param {string[]} rest
 * @returns {[string, View]}
 */
function viewOf(rest) {
  if (rest[0] === "requests") return rest[2] === "diff" ? ["diff", showDiff] : ["request", showRequest];
  const name = rest[0] && rest[0] in VIEWS ? rest[0] : "ledger";
  return [name, VIEWS[name]];
}

/**
 * @param {View} view
 * @param {Place} place
 */
async function run(view, place) {
  try {
    await view(place);
  } catch (error) {
    if (place.signal.aborted) return;
    fill(place.root, failed(error, arrive));
  }
}

/**
 * @param {string} words
 * @param {string} view
 */
function title(words, view) {
  document.title = `${words} · Treadle`;
  document.body.dataset.view = view;
  announce(words);
}

start();
