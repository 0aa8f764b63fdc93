/**
 * Summaries over the axis of the log: each stands over the entries that it covers.
 */

import { svg } from "./dom.js";
import { count, tokens } from "./format.js";

/** @typedef {import("./types.js").SummaryNode} SummaryNode */

const LEFT = 62;
const TALL = 26;
const GAP = 18;
/** Rows of one level; what needs more stands one over the other. */
const MOST_ROWS = 6;
const TOP = 6;

/**
 * @param {SummaryNode[]} nodes
 * @param {{first: number, last: number}} entries
 * @param {number} width
 */
export function drawDag(nodes, entries, width) {
  const lanes = placed(nodes);
  const plot = width - LEFT - 4;
  const long = Math.max(entries.last - entries.first + 1, 1);
  const x = (/** @type {number} */ seq) => LEFT + ((seq - entries.first) / long) * plot;
  const y = (/** @type {SummaryNode} */ node) => TOP + (lanes.of.get(node.id) ?? 0);
  const base = TOP + lanes.height;
  const height = base + 40;
  const chart = svg("svg", {
    class: "chart",
    id: "dag",
    viewBox: `0 0 ${width} ${height}`,
    height,
    role: "group",
    "aria-label": `${nodes.length} summaries over entries ${entries.first} to ${entries.last}`,
  });
  chart.append(pattern(), ...links(nodes, x, y), ...levels(lanes.levels));
  for (const node of [...nodes].sort((a, b) => b.depth - a.depth || a.first - b.first))
    chart.append(box(node, x, y));
  const first = chart.querySelector("[data-node]");
  first?.setAttribute("tabindex", "0");
  chart.append(...axis(nodes, entries, x, base));
  return chart;
}

/**
 * Find a row for each summary: higher levels above, and below one another those of a level that
 * cover the same entries, as summaries of what was rolled back do. What the model sees comes first.
 *
 * @param {SummaryNode[]} nodes
 */
function placed(nodes) {
  const depth = Math.max(0, ...nodes.map((node) => node.depth));
  /** @type {Map<string, number>} */
  const of = new Map();
  /** @type {{level: number, top: number}[]} */
  const found = [];
  let height = 0;
  for (let level = depth; level >= 0; level -= 1) {
    const own = nodes
      .filter((node) => node.depth === level)
      .sort((a, b) => Number(b.in_view ?? 0) - Number(a.in_view ?? 0) || a.first - b.first);
    if (!own.length) continue;
    /** @type {SummaryNode[][]} */
    const rows = [];
    for (const node of own) {
      let row = rows.findIndex((each) => each.every((other) => !overlap(node, other)));
      if (row < 0) row = rows.length < MOST_ROWS ? rows.push([]) - 1 : rows.length - 1;
      rows[row].push(node);
      of.set(node.id, height + row * (TALL + 4));
    }
    found.push({ level, top: height });
    height += rows.length * (TALL + 4) - 4 + GAP;
  }
  return { of, levels: found, height };
}

/**
 * @param {SummaryNode} a
 * @param {SummaryNode} b
 */
function overlap(a, b) {
  return a.first <= b.last && b.first <= a.last;
}

/** @param {{level: number, top: number}[]} found */
function levels(found) {
  return found.map(({ level, top }) =>
    svg(
      "text",
      { x: LEFT - 10, y: TOP + top + 17, "text-anchor": "end" },
      level ? `level ${level}` : "leaves",
    ),
  );
}

function pattern() {
  return svg(
    "defs",
    null,
    svg(
      "pattern",
      { id: "degraded", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("rect", { width: 2, height: 6, class: "degraded-line" }),
    ),
  );
}

/**
 * @param {SummaryNode[]} nodes
 * @param {(seq: number) => number} x
 * @param {(node: SummaryNode) => number} y
 */
function links(nodes, x, y) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const found = [];
  for (const node of nodes) {
    const children = (node.children ?? []).map((id) => known.get(id)).filter((each) => each !== undefined);
    for (const child of children) {
      const [from, to] = [(x(child.first) + x(child.last + 1)) / 2, y(child)];
      const low = y(node) + TALL;
      found.push(svg("path", { class: "node-link", d: `M${from.toFixed(1)} ${low}V${to}` }));
    }
  }
  return found;
}

/**
 * @param {SummaryNode} node
 * @param {(seq: number) => number} x
 * @param {(node: SummaryNode) => number} y
 */
function box(node, x, y) {
  const from = x(node.first);
  const wide = Math.max(x(node.last + 1) - from - 2, 2);
  const top = y(node);
  const words = `${node.depth ? `level ${node.depth} summary` : "leaf"} of entries ${count(node.first)} to ${count(node.last)}, ${tokens(node.tokens)} tokens${node.source_tokens ? ` for ${tokens(node.source_tokens)}` : ""}${node.in_view ? ", in the view" : ""}${node.degraded ? ", degraded" : ""}`;
  const label =
    wide > 74
      ? `${tokens(node.source_tokens ?? null)} → ${tokens(node.tokens)}`
      : wide > 30
        ? tokens(node.tokens)
        : "";
  return svg(
    "g",
    {
      class: "node",
      "data-node": node.id,
      "data-in-view": String(Boolean(node.in_view)),
      "data-depth": node.depth,
      tabindex: -1,
      role: "button",
      "aria-label": words,
    },
    svg("title", null, words),
    svg("rect", { class: "body", x: from + 1, y: top, width: wide, height: TALL, rx: Math.min(4, wide / 3) }),
    node.degraded
      ? svg("rect", {
          class: "degraded",
          x: from + 1,
          y: top,
          width: wide,
          height: TALL,
          rx: Math.min(4, wide / 3),
        })
      : null,
    label ? svg("text", { x: from + 1 + wide / 2, y: top + 17, "text-anchor": "middle" }, label) : null,
  );
}

/**
 * @param {SummaryNode[]} nodes
 * @param {{first: number, last: number}} entries
 * @param {(seq: number) => number} x
 * @param {number} base
 */
function axis(nodes, entries, x, base) {
  const seen = nodes.filter((node) => node.in_view);
  const raw = seen.length ? Math.max(...seen.map((node) => node.last)) + 1 : entries.first;
  const [from, to] = [x(entries.first), x(entries.last + 1)];
  return [
    svg("text", { x: LEFT - 10, y: base + 9, "text-anchor": "end" }, "log"),
    svg("rect", { class: "raw-line", x: from, y: base, width: Math.max(to - from, 1), height: 9, rx: 2 }),
    raw <= entries.last
      ? svg(
          "rect",
          {
            class: "raw-line in-view",
            x: x(raw),
            y: base,
            width: Math.max(to - x(raw), 2),
            height: 9,
            rx: 2,
          },
          svg("title", null, `entries ${raw} to ${entries.last} are read as they are`),
        )
      : svg("g", null),
    svg("text", { x: from, y: base + 26 }, `entry ${count(entries.first)}`),
    svg("text", { x: to, y: base + 26, "text-anchor": "end" }, count(entries.last)),
  ];
}
