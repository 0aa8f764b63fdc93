/**
 * The list of threads, and what a search in all of them finds.
 */

import { el, fill } from "./dom.js";
import { api, fetchJson, query } from "./data.js";
import { href } from "./routes.js";
import { UNKNOWN, ago, bytes, count, counted, money, moment, place, share } from "./format.js";
import { empty, failed, loadInto } from "./states.js";
import { hear } from "./live.js";
import { foreign, legible } from "./text.js";
import { openNewThread } from "./new_thread.js";
import { state, threadName, writer } from "./thread_head.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").Thread} Thread */

const MOST_HITS = 50;

/** @param {Place} where */
export async function showThreads(where) {
  const asked = where.query.get("q");
  if (asked) {
    await showHits(where, asked);
    return;
  }
  await loadInto(
    where.root,
    where.signal,
    () => fetchJson(`/api/threads${query({ limit: 50 })}`, where.signal),
    (page) => draw(where, page),
  );
}

/**
 * @param {Place} where
 * @param {{threads: Thread[], next: string | null}} page
 */
function draw(where, page) {
  if (!page.threads.length) {
    hear("threads", () => showThreads(where), where.signal);
    const act = where.server.control
      ? [el("button", { class: "button main-act", type: "button", on: { click: openNewThread } }, "New thread")]
      : [];
    fill(
      where.root,
      empty(
        "No thread yet",
        'Start one in a terminal with `treadle "…"`, or bring your history along: `treadle import ~/.codex/sessions`.',
        ...act,
      ),
    );
    return;
  }
  const list = el("ul", { class: "list", id: "threads" }, page.threads.map(row));
  const more = el("div", { class: "row" });
  const head = el(
    "div",
    { class: "threads-head", "aria-hidden": "true" },
    ["Thread", "Turns", "Size", "Cached", "Cost"].map((words) => el("span", null, words)),
  );
  fill(
    where.root,
    el(
      "div",
      { class: "section-head" },
      el("h1", null, "Threads"),
      where.server.home ? el("p", { class: "mono" }, foreign(where.server.home)) : null,
    ),
    el("section", { class: "card flush", "aria-label": "Threads" }, head, list),
    more,
  );
  offerMore(where, list, more, page.next);
  const again = soon(async () => {
    const now = await fetchJson(`/api/threads${query({ limit: 50 })}`, where.signal).catch(() => null);
    if (now && !where.signal.aborted) renew(list, now.threads);
  });
  for (const news of ["threads", "running", "open"]) hear(news, again, where.signal);
}

/**
 * Put what is new at its place; the rest of the list and the focus stay.
 *
 * @param {HTMLElement} list
 * @param {Thread[]} threads
 */
function renew(list, threads) {
  const focused = document.activeElement?.getAttribute("data-thread");
  const names = new Set(threads.map((each) => each.id));
  for (const item of [...list.children])
    if (names.has(item.firstElementChild?.getAttribute("data-thread") ?? "")) item.remove();
  list.prepend(...threads.map(row));
  if (focused)
    /** @type {HTMLElement | null} */ (list.querySelector(`[data-thread="${CSS.escape(focused)}"]`))?.focus({ preventScroll: true });
}

/**
 * Return a function that runs `act` once for many calls in a short time.
 *
 * @param {() => void} act
 */
function soon(act) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, 250);
  };
}

/**
 * @param {Place} where
 * @param {HTMLElement} list
 * @param {HTMLElement} box
 * @param {string | null} next
 */
function offerMore(where, list, box, next) {
  if (!next) {
    fill(box);
    return;
  }
  const load = async () => {
    try {
      const page = await fetchJson(`/api/threads${query({ limit: 50, before: next })}`, where.signal);
      list.append(...page.threads.map(row));
      offerMore(where, list, box, page.next);
    } catch (error) {
      if (!where.signal.aborted) fill(box, failed(error, load));
    }
  };
  fill(
    box,
    el(
      "button",
      { class: "button", type: "button", "data-act": "more", on: { click: load } },
      "Earlier threads",
    ),
  );
}

/**
 * A figure that is still being counted is neither nothing nor unknown.
 *
 * @param {Thread} thread
 * @param {string} figure
 */
function counting(thread, figure) {
  return thread.counting && figure === UNKNOWN
    ? el("span", { class: "quiet", title: "is being counted" }, "…")
    : figure;
}

/** @param {Thread} thread */
function row(thread) {
  const cached = thread.input_tokens ? share(thread.cached_tokens, thread.input_tokens) : "–";
  const bad = thread.unexplained
    ? el("span", { class: "badge break" }, `${thread.unexplained} unexplained`)
    : null;
  const kin = thread.agent_of
    ? el("span", { class: "badge" }, "agent")
    : thread.parent
      ? el("span", { class: "badge" }, "fork")
      : null;
  const about = [
    writer(thread),
    place(thread.cwd),
    thread.model,
    [thread.harness, thread.engine].filter(Boolean).join(" · "),
  ].filter(Boolean);
  const link = el(
    "a",
    { class: "thread-link", href: href(["threads", thread.id]), "data-thread": thread.id },
    el("span", { class: "name" }, foreign(threadName(thread)), state(thread), kin, bad),
    el("span", { class: "num" }, count(thread.turns)),
    el("span", { class: "num" }, counting(thread, bytes(thread.bytes))),
    el("span", { class: "num" }, cached),
    el("span", { class: "num" }, counting(thread, money(thread.cost))),
    el(
      "span",
      { class: "below", title: moment(thread.updated) },
      `${ago(thread.updated)} · `,
      about.flatMap((each, n) => [n ? " · " : "", foreign(each)]),
    ),
  );
  return el("li", null, link);
}

/**
 * @param {Place} where
 * @param {string} asked
 */
async function showHits(where, asked) {
  const thread = where.query.get("thread");
  const path = `${api("recall")}${query({ q: asked, thread, limit: MOST_HITS })}`;
  const load = () => fetchJson(path, where.signal);
  await loadInto(where.root, where.signal, load, ({ hits, note }) => {
    if (!hits.length) {
      fill(
        where.root,
        empty(
          "Nothing found",
          `Other words may find it, or fewer.${note ? ` To know: ${note}.` : ""}`,
          el("a", { class: "button", href: href([]) }, "All threads"),
        ),
      );
      return;
    }
    const found = hits.length < MOST_HITS ? counted(hits.length, "place") : `The best ${MOST_HITS} places`;
    fill(
      where.root,
      el(
        "div",
        null,
        el("h1", null, found, " with “", foreign(asked), "”"),
        note ? noted(where, note) : null,
      ),
      el(
        "section",
        { class: "card flush", "aria-label": "Places" },
        el(
          "ul",
          { class: "list", id: "hits" },
          hits.map((/** @type {any} */ each) => hit(each, asked)),
        ),
      ),
    );
  });
}

/**
 * What a search has left out, and the way to it.
 *
 * @param {Place} where
 * @param {string} note
 */
function noted(where, note) {
  return el(
    "p",
    { class: "row quiet small", id: "search-note" },
    foreign(note),
    el("button", { class: "button bare small", type: "button", on: { click: where.again } }, "Search again"),
  );
}

/**
 * @param {any} found
 * @param {string} asked
 */
function hit(found, asked) {
  return el(
    "li",
    null,
    el(
      "a",
      {
        class: "hit",
        href: href(["threads", found.thread, "transcript"], { seq: found.seq }),
        "data-thread": found.thread,
        "data-seq": found.seq,
      },
      el(
        "div",
        { class: "row" },
        el("b", null, foreign(legible(found.name || found.thread).slice(0, 120))),
        el("span", { class: "badge" }, foreign(found.role ?? "")),
        el("span", { class: "quiet small" }, `entry ${count(found.seq)} · ${ago(found.time)}`),
      ),
      el("p", { class: "soft" }, marked(found.snippet ?? "", asked)),
    ),
  );
}

/**
 * Return a text in which the words that were asked for are marked.
 *
 * @param {string} text
 * @param {string} asked
 */
function marked(text, asked) {
  const words = asked.match(/[\p{L}\p{N}_]+/gu) ?? [];
  if (!words.length) return foreign(text);
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(${words.join("|")})`, "giu");
  return text.split(pattern).map((piece, n) => (n % 2 ? el("mark", null, foreign(piece)) : foreign(piece)));
}
