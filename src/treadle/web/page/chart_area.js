/**
 * What fills the window, over time: an area for each kind, stacked, with its letter.
 */

import { svg } from "./dom.js";
import { count, tokens } from "./format.js";
import { KIND_NAMES, kindColour, kindLetter, kindName } from "./kinds.js";

const LEFT = 54;
const TOP = 14;
const PLOT = 200;
const HEIGHT = TOP + PLOT + 24;

/** @typedef {{request: number, turn: number, tokens: number, window?: number | null, kinds: Record<string, number>}} Point */

/**
 * @param {Point[]} points
 * @param {number} width
 * @param {(request: number) => unknown} picked
 */
export function drawAreas(points, width, picked) {
  const plot = width - LEFT - 8;
  const highest = Math.max(...points.map((point) => point.tokens), 1);
  const window = points.at(-1)?.window ?? 0;
  // The limit is worth its space only where the view comes near it.
  const most = window && highest > window / 4 ? Math.max(window * 1.04, highest) : highest * 1.1;
  const x = (/** @type {number} */ n) =>
    LEFT + (points.length > 1 ? (n / (points.length - 1)) * plot : plot / 2);
  const y = (/** @type {number} */ value) => TOP + PLOT - (value / most) * PLOT;
  const chart = svg("svg", {
    class: "chart",
    id: "series",
    viewBox: `0 0 ${width} ${HEIGHT}`,
    height: HEIGHT,
    role: "img",
    "aria-label": describe(points),
  });
  for (const part of [0, 0.5, 1]) {
    const at = Math.round(y(most * part)) + 0.5;
    chart.append(
      svg("line", { class: part ? "grid" : "axis", x1: LEFT, x2: width - 8, y1: at, y2: at }),
      svg("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, tokens(Math.round(most * part))),
    );
  }
  chart.append(...areas(points, x, y));
  if (window && window <= most) {
    chart.append(
      svg("line", { class: "limit", x1: LEFT, x2: width - 8, y1: y(window), y2: y(window) }),
      svg("text", { x: width - 12, y: y(window) - 4, "text-anchor": "end" }, `window ${tokens(window)}`),
    );
  }
  for (const n of ticks(points.length, plot))
    chart.append(
      svg(
        "text",
        {
          x: x(n),
          y: TOP + PLOT + 17,
          "text-anchor": n === 0 ? "start" : n === points.length - 1 ? "end" : "middle",
        },
        n === 0 ? `request ${count(points[n].request)}` : count(points[n].request),
      ),
    );
  follow(chart, points, x, picked);
  return chart;
}

/**
 * @param {Point[]} points
 * @param {(n: number) => number} x
 * @param {(value: number) => number} y
 */
function areas(points, x, y) {
  const base = points.map(() => 0);
  const found = [];
  for (const kind of KIND_NAMES) {
    if (!points.some((point) => point.kinds[kind])) continue;
    const low = points.map((_, n) => base[n]);
    points.forEach((point, n) => {
      base[n] += point.kinds[kind] ?? 0;
    });
    const upper = points.map((_, n) => `${x(n).toFixed(1)} ${y(base[n]).toFixed(1)}`);
    const lower = points.map((_, n) => `${x(n).toFixed(1)} ${y(low[n]).toFixed(1)}`).reverse();
    found.push(
      svg(
        "path",
        {
          class: "area",
          "data-kind": kind,
          d: `M${upper.join("L")}L${lower.join("L")}Z`,
          fill: kindColour(kind),
        },
        svg("title", null, kindName(kind)),
      ),
    );
    const tall = points.map((_, n) => y(low[n]) - y(base[n]));
    const at = tall.indexOf(Math.max(...tall));
    if (tall[at] > 13 && at > 0 && at < points.length - 1)
      found.push(
        svg(
          "text",
          { class: "area-letter", x: x(at), y: (y(low[at]) + y(base[at])) / 2 + 4, "text-anchor": "middle" },
          kindLetter(kind),
        ),
      );
  }
  // Letters stand above all areas.
  return found.sort((a, b) => Number(a.tagName === "text") - Number(b.tagName === "text"));
}

/**
 * @param {SVGSVGElement} chart
 * @param {Point[]} points
 * @param {(n: number) => number} x
 * @param {(request: number) => unknown} picked
 */
function follow(chart, points, x, picked) {
  const line = svg("line", { class: "cursor", y1: TOP, y2: TOP + PLOT, visibility: "hidden" });
  chart.append(line);
  const nearest = (/** @type {PointerEvent | MouseEvent} */ event) => {
    const box = chart.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
    const step = points.length > 1 ? x(1) - x(0) : 1;
    return Math.min(points.length - 1, Math.max(0, Math.round((at - LEFT) / step)));
  };
  chart.addEventListener("pointermove", (event) => {
    const at = x(nearest(event));
    line.setAttribute("x1", String(at));
    line.setAttribute("x2", String(at));
    line.setAttribute("visibility", "visible");
  });
  chart.addEventListener("pointerleave", () => line.setAttribute("visibility", "hidden"));
  chart.addEventListener("click", (event) => picked(points[nearest(event)].request));
}

/**
 * @param {number} length
 * @param {number} plot
 */
function ticks(length, plot) {
  const step = Math.max(1, Math.ceil((length - 1) / Math.max(1, Math.floor(plot / 90))));
  const found = [];
  for (let n = 0; n < length; n += step) found.push(n);
  const last = length - 1;
  if (found.at(-1) !== last) {
    // The last one is always told; the one before makes room for it.
    if (last - /** @type {number} */ (found.at(-1)) < step * 0.7 && found.length > 1) found.pop();
    found.push(last);
  }
  return found;
}

/** @param {Point[]} points */
function describe(points) {
  const last = points.at(-1);
  if (!last) return "nothing yet";
  const kinds = Object.entries(last.kinds)
    .sort((a, b) => b[1] - a[1])
    .slice(0, 4)
    .map(([kind, n]) => `${kindName(kind)} ${tokens(n)}`);
  return `Tokens in the window by kind over ${points.length} points; at request ${last.request} ${tokens(last.tokens)}: ${kinds.join(", ")}`;
}
