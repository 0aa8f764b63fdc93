/**
 * The head of a thread: where it comes from, its name and figures, and the tabs of its views.
 */

import { el, fill } from "./dom.js";
import { href } from "./routes.js";
import { exported } from "./data.js";
import { UNKNOWN, bytes, count, counted, money, place, share } from "./format.js";
import { foreign, legible } from "./text.js";

/** @typedef {import("./types.js").Thread} Thread */

const TABS = [
  ["ledger", "Ledger"],
  ["transcript", "Transcript"],
  ["window", "Window"],
  ["summaries", "Summaries"],
  ["state", "State"],
  ["agents", "Agents"],
  ["plan", "Plan"],
  ["compare", "Compare"],
];
/** @type {Record<string, string>} */
const UNDER = { request: "ledger", diff: "ledger" };

/** @param {Thread} thread */
export function threadName(thread) {
  return legible(thread.name || thread.title || thread.id).slice(0, 200);
}

/**
 * @param {HTMLElement} head
 * @param {Thread} thread
 * @param {string} view
 * @param {import("./types.js").Server} server
 */
export function drawThreadHead(head, thread, view, server) {
  // Focus must not be lost when only the figures change, nor the place where one reads.
  const focused = head.contains(document.activeElement)
    ? document.activeElement?.getAttribute("data-view")
    : null;
  fill(
    head,
    el(
      "div",
      { class: "inner" },
      crumbs(thread),
      line(thread, server),
      facts(thread),
      tabs(thread, UNDER[view] ?? view),
    ),
  );
  if (focused) /** @type {HTMLElement | null} */ (head.querySelector(`[data-view="${focused}"]`))?.focus({ preventScroll: true });
  // The tab stays in sight on a narrow screen.
  const current = /** @type {HTMLElement | null} */ (head.querySelector("[aria-current]"));
  const bar = current?.parentElement;
  if (current && bar) bar.scrollLeft = current.offsetLeft - bar.clientWidth / 2 + current.offsetWidth / 2;
}

/** @param {Thread} thread */
function crumbs(thread) {
  const first = exported() ? null : el("a", { href: href([]) }, "Threads");
  const origin = thread.parent ?? thread.agent_of;
  const family = (thread.family ?? []).filter((each) => each.id !== thread.id);
  return el(
    "nav",
    { class: "crumbs", "aria-label": "Where this thread comes from" },
    first,
    origin && first
      ? [
          el("span", { "aria-hidden": "true" }, "/"),
          el(
            "a",
            { href: href(["threads", origin]) },
            thread.agent_of ? "started by " : "forked from ",
            foreign(nameIn(family, origin)),
          ),
        ]
      : null,
    thread.cut && thread.parent ? el("span", null, `at entry ${count(thread.cut)}`) : null,
    family.length && first
      ? el("a", { href: href(["threads", thread.id, "compare"]) }, counted(family.length, "relative"))
      : null,
  );
}

/**
 * @param {{id: string, name: string}[]} family
 * @param {string} id
 */
function nameIn(family, id) {
  return (family.find((each) => each.id === id)?.name || id).slice(0, 60);
}

/**
 * @param {Thread} thread
 * @param {import("./types.js").Server} server
 */
function line(thread, server) {
  const acts = el("div", { class: "row nowrap" }, state(thread));
  if (!exported())
    acts.append(
      el(
        "a",
        {
          class: "button optional",
          href: `/api/threads/${encodeURIComponent(thread.id)}/export`,
          download: `${thread.id}.html`,
          id: "export",
        },
        "Export",
      ),
    );
  if (server.control) acts.classList.add("controlled");
  return el(
    "div",
    { class: "title-line" },
    el("h1", { id: "thread-title" }, foreign(threadName(thread))),
    acts,
  );
}

/** @param {Thread} thread */
export function state(thread) {
  if (thread.running)
    return el(
      "span",
      { class: "badge accent", title: writer(thread) },
      el("span", { class: "dot pulse" }),
      "running",
    );
  if (thread.writer) return el("span", { class: "badge outline", title: writer(thread) }, "open");
  if (thread.imported) return el("span", { class: "badge warn" }, importedFrom(thread.imported.from));
  return null;
}

/** @type {Record<string, string>} */
const PROGRAMS = { codex: "Codex", "claude-code": "Claude Code", openclaw: "OpenClaw" };

/** @param {string | undefined} program */
function importedFrom(program) {
  const name = PROGRAMS[program ?? ""];
  return name ? `imported from ${name}` : "imported";
}

/**
 * Who writes a thread now, in words; nothing for nobody.
 *
 * @param {Thread} thread
 */
export function writer(thread) {
  const by = thread.writer;
  return by ? legible(`written by ${by.command ?? "a process"}, pid ${by.pid ?? "?"}`) : "";
}

/** @param {Thread} thread */
function facts(thread) {
  const cached = share(thread.cached_tokens, thread.input_tokens);
  const by = thread.writer;
  return el(
    "div",
    { class: "facts" },
    thread.cwd ? el("span", { title: legible(thread.cwd) }, foreign(place(thread.cwd), "mono")) : null,
    thread.model ? el("span", null, foreign(thread.model)) : null,
    thread.harness
      ? el("span", null, foreign(thread.harness), thread.engine ? ` · ${legible(thread.engine)}` : "")
      : null,
    el("span", null, el("b", null, count(thread.turns)), thread.turns === 1 ? " turn" : " turns"),
    el("span", null, el("b", null, count(thread.requests)), thread.requests === 1 ? " request" : " requests"),
    thread.sent
      ? el(
          "span",
          null,
          el("b", null, bytes(thread.sent)),
          " sent, ",
          el("b", null, share(thread.shared, thread.sent)),
          " of it again",
        )
      : null,
    thread.input_tokens ? el("span", null, el("b", null, cached), " from the cache") : null,
    money(thread.cost) === UNKNOWN ? null : el("span", null, el("b", null, money(thread.cost))),
    by
      ? el(
          "span",
          { class: "optional" },
          "written by ",
          foreign(by.command ?? "a process"),
          by.pid ? ` (${by.pid})` : "",
        )
      : null,
  );
}

/**
 * @param {Thread} thread
 * @param {string} view
 */
function tabs(thread, view) {
  const shown = exported() ? TABS.filter(([name]) => name !== "compare") : TABS;
  const links = shown.map(([name, words]) =>
    el(
      "a",
      {
        href: href(["threads", thread.id, name]),
        "data-view": name,
        "aria-current": name === view ? "page" : null,
      },
      words,
    ),
  );
  return el("nav", { class: "tabs", id: "thread-tabs", "aria-label": "Views of this thread" }, links);
}
