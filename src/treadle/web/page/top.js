/**
 * The line at the top and the one at the foot: search, theme, help, and whether the server is there.
 */

import { announce, byId, el, fill, svg } from "./dom.js";
import { exported } from "./data.js";
import { go, here, href } from "./routes.js";
import { bindKey, showKeys } from "./keys.js";
import { hear, reconnect } from "./live.js";
import { switchTheme } from "./theme.js";
import { moment } from "./format.js";
import { openNewThread } from "./new_thread.js";

/** @typedef {import("./types.js").Server} Server */

/** @type {Record<string, string>} */
const LOST = {
  gone: "The server does not answer. Reconnecting …",
  locked: "The server was started again. Open the link that it has printed now.",
  full: "The server gives this page no stream, so what is shown may be old. Trying again …",
};

/** @param {Server} server */
export function showTop(server) {
  const file = exported();
  const brand = el(
    "a",
    {
      class: "brand",
      href: file?.thread ? href(["threads", file.thread]) : href([]),
      "aria-label": "Treadle, all threads",
    },
    mark(),
    el("span", null, "Treadle"),
  );
  const theme = el(
    "button",
    {
      class: "button bare",
      type: "button",
      id: "theme",
      "aria-label": "Light or dark",
      title: "Light or dark (d)",
    },
    half(),
  );
  const change = () => announce(`${switchTheme()} colours`);
  theme.addEventListener("click", change);
  bindKey("d", "light or dark", change);
  const help = el(
    "button",
    {
      class: "button bare",
      type: "button",
      id: "help",
      "aria-label": "Keys",
      title: "Keys (?)",
      on: { click: showKeys },
    },
    el("kbd", null, "?"),
  );
  const create = server.control
    ? el(
        "button",
        { class: "button", type: "button", id: "new-thread", on: { click: () => openNewThread() } },
        "New thread",
      )
    : null;
  if (server.control) bindKey("n", "a new thread", () => openNewThread());
  fill(
    byId("top"),
    brand,
    file ? el("span", { class: "quiet small" }, `exported ${moment(file.time)}`) : search(),
    el("div", { class: "top-right" }, create, theme, help),
  );
}

function search() {
  const field = el("input", {
    type: "search",
    id: "search",
    placeholder: "Search all threads",
    "aria-label": "Search all threads",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: "400",
  });
  const form = el(
    "form",
    { class: "seek", role: "search" },
    field,
    el("kbd", { "aria-hidden": "true" }, "/"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(href([], { q: field.value.trim() }));
  });
  const follow = () => {
    if (document.activeElement !== field) field.value = here().query.get("q") ?? "";
  };
  addEventListener("hashchange", follow);
  follow();
  bindKey("/", "search", () => field.focus());
  return form;
}

/** Show at the foot when the server is gone. */
export function showFoot() {
  const foot = byId("foot");
  const forever = new AbortController().signal;
  let shown = "";
  hear(
    "lost",
    ({ why }) => {
      if (shown === why) return;
      shown = why;
      const again = el("button", { class: "button", type: "button", on: { click: reconnect } }, "Try now");
      const words = el("span", null, LOST[why]);
      const line = { class: "gone", id: "lost", role: "alert", "data-why": why };
      fill(foot, el("div", line, el("span", { class: "dot pulse" }), words, why === "locked" ? null : again));
    },
    forever,
  );
  hear(
    "back",
    () => {
      shown = "";
      fill(foot);
    },
    forever,
  );
}

/** The sign of the page: picks of a cloth, of which the new part is bright. */
function mark() {
  const lines = [
    [7, 25, 9, 0.45],
    [7, 16, 16, 0.45],
    [20, 25, 16, 1],
    [7, 20, 23, 0.45],
    [24, 25, 23, 1],
  ];
  return svg(
    "svg",
    { viewBox: "0 0 32 32", "aria-hidden": "true" },
    svg("rect", { width: 32, height: 32, rx: 7, fill: "#0b6a72" }),
    lines.map(([from, to, y, opacity]) =>
      svg("path", {
        d: `M${from} ${y}H${to}`,
        stroke: "#fff",
        "stroke-width": 3,
        "stroke-linecap": "round",
        opacity,
      }),
    ),
  );
}

function half() {
  return svg(
    "svg",
    { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" },
    svg("circle", { cx: 8, cy: 8, r: 6.2, fill: "none", stroke: "currentColor", "stroke-width": 1.5 }),
    svg("path", { d: "M8 1.8a6.2 6.2 0 0 1 0 12.4z", fill: "currentColor" }),
  );
}
