/**
 * What fills the window: now or at a request, by kind, over time; what is largest, what was never used.
 */

import { el, fill } from "./dom.js";
import { api, exported, fetchJson, query } from "./data.js";
import { go, href } from "./routes.js";
import { count, money, share, tokens } from "./format.js";
import { kindColour, kindLetter, kindName } from "./kinds.js";
import { drawAreas } from "./chart_area.js";
import { empty, failed, loadInto, waiting } from "./states.js";
import { hear } from "./live.js";
import { foreign, legible } from "./text.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").Composition} Composition */

const MOST_PARTS = 8;

/** @param {Place} where */
export async function showWindow(where) {
  const at = where.query.get("request");
  const path = `${api("threads", where.id, "composition")}${query({ at })}`;
  await loadInto(
    where.root,
    where.signal,
    () => fetchJson(path, where.signal),
    (found) => draw(where, found, at),
  );
  hear(
    "ledger",
    () =>
      !at &&
      fetchJson(path, where.signal)
        .then((found) => draw(where, found, at))
        .catch(() => undefined),
    where.signal,
  );
}

/**
 * @param {Place} where
 * @param {Composition} found
 * @param {string | null} at
 */
function draw(where, found, at) {
  if (!found.tokens) {
    fill(where.root, empty("The window is empty", "Nothing has been said in this thread yet."));
    return;
  }
  const series = el("div", { class: "timeline-box" }, waiting(5));
  const now = el(
    "a",
    { class: "button", href: href(["threads", where.id, "window"]), id: "window-now" },
    "Show now",
  );
  fill(
    where.root,
    el(
      "section",
      { class: "card", id: "now" },
      el(
        "div",
        { class: "row apart" },
        el(
          "div",
          null,
          el("h2", null, at ? `The window at request ${count(Number(at))}` : "The window now"),
          el("p", { class: "quiet small" }, summary(found)),
        ),
        at ? now : null,
      ),
      bar(found),
      table(found),
    ),
    el(
      "section",
      { class: "card" },
      el(
        "div",
        { class: "section-head" },
        el("h2", null, "Over time"),
        exported() ? null : el("p", null, "click a moment to see it above"),
      ),
      series,
    ),
    el(
      "div",
      { class: "halves" },
      ranked(where, "largest", "Largest entries", "what one could do without", found.largest ?? []),
      ranked(
        where,
        "unreferred",
        "Never referred to again",
        "results that nothing later mentions",
        found.unreferred ?? [],
      ),
    ),
  );
  showSeries(where, series);
}

/** @param {Composition} found */
function summary(found) {
  const parts = [
    `${count(found.tokens)} tokens${found.counted ? ", as the provider counts" : ", estimated"}`,
  ];
  if (found.window) parts.push(`${share(found.tokens, found.window)} of ${tokens(found.window)}`);
  if (found.next_request)
    parts.push(
      `the next request costs ${money(found.next_request.cached)} from the cache, ${money(found.next_request.cold)} without`,
    );
  return parts.join(" · ");
}

/** @param {Composition} found */
function bar(found) {
  const whole = Math.max(found.window ?? 0, found.tokens);
  const line = el("div", {
    class: "fill-bar",
    role: "img",
    "aria-label": `Shares of the window: ${Object.entries(found.kinds)
      .map(([kind, n]) => `${kindName(kind)} ${share(n, whole)}`)
      .join(", ")}`,
  });
  // A window that is nearly empty shows its parts, not its emptiness.
  const shown = found.tokens < whole / 5 ? found.tokens * 1.25 : whole;
  for (const [kind, n] of Object.entries(found.kinds)) {
    const piece = el("i", {
      "data-kind": kind,
      title: `${kindName(kind)}: ${count(n)} tokens`,
      style: { background: kindColour(kind), width: `${(100 * n) / shown}%` },
    });
    if (n / shown > 0.022) piece.textContent = kindLetter(kind);
    line.append(piece);
  }
  return line;
}

/** @param {Composition} found */
function table(found) {
  // Shares of what is used: of a large window everything would be less than 1%.
  const whole = found.tokens;
  const most = Math.max(...Object.values(found.kinds), 1);
  const rows = [];
  for (const [kind, n] of Object.entries(found.kinds)) {
    rows.push(
      row("kind", kind, [letter(kindLetter(kind), kindColour(kind)), kindName(kind)], n, whole, most),
    );
    const parts = (found.parts ?? []).filter((part) => part.kind === kind && part.label);
    for (const part of parts.slice(0, MOST_PARTS)) {
      const many = part.count > 1 ? el("span", { class: "quiet" }, ` × ${count(part.count)}`) : null;
      rows.push(row("part", kind, [foreign(part.label), many], part.tokens, whole, most));
    }
    const left = parts.slice(MOST_PARTS).reduce((sum, part) => sum + part.tokens, 0);
    if (left) rows.push(row("part", kind, [`${parts.length - MOST_PARTS} more`], left, whole, most));
  }
  if (found.free !== null && found.free !== undefined) {
    const free = [letter(".", null), "free", el("span", { class: "quiet" }, " of the window")];
    rows.push(row("kind", "free", free, found.free, found.window ?? 0, 0));
  }
  const heads = ["kind", "tokens", "share", ""].map((words) => el("th", { scope: "col" }, words));
  return el(
    "table",
    { class: "kind-table" },
    el("thead", { class: "visually-hidden" }, el("tr", null, heads)),
    el("tbody", null, rows),
  );
}

/**
 * @param {string} look
 * @param {string} kind
 * @param {(Node | string | null)[]} name
 * @param {number} n
 * @param {number} whole
 * @param {number} most  What the longest line stands for; 0 for none.
 */
function row(look, kind, name, n, whole, most) {
  const line = most
    ? el("i", { style: { width: `${(100 * n) / most}%`, background: kindColour(kind) }, class: look })
    : null;
  return el(
    "tr",
    { class: look, "data-kind": kind },
    el("td", null, name),
    el("td", { class: "num" }, count(n)),
    el("td", { class: "num quiet" }, share(n, whole)),
    el("td", { class: "line", "aria-hidden": "true" }, line),
  );
}

/**
 * @param {string} sign
 * @param {string | null} colour
 */
function letter(sign, colour) {
  const look = colour ? "kind-letter" : "kind-letter free";
  return el(
    "span",
    { class: look, style: colour ? { background: colour } : {}, "aria-hidden": "true" },
    sign,
  );
}

/**
 * @param {Place} where
 * @param {HTMLElement} box
 */
async function showSeries(where, box) {
  try {
    const { points } = await fetchJson(
      `${api("threads", where.id, "composition", "series")}${query({ points: 60 })}`,
      where.signal,
    );
    if (where.signal.aborted) return;
    if (!points.length) {
      fill(box, el("p", { class: "quiet" }, "No request was sent yet."));
      return;
    }
    const pick = (/** @type {number} */ request) =>
      exported() || go(href(["threads", where.id, "window"], { request }));
    const draw = () => fill(box, drawAreas(points, box.clientWidth || 800, pick));
    draw();
    const fit = new ResizeObserver(draw);
    fit.observe(where.root);
    where.signal.addEventListener("abort", () => fit.disconnect());
  } catch (error) {
    if (!where.signal.aborted)
      fill(
        box,
        failed(error, () => showSeries(where, box)),
      );
  }
}

/**
 * @param {Place} where
 * @param {string} id
 * @param {string} title
 * @param {string} words
 * @param {{seq: number, label: string, tokens: number}[]} entries
 */
function ranked(where, id, title, words, entries) {
  const most = Math.max(...entries.map((each) => each.tokens), 1);
  const rows = entries.map((each) =>
    el(
      "li",
      { "data-seq": each.seq },
      el(
        "a",
        { href: href(["threads", where.id, "transcript"], { seq: each.seq }), title: legible(each.label) },
        foreign(each.label),
      ),
      el("span", { class: "num" }, count(each.tokens)),
      el(
        "span",
        { class: "line", "aria-hidden": "true" },
        el("i", { style: { width: `${(100 * each.tokens) / most}%` } }),
      ),
    ),
  );
  return el(
    "section",
    { class: "card" },
    el("div", { class: "section-head" }, el("h2", null, title), el("p", null, words)),
    rows.length ? el("ol", { class: "ranked", id }, rows) : el("p", { class: "quiet", id }, "None."),
  );
}
