/**
 * One request as its rows: what the model read, in order, and since when each part stands there.
 */

import { announce, el, fill } from "./dom.js";
import { api, fetchJson, query } from "./data.js";
import { go, href } from "./routes.js";
import { bindKey } from "./keys.js";
import { openDialog } from "./dialog.js";
import { bytes, count, counted, duration, moment, money, share, tokens } from "./format.js";
import { reasonWords } from "./kinds.js";
import { failed, loadInto } from "./states.js";
import { rowsTable } from "./request_rows.js";
import { notKnown } from "./view_ledger.js";
import { foreign, legible } from "./text.js";
import { copyOnClick, textPages } from "./text_pages.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").LedgerRow} LedgerRow */
/** @typedef {import("./types.js").RequestRow} RequestRow */

/** @param {Place} where */
export async function showRequest(where) {
  const number = Number(where.rest[1]);
  const path = api("threads", where.id, "requests", number);
  await loadInto(
    where.root,
    where.signal,
    () => fetchJson(path, where.signal),
    (answer) => draw(where, number, answer),
  );
}

/**
 * @param {Place} where
 * @param {number} number
 * @param {{request: LedgerRow, digest: string, rows: RequestRow[]}} answer
 */
function draw(where, number, answer) {
  const { request, rows } = answer;
  const verdict = el("div", { id: "verdict", role: "status" });
  const head = el(
    "div",
    { class: "row apart" },
    el(
      "div",
      null,
      el("h2", null, `Request ${count(number)}`),
      el(
        "p",
        { class: "quiet small" },
        `turn ${count(request.turn)}, step ${request.step} · ${moment(request.time)}`,
        request.model ? [" · ", foreign(request.model)] : null,
      ),
    ),
    acts(where, number, request, verdict),
  );
  fill(
    where.root,
    head,
    notKnown(where),
    verdict,
    figures(request, rows),
    breakOf(where, request),
    layout(rows),
    rowsTable(where, number, rows),
  );
  steps(where, number);
}

/**
 * @param {Place} where
 * @param {number} number
 * @param {LedgerRow} request
 * @param {HTMLElement} verdict
 */
function acts(where, number, request, verdict) {
  const verify = el("button", { class: "button", type: "button", id: "verify" }, "Render again and compare");
  verify.addEventListener("click", () => compareDigest(where, number, verify, verdict));
  const raw = el(
    "button",
    { class: "button", type: "button", id: "raw", on: { click: () => showRaw(where, number) } },
    "Raw JSON",
  );
  const before = el(
    "a",
    {
      class: "button",
      id: "to-diff",
      href: href(["threads", where.id, "requests", number - 1, "diff", number]),
    },
    "What changed",
  );
  const step = (/** @type {number} */ to, /** @type {string} */ words, /** @type {string} */ sign) =>
    el(
      "a",
      {
        class: "button bare",
        href: href(["threads", where.id, "requests", to]),
        "aria-label": words,
        title: words,
        "data-act": words,
      },
      sign,
    );
  return el(
    "div",
    { class: "row" },
    number > 1 ? step(number - 1, "the request before", "←") : null,
    step(number + 1, "the next request", "→"),
    number > 1 && request ? before : null,
    raw,
    verify,
  );
}

/**
 * @param {Place} where
 * @param {number} number
 */
function steps(where, number) {
  const last = where.thread?.requests ?? Infinity;
  const to = (/** @type {number} */ at) => () =>
    at >= 1 && at <= last && go(href(["threads", where.id, "requests", at]));
  bindKey("ArrowLeft", "the request before", to(number - 1), where.signal);
  bindKey("ArrowRight", "the next request", to(number + 1), where.signal);
  bindKey("v", "render again and compare", () => document.getElementById("verify")?.click(), where.signal);
  bindKey("j", "raw JSON", () => showRaw(where, number), where.signal);
  bindKey(
    "c",
    "what changed",
    () => number > 1 && go(href(["threads", where.id, "requests", number - 1, "diff", number])),
    where.signal,
  );
}

/**
 * @param {Place} where
 * @param {number} number
 * @param {HTMLButtonElement} button
 * @param {HTMLElement} verdict
 */
async function compareDigest(where, number, button, verdict) {
  button.disabled = true;
  fill(verdict, el("p", { class: "quiet pulse" }, "Rendering the request again from the log …"));
  try {
    const found = await fetchJson(api("threads", where.id, "requests", number, "verify"), where.signal);
    verdict.dataset.same = String(found.same);
    const then = isOurs(where) ? "sent" : "noted";
    const words = found.same
      ? `The same bytes: what the log renders now is what was ${then}.`
      : `Different bytes: the log no longer renders what was ${then}.`;
    fill(
      verdict,
      el(
        "div",
        { class: found.same ? "card" : "problem" },
        el("p", { class: found.same ? "good" : "bad" }, el("b", null, found.same ? "✓ " : "✗ ", words)),
        el(
          "dl",
          { class: "facts-list mono" },
          el("dt", null, then),
          el("dd", null, foreign(found.digest)),
          el("dt", null, "rendered"),
          el("dd", null, foreign(found.rendered)),
        ),
      ),
    );
    announce(words);
  } catch (error) {
    if (!where.signal.aborted) fill(verdict, failed(error));
  }
  button.disabled = false;
}

/**
 * @param {Place} where
 * @param {number} number
 */
function showRaw(where, number) {
  const pages = textPages(
    (offset) => `${api("threads", where.id, "requests", number, "body")}${query({ offset })}`,
    where.signal,
    (answer) =>
      typeof answer === "string"
        ? { text: answer }
        : "text" in answer
          ? answer
          : { text: JSON.stringify(answer, null, 2) },
  );
  const copy = el("button", { class: "button", type: "button", "data-act": "copy" }, "Copy what is shown");
  copyOnClick(copy, () => [...pages.querySelectorAll("pre")].map((each) => each.textContent).join(""));
  const how = isOurs(where) ? "as it was sent" : "as the log represents it";
  openDialog(`Request ${count(number)}, ${how}`, [
    el("p", { class: "quiet small" }, "Secrets that the redactor knows are replaced."),
    el("div", { class: "row" }, copy),
    pages,
  ]);
}

/**
 * Say whether we sent the requests of a thread: Codex sends its own.
 *
 * @param {Place} where
 */
function isOurs(where) {
  return where.thread?.harness !== "codex";
}

/**
 * @param {LedgerRow} request
 * @param {RequestRow[]} rows
 */
function figures(request, rows) {
  const figure = (/** @type {string} */ name, /** @type {string} */ value, /** @type {string} */ more = "") =>
    el("div", null, el("dt", null, name), el("dd", null, value, more ? el("small", null, more) : null));
  return el(
    "dl",
    { class: "figures" },
    figure("Size", bytes(request.size), counted(rows.length, "row")),
    figure("As before", share(request.shared_size, request.size), bytes(request.shared_size)),
    figure("Tokens in", tokens(request.input_tokens)),
    figure(
      "From the cache",
      share(request.cached_tokens, request.input_tokens),
      request.cached_tokens === null || request.cached_tokens === undefined
        ? "not reported"
        : tokens(request.cached_tokens),
    ),
    figure("Tokens out", tokens(request.output_tokens), request.latency ? duration(request.latency) : ""),
    figure("Cost", money(request.cost)),
  );
}

/**
 * @param {Place} where
 * @param {LedgerRow} request
 */
function breakOf(where, request) {
  if (!request.difference) return null;
  const why = request.unexplained
    ? "no entry of the log says why; this is a defect"
    : reasonWords(request.reason);
  return el(
    "p",
    { class: "hint" },
    el("b", null, "The prefix broke here "),
    "at ",
    foreign(request.difference),
    `: ${why}. `,
    el(
      "a",
      { href: href(["threads", where.id, "requests", request.number - 1, "diff", request.number]) },
      "What changed",
    ),
  );
}

/**
 * The whole request as one line, so that the proportions show.
 *
 * @param {RequestRow[]} rows
 */
function layout(rows) {
  const sum = rows.reduce((all, row) => all + row.bytes, 0) || 1;
  const line = el("div", {
    class: "request-line",
    role: "img",
    "aria-label": "What the request is made of, in order",
  });
  for (const row of rows) {
    const piece = el("i", {
      class: row.shared ? "held" : "new",
      title: legible(`${row.label}: ${bytes(row.bytes)}`),
    });
    piece.style.flexGrow = String(Math.max(row.bytes / sum, 0.0008));
    line.append(piece);
  }
  return line;
}
