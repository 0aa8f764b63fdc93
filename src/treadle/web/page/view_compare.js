/**
 * Two threads side by side: what they have in common, then their own turns.
 */

import { el, fill } from "./dom.js";
import { api, fetchJson, query } from "./data.js";
import { go, href } from "./routes.js";
import { bytes, count, counted, money, share, turnState } from "./format.js";
import { figure } from "./ledger_facts.js";
import { hear } from "./live.js";
import { empty, failed, loadInto } from "./states.js";
import { foreign, legible } from "./text.js";
import { threadName } from "./thread_head.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").Turn} Turn */

/** @param {Place} where */
export async function showCompare(where) {
  const other = where.rest[1];
  const pick = await chooser(where, other);
  const box = el("div");
  fill(where.root, pick, box);
  if (!other) {
    fill(
      box,
      empty(
        "Choose another thread",
        "A fork and what it was forked from show where they part; any two threads show their turns and costs.",
      ),
    );
    return;
  }
  const load = () =>
    Promise.all([
      fetchJson(api("threads", where.id, "compare", other), where.signal),
      fetchJson(api("threads", other), where.signal),
    ]);
  const show = (/** @type {any[]} */ [found, thread]) => draw(where, box, found, thread);
  await loadInto(box, where.signal, load, show);
  // Either of them may grow, and what they cost is counted meanwhile.
  const changed = (/** @type {any} */ told) =>
    (told.threads ?? []).some((/** @type {string} */ id) => id === where.id || id === other);
  hear("threads", (told) => changed(told) && load().then(show, () => undefined), where.signal);
}

/**
 * @param {Place} where
 * @param {string | undefined} other
 */
async function chooser(where, other) {
  const list = el("select", { id: "compare-with", "aria-label": "Compare with" });
  list.append(el("option", { value: "" }, "choose a thread"));
  const family = (where.thread?.family ?? []).filter((each) => each.id !== where.id);
  const page = await fetchJson(`/api/threads${query({ limit: 50 })}`, where.signal).catch(() => ({
    threads: [],
  }));
  const known = new Set(family.map((each) => each.id));
  const rest = page.threads.filter((/** @type {any} */ each) => each.id !== where.id && !known.has(each.id));
  const option = (/** @type {string} */ id, /** @type {string} */ name) =>
    el("option", { value: id, selected: id === other }, legible(name || id).slice(0, 80));
  if (family.length)
    list.append(
      el(
        "optgroup",
        { label: "Relatives" },
        family.map((each) => option(each.id, each.name)),
      ),
    );
  if (rest.length)
    list.append(
      el(
        "optgroup",
        { label: "Other threads" },
        rest.map((/** @type {any} */ each) => option(each.id, threadName(each))),
      ),
    );
  if (other && !known.has(other) && !rest.some((/** @type {any} */ each) => each.id === other))
    list.append(option(other, other));
  list.addEventListener("change", () => list.value && go(href(["threads", where.id, "compare", list.value])));
  return el("div", { class: "row" }, el("h2", null, "Side by side with"), list);
}

/**
 * @param {Place} where
 * @param {HTMLElement} box
 * @param {any} found
 * @param {import("./types.js").Thread} thread
 */
function draw(where, box, found, thread) {
  if (!where.thread) {
    fill(box, failed(new Error("the thread is not known")));
    return;
  }
  const common = found.common;
  const words = common
    ? el(
        "p",
        { class: "hint calm" },
        el("b", null, "They share their start "),
        `up to entry ${count(common.seq)}${common.turn ? `, turn ${count(common.turn)}` : ""}.`,
      )
    : el("p", { class: "hint" }, "These threads have no entry in common.");
  const sides = [
    side(where.thread, "a", found.a, found.totals?.a, common),
    side(thread, "b", found.b, found.totals?.b, common),
  ];
  const rows = Math.max(...sides.map((each) => each.querySelectorAll(":scope > :not(ol), li").length));
  for (const each of sides) each.style.setProperty("--rows", String(rows));
  fill(box, el("div", { class: "stack wide" }, words, el("div", { class: "sides" }, sides)));
}

/**
 * @param {import("./types.js").Thread} thread
 * @param {string} name
 * @param {Turn[]} turns
 * @param {any} totals
 * @param {any} common
 */
function side(thread, name, turns, totals, common) {
  const own = (turns ?? []).filter((turn) => !common?.turn || turn.number > common.turn);
  const joint = (turns ?? []).length - own.length;
  return el(
    "section",
    { class: "side", "data-side": name, "aria-label": threadName(thread) },
    el("h2", null, el("a", { href: href(["threads", thread.id]) }, foreign(threadName(thread)))),
    el(
      "p",
      { class: "quiet small" },
      thread.model ? [foreign(thread.model), " · "] : null,
      counted(totals?.turns ?? thread.turns, "turn"),
    ),
    el(
      "dl",
      { class: "figures" },
      figure("Requests", count(totals?.requests), ""),
      figure("Sent", bytes(totals?.sent), `${share(totals?.shared, totals?.sent)} again`),
      figure("From the cache", share(totals?.cached_tokens, totals?.input_tokens), ""),
      figure("Cost", money(totals?.cost ?? thread.cost), ""),
    ),
    el(
      "ol",
      null,
      common?.turn || joint
        ? el("li", { class: "joint" }, `turns 1 to ${count(common?.turn ?? joint)} are the same`)
        : null,
      own.map((turn) => turnRow(thread.id, turn)),
      own.length ? null : el("li", { class: "joint" }, "no turn of its own"),
    ),
  );
}

/**
 * @param {string} thread
 * @param {Turn} turn
 */
function turnRow(thread, turn) {
  const facts = [
    turn.state ? turnState(turn.state) : "",
    turn.steps ? counted(turn.steps, "step") : "",
    turn.cost ? money(turn.cost) : "",
    turn.model ?? "",
  ]
    .filter(Boolean)
    .join(" · ");
  return el(
    "li",
    { "data-turn": turn.number },
    el(
      "div",
      { class: "row apart" },
      el(
        "a",
        { href: href(["threads", thread, "transcript"], { seq: turn.first ?? null }) },
        `Turn ${count(turn.number)}`,
      ),
      el("span", { class: "quiet small" }, foreign(facts)),
    ),
    el("p", null, foreign(turn.text ?? "")),
    turn.answer ? el("p", { class: "answer" }, foreign(turn.answer)) : null,
  );
}
