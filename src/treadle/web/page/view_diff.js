/**
 * Two requests side by side: which segments stay, which differ, and how their text differs.
 */

import { el, fill } from "./dom.js";
import { api, fetchJson } from "./data.js";
import { go, href } from "./routes.js";
import { bindKey } from "./keys.js";
import { bytes, count, counted, share } from "./format.js";
import { reasonWords } from "./kinds.js";
import { loadInto } from "./states.js";
import { foreign } from "./text.js";
import { linesOf } from "./lines.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").DiffSegment} DiffSegment */

/** @type {Record<string, [string, string]>} */
const OPS = {
  same: ["=", "the same"],
  removed: ["−", "removed"],
  added: ["+", "added"],
  changed: ["≠", "changed"],
};

/** @param {Place} where */
export async function showDiff(where) {
  const a = Number(where.rest[1]);
  const b = Number(where.rest[3]);
  await loadInto(
    where.root,
    where.signal,
    () => fetchJson(api("threads", where.id, "requests", a, "diff", b), where.signal),
    (answer) => draw(where, a, b, answer),
  );
  const last = where.thread?.requests ?? Infinity;
  const to = (/** @type {number} */ x, /** @type {number} */ y) => () =>
    x >= 1 && y <= last && go(href(["threads", where.id, "requests", x, "diff", y]));
  bindKey("ArrowLeft", "the two before", to(a - 1, b - 1), where.signal);
  bindKey("ArrowRight", "the next two", to(a + 1, b + 1), where.signal);
}

/**
 * @param {Place} where
 * @param {number} a
 * @param {number} b
 * @param {any} answer
 */
function draw(where, a, b, answer) {
  const sizeB = answer.b?.size ?? null;
  const why = answer.difference
    ? el(
        "p",
        { class: "hint", id: "diff-reason" },
        el("b", null, "The prefix broke "),
        "at ",
        foreign(answer.difference),
        `: ${answer.reason ? reasonWords(answer.reason) : "no entry says why"}.`,
      )
    : el(
        "p",
        { class: "hint calm", id: "diff-reason" },
        el("b", null, "The prefix holds. "),
        `Request ${count(b)} begins with all of request ${count(a)}; only what is new was added.`,
      );
  const held = el(
    "p",
    { class: "quiet" },
    `${counted(answer.shared_segments ?? 0, "segment")} and ${bytes(answer.shared_size)} are shared`,
    sizeB ? ` (${share(answer.shared_size, sizeB)} of request ${count(b)})` : "",
    ".",
  );
  /** @type {DiffSegment[]} */
  const segments = answer.segments ?? [];
  fill(
    where.root,
    el(
      "div",
      { class: "row apart" },
      el("h2", null, `Request ${count(a)} and request ${count(b)}`),
      pick(where, a, b),
    ),
    why,
    held,
    el(
      "ol",
      { class: "segments", id: "segments" },
      segments.map((each) => segment(where, each)),
    ),
  );
}

/**
 * @param {Place} where
 * @param {number} a
 * @param {number} b
 */
function pick(where, a, b) {
  const last = where.thread?.requests ?? undefined;
  const field = (/** @type {string} */ id, /** @type {number} */ value, /** @type {string} */ label) =>
    el("input", { type: "number", id, value, min: 1, max: last, "aria-label": label, class: "number" });
  const [from, to] = [field("diff-a", a, "First request"), field("diff-b", b, "Second request")];
  const form = el(
    "form",
    { class: "row" },
    from,
    el("span", { class: "quiet" }, "with"),
    to,
    el("button", { class: "button", type: "submit", id: "diff-go" }, "Compare"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(href(["threads", where.id, "requests", Number(from.value), "diff", Number(to.value)]));
  });
  return form;
}

/**
 * @param {Place} where
 * @param {DiffSegment} each
 */
function segment(where, each) {
  const [sign, words] = OPS[each.op] ?? ["?", each.op];
  if (each.op === "same") {
    const many = each.count ?? 1;
    return el(
      "li",
      { class: "segment same", "data-op": "same" },
      el("span", { class: "sign", "aria-hidden": "true" }, sign),
      el(
        "span",
        { class: "grow" },
        many > 1 ? counted(many, "segment") : foreign(each.label ?? ""),
        " the same",
      ),
      el("span", { class: "quiet num" }, bytes(each.bytes_b ?? each.bytes_a)),
    );
  }
  const size = [each.bytes_a, each.bytes_b]
    .filter((n) => n !== undefined && n !== null && n > 0)
    .map(bytes)
    .join(" → ");
  const lines = each.lines ?? [];
  return el(
    "li",
    { class: `segment ${each.op}`, "data-op": each.op },
    el("span", { class: "sign", "aria-hidden": "true" }, sign),
    el(
      "span",
      { class: "grow" },
      el("b", null, foreign(each.label ?? each.kind ?? "")),
      el("span", { class: "quiet" }, each.role === "output" ? " result" : "", ` ${words}`),
    ),
    el("span", { class: "quiet num" }, size),
    lines.length ? linesOf(lines, each.op) : null,
    each.cut
      ? el(
          "p",
          { class: "quiet small" },
          "This text is cut. ",
          el(
            "a",
            { href: href(["threads", where.id, "requests", Number(where.rest[3])]) },
            "The request has all of it.",
          ),
        )
      : null,
  );
}
