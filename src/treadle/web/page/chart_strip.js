/**
 * The whole ledger in a strip, with a lens over the part that the timeline shows.
 *
 * Owns how one moves the lens: dragged, clicked, or with keys, as a slider.
 */

import { svg } from "./dom.js";

/** @typedef {import("./types.js").Bucket} Bucket */

const HEIGHT = 40;
const MARKS = 8;

/**
 * @typedef {object} Strip
 * @property {SVGSVGElement} root
 * @property {(from: number, to: number) => void} look  Put the lens over these requests.
 */

/**
 * Return the strip.
 *
 * @param {Bucket[]} buckets
 * @param {number} total
 * @param {(middle: number) => void} moved  Hears which request the lens should stand over.
 * @param {AbortSignal} signal
 * @returns {Strip}
 */
export function drawStrip(buckets, total, moved, signal) {
  const wide = 1000;
  const root = svg("svg", {
    class: "strip",
    id: "overview",
    viewBox: `0 0 ${wide} ${HEIGHT}`,
    preserveAspectRatio: "none",
    role: "slider",
    tabindex: 0,
    "aria-label": "Which requests the timeline shows",
    "aria-valuemin": 1,
    "aria-valuemax": total,
  });
  const step = wide / Math.max(buckets.length, 1);
  const most = Math.max(...buckets.map((each) => each.sent / Math.max(each.to - each.from + 1, 1)), 1);
  buckets.forEach((bucket, n) => {
    const size = bucket.sent / Math.max(bucket.to - bucket.from + 1, 1);
    const tall = (size / most) * (HEIGHT - MARKS);
    const held = bucket.sent ? tall * (bucket.shared / bucket.sent) : 0;
    const gap = step > 4 ? 0.8 : 0;
    root.append(
      svg("rect", { class: "held", x: n * step, y: HEIGHT - held, width: step - gap, height: held }),
    );
    root.append(
      svg("rect", {
        class: "new",
        x: n * step,
        y: HEIGHT - tall,
        width: step - gap,
        height: Math.max(tall - held, 0.6),
      }),
    );
    if (bucket.breaks)
      root.append(
        svg("rect", {
          class: bucket.unexplained ? "break unexplained" : "break",
          x: n * step,
          y: 1,
          width: Math.max(Math.min(step - gap, 5), 2),
          height: bucket.unexplained ? 7 : 2.5,
        }),
      );
  });
  const lens = svg("rect", {
    class: "lens",
    y: 0.75,
    height: HEIGHT - 1.5,
    rx: 2,
    "vector-effect": "non-scaling-stroke",
  });
  root.append(lens);
  let shown = { from: 1, to: 1 };
  listen(root, total, () => shown, moved, signal);
  return {
    root,
    look(from, to) {
      shown = { from, to };
      lens.setAttribute("x", String(((from - 1) / total) * wide));
      lens.setAttribute("width", String(Math.max(((to - from + 1) / total) * wide, 4)));
      root.setAttribute("aria-valuenow", String(Math.round((from + to) / 2)));
      root.setAttribute("aria-valuetext", `requests ${from} to ${to} of ${total}`);
    },
  };
}

/**
 * @param {SVGSVGElement} root
 * @param {number} total
 * @param {() => {from: number, to: number}} shown
 * @param {(middle: number) => void} moved
 * @param {AbortSignal} signal
 */
function listen(root, total, shown, moved, signal) {
  const at = (/** @type {PointerEvent} */ event) => {
    const box = root.getBoundingClientRect();
    moved(Math.round(((event.clientX - box.left) / box.width) * total));
  };
  root.addEventListener(
    "pointerdown",
    (event) => {
      root.setPointerCapture(event.pointerId);
      at(event);
    },
    { signal },
  );
  root.addEventListener(
    "pointermove",
    (event) => {
      if (event.buttons) at(event);
    },
    { signal },
  );
  root.addEventListener(
    "keydown",
    (event) => {
      const { from, to } = shown();
      const wide = to - from + 1;
      const middle = (from + to) / 2;
      /** @type {Record<string, number>} */
      const steps = {
        ArrowLeft: middle - wide / 4,
        ArrowDown: middle - wide / 4,
        ArrowRight: middle + wide / 4,
        ArrowUp: middle + wide / 4,
        PageUp: middle - wide,
        PageDown: middle + wide,
        Home: 1,
        End: total,
      };
      if (!(event.key in steps)) return;
      event.preventDefault();
      moved(Math.round(steps[event.key]));
    },
    { signal },
  );
}
