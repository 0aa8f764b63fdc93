/**
 * A JSON value as nested facts. Owns how deep and how long it goes before it is cut.
 */

import { el } from "./dom.js";
import { foreign } from "./text.js";

const DEEPEST = 6;
const MOST = 200;

/**
 * @param {unknown} value
 * @param {number} [depth]
 * @returns {Node}
 */
export function valueTree(value, depth = 0) {
  if (value === null || value === undefined) return el("span", { class: "quiet" }, "none");
  if (typeof value === "boolean")
    return el("span", { class: value ? "true" : "quiet" }, value ? "yes" : "no");
  if (typeof value !== "object") return foreign(String(value));
  if (depth >= DEEPEST) return foreign(value);
  if (Array.isArray(value)) {
    if (!value.length) return el("span", { class: "quiet" }, "none");
    if (value.every((each) => typeof each !== "object" || each === null))
      return foreign(value.slice(0, MOST).join(", "));
    return el(
      "ol",
      { class: "stack" },
      value.slice(0, MOST).map((each) => el("li", null, valueTree(each, depth + 1))),
    );
  }
  const facts = Object.entries(value).slice(0, MOST);
  if (!facts.length) return el("span", { class: "quiet" }, "none");
  return el(
    "dl",
    null,
    facts.flatMap(([name, each]) => [
      el("dt", null, foreign(name)),
      el("dd", null, valueTree(each, depth + 1)),
    ]),
  );
}
