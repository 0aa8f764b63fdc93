/**
 * The turn plan: every policy of a turn, decided before it began.
 */

import { el, fill } from "./dom.js";
import { api, fetchJson, query } from "./data.js";
import { go, href } from "./routes.js";
import { bindKey } from "./keys.js";
import { count } from "./format.js";
import { empty, loadInto } from "./states.js";
import { foreign } from "./text.js";
import { valueTree } from "./value_tree.js";

/** @typedef {import("./types.js").Place} Place */

/** @type {Record<string, string>} */
const QUESTIONS = {
  target: "which model, at which address",
  transport: "how requests travel",
  harness: "who runs the steps, and why",
  auth: "which account pays, which is next",
  tools: "in which form tools are offered",
  hooks: "which hooks are called, and when",
  prompt: "which text some models get in addition",
  transcript: "which items are shown differently than stored",
  params: "which other parameters a request has",
  outcome: "was that an answer, which candidate is next",
  limits: "how far the turn may go",
  pricing: "how its answers are charged",
  delivery: "who receives the reply",
  attempts: "requests that failed, and why",
  notices: "what the runtime noted",
};

/** What has no content is told in one line. */
const NOTHING = { attempts: "No request failed.", notices: "Nothing to note." };

/** @param {Place} where */
export async function showPlan(where) {
  const last = where.thread?.turns ?? 0;
  if (!last) {
    fill(where.root, empty("No turn yet", "The plan of each turn appears here when it begins."));
    return;
  }
  const turn = Math.min(Math.max(Number(where.query.get("turn")) || last, 1), last);
  await loadInto(
    where.root,
    where.signal,
    () =>
      fetchJson(`${api("threads", where.id, "plan")}${turn === last ? "" : query({ turn })}`, where.signal),
    (answer) => draw(where, answer, turn, last),
  );
  const to = (/** @type {number} */ at) => () => at >= 1 && at <= last && go(place(where, at));
  bindKey("ArrowLeft", "the turn before", to(turn - 1), where.signal);
  bindKey("ArrowRight", "the next turn", to(turn + 1), where.signal);
}

/**
 * @param {Place} where
 * @param {number} turn
 */
function place(where, turn) {
  return href(["threads", where.id, "plan"], { turn });
}

/**
 * @param {Place} where
 * @param {any} answer
 * @param {number} turn
 * @param {number} last
 */
function draw(where, answer, turn, last) {
  const { plan } = answer;
  const domains = Object.entries(plan).filter(([, value]) => !isEmpty(value));
  const missing = Object.entries(NOTHING).filter(([name]) => isEmpty(plan[name]));
  fill(
    where.root,
    el(
      "div",
      { class: "row apart" },
      el(
        "div",
        null,
        el("h2", null, `The plan of turn ${count(turn)}`),
        el(
          "p",
          { class: "quiet small" },
          "Every policy of a turn is decided before it begins, in one value. Harnesses carry it out and decide nothing.",
        ),
      ),
      steps(where, turn, last),
    ),
    el("div", { class: "domains" }, domains.map(domain)),
    missing.length
      ? el("p", { class: "quiet", id: "plan-nothing" }, missing.map(([, words]) => words).join(" "))
      : null,
  );
}

/**
 * @param {Place} where
 * @param {number} turn
 * @param {number} last
 */
function steps(where, turn, last) {
  const step = (/** @type {number} */ to, /** @type {string} */ words, /** @type {string} */ sign) =>
    to < 1 || to > last
      ? null
      : el(
          "a",
          {
            class: "button bare",
            href: place(where, to),
            "aria-label": words,
            title: words,
            "data-act": words,
          },
          sign,
        );
  return el(
    "div",
    { class: "row" },
    step(turn - 1, "the turn before", "←"),
    el("span", { class: "quiet small" }, `${count(turn)} of ${count(last)}`),
    step(turn + 1, "the next turn", "→"),
  );
}

/** @param {[string, unknown]} told */
function domain([name, value]) {
  return el(
    "section",
    { class: "card domain", "data-domain": name },
    el("div", { class: "section-head" }, el("h2", null, foreign(name)), el("p", null, QUESTIONS[name] ?? "")),
    el("div", { class: "value-tree" }, valueTree(value)),
  );
}

/** @param {unknown} value */
function isEmpty(value) {
  return value === null || value === undefined || (Array.isArray(value) && !value.length);
}
