/**
 * What a running turn says at this moment: deltas of its text, reasoning and tools.
 *
 * Invariant: it shows only what is not in the log yet; what is logged stands in the transcript.
 */

import { el, fill } from "./dom.js";
import { bus, hear } from "./live.js";
import { foreign, foreignBlock } from "./text.js";

/** @typedef {import("./types.js").Place} Place */

const MOST_TEXT = 20_000;

/** @param {Place} where */
export function liveTurn(where) {
  const box = el("section", { id: "live-turn", "aria-label": "The running turn", class: "stack" });
  const { signal } = where;
  let now = nothing();
  let speaks = false;
  let asked = 0;
  const clear = () => {
    speaks = false;
    now = nothing();
    fill(box);
  };
  const draw = () => {
    asked = 0;
    if (!speaks || signal.aborted) return;
    fill(box, ...shown(now));
  };
  const later = () => {
    if (!asked) asked = requestAnimationFrame(draw);
  };
  const hearLive = (/** @type {any} */ { thread, event }) => {
    if (thread && thread !== where.id) return;
    if (event.type === "turn.completed") clear();
    else {
      speaks = true;
      take(now, event);
      later();
    }
  };
  hear("live", hearLive, signal);
  hear(
    "entries",
    (told) => {
      // What was streamed stands in the transcript now.
      if (now.textAt && now.textAt <= told.last) Object.assign(now, { text: "", textAt: 0 });
      if (now.reasoningAt && now.reasoningAt <= told.last)
        Object.assign(now, { reasoning: "", reasoningAt: 0 });
      later();
    },
    signal,
  );
  hear(
    "running",
    (told) => {
      if (!told.running) clear();
      else if (!speaks) elsewhere(box, told, where);
    },
    signal,
  );
  if (where.thread?.running) elsewhere(box, where.thread, where);
  bus.addEventListener("lost", clear, { signal });
  return box;
}

/**
 * @typedef {object} Now
 * @property {string} text
 * @property {number} textAt  The entry in which that text is; 0 while it is still streamed.
 * @property {string} reasoning
 * @property {number} reasoningAt
 * @property {Map<string, {name: string, text: string}>} tools
 */

/** @returns {Now} */
function nothing() {
  return { text: "", textAt: 0, reasoning: "", reasoningAt: 0, tools: new Map() };
}

/**
 * A turn that another process runs tells what it has logged, not what it is saying.
 *
 * @param {HTMLElement} box
 * @param {any} told
 * @param {Place} where
 */
function elsewhere(box, told, where) {
  const by = told.writer?.command ? [" in ", foreign(told.writer.command)] : "";
  fill(
    box,
    el(
      "p",
      { class: "row soft" },
      el("span", { class: "dot pulse" }),
      el(
        "span",
        null,
        "A turn is running",
        by,
        where.server.control ? "" : "; each entry appears when it is in the log.",
      ),
    ),
  );
}

/**
 * @param {Now} now
 * @param {any} event
 */
function take(now, event) {
  switch (event.type) {
    case "text.delta":
      return grow(now, "text", event.text);
    case "reasoning.delta":
      return grow(now, "reasoning", event.text);
    case "item.completed":
      return markLogged(now, event);
    case "retrying": // The answer begins again.
      return Object.assign(now, { text: "", textAt: 0, reasoning: "", reasoningAt: 0 });
    case "tool.started":
      return now.tools.set(event.call_id, { name: event.name, text: "" });
    case "tool.finished":
      return now.tools.delete(event.call_id);
    case "tool.progress":
    case "tool.input": {
      const tool = now.tools.get(event.call_id) ?? { name: event.name ?? "call", text: "" };
      tool.text = (tool.text + (event.text ?? event.delta ?? "")).slice(-MOST_TEXT);
      return now.tools.set(event.call_id, tool);
    }
  }
}

/**
 * @param {Now} now
 * @param {"text" | "reasoning"} part
 * @param {string} delta
 */
function grow(now, part, delta) {
  // What is in the log already belongs to the item before.
  const before = now[`${part}At`] ? "" : now[part];
  now[`${part}At`] = 0;
  now[part] = (before + delta).slice(-MOST_TEXT);
}

/**
 * What was streamed before an item is in the log with it.
 *
 * @param {Now} now
 * @param {{seq: number}} event
 */
function markLogged(now, { seq }) {
  if (now.text && !now.textAt) now.textAt = seq;
  if (now.reasoning && !now.reasoningAt) now.reasoningAt = seq;
}

/** @param {Now} now */
function shown(now) {
  const parts = [];
  if (now.reasoning)
    parts.push(
      el(
        "div",
        { class: "entry", "data-kind": "reasoning", "data-live": "reasoning" },
        foreignBlock(now.reasoning, "said"),
      ),
    );
  for (const tool of now.tools.values())
    parts.push(
      el(
        "div",
        { "data-live": "tool" },
        el(
          "p",
          { class: "row soft" },
          el("span", { class: "dot pulse" }),
          el("b", null, foreign(tool.name)),
          el("span", { class: "runs" }, "is running"),
          el("span", { class: "waits" }, "waits for you"),
        ),
        tool.text ? foreignBlock(tool.text, "whole-text") : null,
      ),
    );
  if (now.text)
    parts.push(el("div", { class: "entry", "data-live": "text" }, foreignBlock(now.text, "said")));
  if (!parts.length)
    parts.push(el("p", { class: "row soft" }, el("span", { class: "dot pulse" }), "The model is working"));
  return parts;
}
