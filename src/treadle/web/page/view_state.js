/**
 * What the model was told of its surroundings, and when: only the differences, as they were sent.
 */

import { el, fill } from "./dom.js";
import { api, fetchJson, query } from "./data.js";
import { href } from "./routes.js";
import { count } from "./format.js";
import { empty, failed, loadInto } from "./states.js";
import { foreign, foreignBlock } from "./text.js";

/** @typedef {import("./types.js").Place} Place */

/** @type {Record<string, string>} */
const OPS = {
  full: "sent in full",
  start: "sent in full",
  change: "changed",
  changed: "changed",
  removed: "removed",
  recorded: "recorded, not sent",
};

/** @param {Place} where */
export async function showState(where) {
  const path = api("threads", where.id, "state");
  await loadInto(
    where.root,
    where.signal,
    () => fetchJson(`${path}${query({ limit: 50 })}`, where.signal),
    (page) => {
      if (!page.changes.length) {
        fill(
          where.root,
          empty(
            "The model was told nothing",
            "Fragments such as the environment, permissions and AGENTS.md appear here, each with what changed.",
          ),
        );
        return;
      }
      const list = el("ol", { class: "changes", id: "changes" });
      const more = el("div", { class: "row" });
      fill(
        where.root,
        el(
          "div",
          null,
          el("h2", null, "What the model was told, and when"),
          el(
            "p",
            { class: "quiet small" },
            "Newest first. After the first time only the difference is sent, so that the prefix stays.",
          ),
        ),
        el("section", { class: "card flush" }, list),
        more,
      );
      add(where, list, more, path, page);
    },
  );
}

/**
 * @param {Place} where
 * @param {HTMLElement} list
 * @param {HTMLElement} more
 * @param {string} path
 * @param {any} page
 */
function add(where, list, more, path, page) {
  const changes = [...page.changes].sort((a, b) => b.seq - a.seq);
  list.append(...changes.map((each) => row(where, each)));
  const next = page.next ?? (changes.length === 50 ? changes.at(-1).seq : null);
  if (next === null || next === undefined) {
    fill(more);
    return;
  }
  const load = async () => {
    try {
      add(
        where,
        list,
        more,
        path,
        await fetchJson(`${path}${query({ limit: 50, before: next })}`, where.signal),
      );
    } catch (error) {
      if (!where.signal.aborted) fill(more, failed(error, load));
    }
  };
  fill(
    more,
    el(
      "button",
      { class: "button", type: "button", "data-act": "more", on: { click: load } },
      "Earlier changes",
    ),
  );
}

/**
 * @param {Place} where
 * @param {any} change
 */
function row(where, change) {
  return el(
    "li",
    { "data-fragment": change.fragment, "data-seq": change.seq },
    el(
      "div",
      null,
      el(
        "a",
        { href: href(["threads", where.id, "transcript"], { seq: change.seq }) },
        `entry ${count(change.seq)}`,
      ),
      el("p", { class: "quiet small" }, change.turn ? `turn ${count(change.turn)}` : "before the first turn"),
    ),
    el(
      "div",
      { class: "stack" },
      el(
        "div",
        { class: "row" },
        el("b", null, foreign(change.fragment)),
        change.op ? el("span", { class: "badge" }, OPS[change.op] ?? foreign(change.op)) : null,
      ),
      change.text ? foreignBlock(change.text) : el("p", { class: "quiet small" }, "no text was sent"),
      change.cut ? el("p", { class: "quiet small" }, "cut; the entry has all of it") : null,
    ),
  );
}
