/**
 * The agents that a thread started, as a tree, each with what it cost.
 */

import { el, fill } from "./dom.js";
import { api, fetchJson } from "./data.js";
import { href } from "./routes.js";
import { count, counted, money, share, together, tokens } from "./format.js";
import { empty, loadInto } from "./states.js";
import { hear } from "./live.js";
import { foreign, legible } from "./text.js";

/** @typedef {import("./types.js").Place} Place */

/** @param {Place} where */
export async function showAgents(where) {
  const path = api("threads", where.id, "agents");
  const draw = (/** @type {any} */ { tree }) => {
    if (!tree || !(tree.children ?? []).length) {
      fill(
        where.root,
        empty("No agents", "This thread has started no other. A model does so with the tool `spawn_agent`."),
      );
      return;
    }
    const all = flat(tree);
    fill(
      where.root,
      el(
        "div",
        null,
        el("h2", null, "Agents"),
        el(
          "p",
          { class: "quiet small" },
          `${counted(all.length - 1, "agent")} in this tree. The costs of each are its own; together ${together(all.map((each) => each.cost))}.`,
        ),
      ),
      el("ul", { class: "tree", id: "agents" }, node(where, tree)),
    );
  };
  await loadInto(where.root, where.signal, () => fetchJson(path, where.signal), draw);
  const again = () =>
    fetchJson(path, where.signal)
      .then(draw)
      .catch(() => undefined);
  hear("running", again, where.signal);
  hear("threads", again, where.signal);
}

/**
 * @param {any} tree
 * @returns {any[]}
 */
function flat(tree) {
  return [tree, ...(tree.children ?? []).flatMap(flat)];
}

/**
 * @param {Place} where
 * @param {any} each
 * @returns {HTMLElement}
 */
function node(where, each) {
  const own = each.thread === where.id;
  const figure = (/** @type {string} */ value, /** @type {string} */ name, more = "") =>
    el("span", { class: `num ${more}` }, value, el("small", null, name));
  const name = legible(each.name || each.thread);
  return el(
    "li",
    { "data-agent": each.thread },
    el(
      "div",
      { class: own ? "agent self" : "agent" },
      el(
        "div",
        { class: "row" },
        own ? el("b", null, foreign(name)) : el("a", { href: href(["threads", each.thread]) }, foreign(name)),
        each.role ? el("span", { class: "badge" }, foreign(each.role)) : null,
        each.state
          ? el(
              "span",
              {
                class: /run/.test(each.state)
                  ? "badge accent"
                  : /fail|error/.test(each.state)
                    ? "badge break"
                    : "badge outline",
              },
              foreign(each.state),
            )
          : null,
      ),
      figure(count(each.turns), "turns", "optional"),
      figure(tokens(each.input_tokens), "tokens in", "optional"),
      figure(share(each.cached_tokens, each.input_tokens), "cached"),
      figure(money(each.cost), "cost"),
    ),
    (each.children ?? []).length
      ? el(
          "ul",
          null,
          each.children.map((/** @type {any} */ child) => node(where, child)),
        )
      : null,
  );
}
