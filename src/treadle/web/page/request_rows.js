/**
 * The rows of a request, in groups, each with its size and since when it stands in the prefix.
 */

import { el } from "./dom.js";
import { api, query } from "./data.js";
import { href } from "./routes.js";
import { openDialog } from "./dialog.js";
import { bytes, count, tokens } from "./format.js";
import { foreign, legible } from "./text.js";
import { textPages } from "./text_pages.js";

/** @typedef {import("./types.js").Place} Place */
/** @typedef {import("./types.js").RequestRow} RequestRow */

/** @type {Record<string, string>} */
const PARTS = {
  params: "Parameters",
  tools: "Tools",
  instructions: "Instructions",
  context: "First context",
  summary: "Summaries",
  difference: "What changed since",
  entry: "The conversation",
};

const MOST_ROWS = 400;

/**
 * @param {Place} where
 * @param {number} number
 * @param {RequestRow[]} rows
 */
export function rowsTable(where, number, rows) {
  const body = el("tbody");
  const most = Math.max(...rows.map((row) => row.tokens), 1);
  addRows(body, where, number, rows, 0, most);
  const open = (/** @type {Event} */ event) => {
    const at = /** @type {Element} */ (event.target)
      .closest("[data-position]")
      ?.getAttribute("data-position");
    const row = rows.find((each) => String(each.position) === at);
    if (row) showRow(where, number, row);
  };
  body.addEventListener("click", open);
  const heads = [
    ["#", "num optional"],
    ["role", "optional"],
    ["what", ""],
    ["tokens", "num"],
    ["", "optional"],
    ["bytes", "num optional"],
    ["since", "num"],
  ];
  return el(
    "section",
    { class: "card flush table-box", "aria-label": "Rows of the request" },
    el(
      "table",
      { id: "rows" },
      el(
        "thead",
        null,
        el(
          "tr",
          null,
          heads.map(([words, look]) => el("th", { class: look, scope: "col" }, words)),
        ),
      ),
      body,
    ),
  );
}

/**
 * Add rows, with a heading where another part begins; the end of a very long request on demand.
 *
 * @param {HTMLElement} body
 * @param {Place} where
 * @param {number} number
 * @param {RequestRow[]} rows
 * @param {number} from
 * @param {number} most
 */
function addRows(body, where, number, rows, from, most) {
  const until = Math.min(rows.length, from + MOST_ROWS);
  for (let n = from; n < until; n += 1) {
    if (!n || rows[n].part !== rows[n - 1].part) body.append(group(rows, n));
    body.append(line(rows[n], number, most));
  }
  if (until === rows.length) return;
  const more = el(
    "tr",
    null,
    el(
      "td",
      { colspan: 7 },
      el(
        "button",
        { class: "button", type: "button", "data-act": "more" },
        `Show ${count(Math.min(MOST_ROWS, rows.length - until))} more of ${count(rows.length)} rows`,
      ),
    ),
  );
  more.addEventListener("click", (event) => {
    event.stopPropagation();
    more.remove();
    addRows(body, where, number, rows, until, most);
  });
  body.append(more);
}

/**
 * @param {RequestRow[]} rows
 * @param {number} n
 */
function group(rows, n) {
  const { part } = rows[n];
  let sum = 0;
  let end = n;
  for (; end < rows.length && rows[end].part === part; end += 1) sum += rows[end].tokens;
  return el(
    "tr",
    { class: "group" },
    el("td", { colspan: 7 }, PARTS[part] ?? part, el("span", { class: "quiet" }, ` · ${tokens(sum)} tokens`)),
  );
}

/**
 * A name and the start of the text; one of both, where they say the same.
 *
 * @param {RequestRow} row
 */
function whatOf(row) {
  const text = (row.text ?? "").trim().slice(0, 240);
  const name = row.label && row.label !== (row.role ?? row.kind) ? row.label : "";
  if (!name) return [foreign(text || row.label || row.kind)];
  if (text.replace(/\s+/g, " ").startsWith(name.replace(/…$/, ""))) return [foreign(text)];
  return [foreign(name), text ? el("span", { class: "quiet" }, "  ", foreign(text)) : null];
}

/**
 * @param {RequestRow} row
 * @param {number} number
 * @param {number} most
 */
function line(row, number, most) {
  const since = row.first_request ?? number;
  const role = legible(row.role ?? row.kind);
  const meter = el(
    "span",
    { class: "meter", "aria-hidden": "true" },
    el("i", { style: { width: `${(100 * row.tokens) / most}%` } }),
  );
  const marks = (row.fragments ?? [])
    .filter((each) => each !== row.label)
    .map((each) => [el("span", { class: "badge" }, foreign(each)), " "]);
  return el(
    "tr",
    {
      "data-position": row.position,
      "data-part": row.part,
      "data-open": true,
      class: row.shared ? "as-before" : "is-new",
    },
    el("td", { class: "num quiet optional" }, String(row.position)),
    el("td", { class: "soft nowrap optional" }, role),
    el(
      "td",
      { class: "clip" },
      el(
        "button",
        { class: "line-button", type: "button" },
        el("span", { class: "narrow" }, `${role} · `),
        ...marks.flat(),
        ...whatOf(row),
      ),
    ),
    el("td", { class: "num" }, count(row.tokens)),
    el("td", { class: "optional" }, meter),
    el("td", { class: "num quiet optional" }, bytes(row.bytes)),
    el(
      "td",
      { class: "num" },
      row.shared && since < number
        ? el(
            "span",
            { class: "quiet", title: `in every request since request ${since}` },
            `№ ${count(since)}`,
          )
        : el("span", { class: "badge accent" }, "new"),
    ),
  );
}

/**
 * @param {Place} where
 * @param {number} number
 * @param {RequestRow} row
 */
function showRow(where, number, row) {
  const whole = textPages(
    (offset) => `${api("threads", where.id, "requests", number, "rows", row.position)}${query({ offset })}`,
    where.signal,
  );
  const entry = row.seq
    ? el(
        "a",
        { class: "button", href: href(["threads", where.id, "transcript"], { seq: row.seq }) },
        `Entry ${count(row.seq)} in the transcript`,
      )
    : null;
  const facts = [
    `${PARTS[row.part] ?? row.part}`,
    `${count(row.tokens)} tokens`,
    bytes(row.bytes),
    `since request ${row.first_request ?? number}`,
  ];
  openDialog(foreign(row.label || row.kind), [
    el("p", { class: "quiet small" }, facts.join(" · ")),
    entry,
    whole,
  ]);
}
