/**
 * The summaries of the lossless engine over the log, and which of them the model saw at a request.
 */

import { el, fill } from "./dom.js";
import { api, exported, fetchJson, query } from "./data.js";
import { href, rename } from "./routes.js";
import { openDialog } from "./dialog.js";
import { count, counted, moment, tokens } from "./format.js";
import { drawDag } from "./chart_dag.js";
import { empty, failed, loadInto, waiting } from "./states.js";
import { foreign, foreignBlock } from "./text.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").SummaryNode} SummaryNode */

/** @param {Place} where */
export async function showSummaries(where) {
  const asked = where.query.get("request");
  const path = (/** @type {number | string | null} */ request) =>
    `${api("threads", where.id, "summaries")}${query({ request })}`;
  await loadInto(
    where.root,
    where.signal,
    () => fetchJson(path(asked), where.signal),
    (found) => {
      if (!found.nodes.length) {
        const engine = where.thread?.engine;
        const words =
          engine && engine !== "lossless"
            ? `This thread uses the engine ${engine}. Summaries like these are made by the engine lossless.`
            : "The conversation still fits into the window, so nothing was summarised.";
        fill(where.root, empty("No summary yet", words));
        return;
      }
      draw(where, found, asked ? Number(asked) : (where.thread?.requests ?? 1), path);
    },
  );
}

/**
 * @param {Place} where
 * @param {any} found
 * @param {number} at
 * @param {(request: number) => string} path
 */
function draw(where, found, at, path) {
  const last = where.thread?.requests ?? at;
  const range = el("input", {
    type: "range",
    id: "dag-request",
    min: 1,
    max: Math.max(last, 1),
    value: at,
    "aria-label": "At which request",
  });
  const told = el("output", { class: "num" }, `request ${count(at)} of ${count(last)}`);
  const chart = el("div", { class: "timeline-box" });
  const words = el("p", { class: "quiet small", id: "dag-words" });
  let shown = found;
  const show = () => {
    fill(chart, drawDag(shown.nodes, shown.entries, Math.max(chart.clientWidth || 800, 300)));
    words.textContent = about(shown.nodes);
  };
  fill(
    where.root,
    el(
      "section",
      { class: "card" },
      el("div", { class: "section-head" }, el("h2", null, "Summaries over the log"), legend()),
      exported()
        ? null
        : el(
            "div",
            { class: "row" },
            el("span", { class: "soft small" }, "What the model saw at"),
            range,
            told,
          ),
      chart,
      words,
    ),
  );
  show();
  let asked = 0;
  range.addEventListener("input", async () => {
    const number = Number(range.value);
    told.textContent = `request ${count(number)} of ${count(last)}`;
    rename(href(["threads", where.id, "summaries"], { request: number }));
    asked += 1;
    const mine = asked;
    const now = await fetchJson(path(number), where.signal).catch(() => null);
    if (!now || mine !== asked || where.signal.aborted) return;
    shown = now;
    show();
  });
  const fit = new ResizeObserver(show);
  fit.observe(where.root);
  where.signal.addEventListener("abort", () => fit.disconnect());
  listen(where, chart, () => shown.nodes);
}

function legend() {
  const entry = (/** @type {string} */ look, /** @type {string} */ words) =>
    el("span", null, el("i", { class: `swatch ${look}` }), words);
  return el(
    "div",
    { class: "legend" },
    entry("in-view", "in the view"),
    entry("out-view", "not in the view"),
    entry("hatched", "degraded"),
  );
}

/** @param {SummaryNode[]} nodes */
function about(nodes) {
  const seen = nodes.filter((node) => node.in_view);
  const sum = seen.reduce((all, node) => all + node.tokens, 0);
  const whole = seen.reduce((all, node) => all + (node.source_tokens ?? 0), 0);
  const start = `${counted(nodes.length, "summary", "summaries")}, ${seen.length} in the view with ${tokens(sum)} tokens`;
  return whole
    ? `${start} in the place of ${tokens(whole)}. Open one to read it and what it covers.`
    : `${start}. Open one to read it and what it covers.`;
}

/**
 * @param {Place} where
 * @param {HTMLElement} chart
 * @param {() => SummaryNode[]} nodes
 */
function listen(where, chart, nodes) {
  const at = (/** @type {Event} */ event) =>
    /** @type {SVGElement | null} */ (/** @type {Element} */ (event.target).closest("[data-node]"));
  chart.addEventListener("click", (event) => {
    const node = at(event)?.getAttribute("data-node");
    if (node) openNode(where, node);
  });
  chart.addEventListener("keydown", (event) => {
    const box = at(event);
    if (!box) return;
    const id = box.getAttribute("data-node") ?? "";
    if (event.key === "Enter" || event.key === " ") openNode(where, id);
    else if (!walk(chart, nodes(), id, event.key)) return;
    event.preventDefault();
  });
}

/**
 * Move the focus: left and right on a level, up to what covers a node, down to what it covers.
 *
 * @param {HTMLElement} chart
 * @param {SummaryNode[]} nodes
 * @param {string} id
 * @param {string} key
 */
function walk(chart, nodes, id, key) {
  const from = nodes.find((node) => node.id === id);
  if (!from) return false;
  const level = nodes.filter((node) => node.depth === from.depth).sort((a, b) => a.first - b.first);
  const place = level.indexOf(from);
  /** @type {Record<string, () => SummaryNode | undefined>} */
  const ways = {
    ArrowLeft: () => level[place - 1],
    ArrowRight: () => level[place + 1],
    Home: () => level[0],
    End: () => level.at(-1),
    ArrowDown: () => nodes.find((node) => (from.children ?? []).includes(node.id)),
    ArrowUp: () => nodes.find((node) => (node.children ?? []).includes(id)),
  };
  const to = ways[key]?.();
  if (!(key in ways)) return false;
  if (to) {
    for (const box of chart.querySelectorAll('[tabindex="0"]')) box.setAttribute("tabindex", "-1");
    const box = /** @type {SVGElement | null} */ (chart.querySelector(`[data-node="${CSS.escape(to.id)}"]`));
    box?.setAttribute("tabindex", "0");
    box?.focus();
  }
  return true;
}

/**
 * @param {Place} where
 * @param {string} id
 */
async function openNode(where, id) {
  const box = el("div", { class: "stack" }, waiting(6));
  openDialog("Summary", [box]);
  try {
    const node = await fetchJson(api("threads", where.id, "summaries", id), where.signal);
    fill(
      box,
      el(
        "p",
        { class: "quiet small" },
        [
          `entries ${count(node.first)}–${count(node.last)}`,
          `${tokens(node.tokens)} tokens`,
          node.source_tokens ? `for ${tokens(node.source_tokens)}` : "",
          node.time ? moment(node.time) : "",
        ]
          .filter(Boolean)
          .join(" · "),
      ),
      node.degraded
        ? el(
            "p",
            { class: "hint" },
            "This summary is degraded: the model that should have written it failed, and a plain cut stands for it.",
          )
        : null,
      foreignBlock(node.text, "whole-text"),
      node.missing?.length
        ? el(
            "section",
            null,
            el("h3", null, "Facts that the summary lacks"),
            el(
              "ul",
              { class: "event-list" },
              node.missing.map((/** @type {any} */ each) =>
                el(
                  "li",
                  null,
                  foreign(typeof each === "string" ? each : (each.text ?? JSON.stringify(each))),
                ),
              ),
            ),
          )
        : null,
      el(
        "section",
        null,
        el("h3", null, "What it covers"),
        el(
          "ol",
          { class: "ranked", id: "covered" },
          (node.entries ?? []).map((/** @type {any} */ each) =>
            el(
              "li",
              { "data-seq": each.seq },
              el(
                "a",
                { href: href(["threads", where.id, "transcript"], { seq: each.seq }) },
                el("span", { class: "quiet" }, `${count(each.seq)}  `),
                foreign(each.title),
              ),
              el("span", { class: "num quiet" }, tokens(each.tokens)),
            ),
          ),
        ),
      ),
    );
  } catch (error) {
    if (!where.signal.aborted) fill(box, failed(error));
  }
}
