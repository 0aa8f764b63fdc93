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

/**
 * @param {Place} where
 * @param {() => void} grown
 */
export function liveTurn(where, grown) {
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
    grown();
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
    () => {
      // What was streamed is in the log now.
      now.text = "";
      now.reasoning = "";
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

/** @typedef {{text: string, reasoning: string, tools: Map<string, {name: string, text: string}>}} Now */

/** @returns {Now} */
function nothing() {
  return { text: "", reasoning: "", tools: new Map() };
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
  if (event.type === "text.delta") now.text = (now.text + event.text).slice(-MOST_TEXT);
  else if (event.type === "reasoning.delta") now.reasoning = (now.reasoning + event.text).slice(-MOST_TEXT);
  else if (event.type === "tool.started") now.tools.set(event.call_id, { name: event.name, text: "" });
  else if (event.type === "tool.finished") now.tools.delete(event.call_id);
  else if (event.type === "tool.progress" || event.type === "tool.input") {
    const tool = now.tools.get(event.call_id) ?? { name: event.name ?? "call", text: "" };
    tool.text = (tool.text + (event.text ?? event.delta ?? "")).slice(-MOST_TEXT);
    now.tools.set(event.call_id, tool);
  }
}

/** @param {{text: string, reasoning: string, tools: Map<string, {name: string, text: string}>}} now */
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
          " is running",
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
