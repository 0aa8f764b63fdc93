/**
 * Lines of a difference: a sign for each, besides the colour; and the changes of a patch, by file.
 */

import { el } from "./dom.js";
import { foreign, legible } from "./text.js";
import { count } from "./format.js";

const MOST = 600;

/**
 * @typedef {{op: string, text: string}} Line
 */

/** @type {Record<string, string>} */
const CHANGES = { add: "new file", delete: "deleted", update: "" };

/**
 * Return what a patch does to each file.
 *
 * @param {import("./types.js").FileChange[]} changes
 */
export function changesOf(changes) {
  return changes.map(({ op, old, new: now, lines, cut }) => {
    const moved = old && now && old !== now;
    const name = legible(now ?? old ?? "");
    return el(
      "section",
      { class: "file-change", "data-file": name, "aria-label": name },
      el(
        "p",
        { class: "row" },
        moved ? [foreign(old, "mono"), " → "] : null,
        foreign(name, "mono"),
        CHANGES[op] ? el("span", { class: "badge" }, CHANGES[op]) : null,
      ),
      lines.length ? linesOf(lines, `what changes in ${name}`) : null,
      cut ? el("p", { class: "quiet small" }, "The rest of this change is not shown.") : null,
    );
  });
}

/**
 * @param {Line[]} lines
 * @param {string} [label]
 */
export function linesOf(lines, label = "difference") {
  const box = el("div", {
    class: "diff-text",
    dir: "auto",
    tabindex: 0,
    role: "region",
    "aria-label": label,
  });
  add(box, lines, 0);
  return box;
}

/**
 * @param {HTMLElement} box
 * @param {Line[]} lines
 * @param {number} from
 */
function add(box, lines, from) {
  for (const { op, text } of lines.slice(from, from + MOST)) {
    const [look, sign] =
      op === "+" || op === "add"
        ? ["add", "+"]
        : op === "-" || op === "del" || op === "remove"
          ? ["del", "−"]
          : op === "…"
            ? ["gap", "…"]
            : ["keep", " "];
    box.append(
      el(
        "div",
        { class: look, "data-line": sign },
        el("span", { "aria-hidden": "true" }, sign),
        legible(text),
      ),
    );
  }
  if (lines.length <= from + MOST) return;
  const more = el(
    "button",
    { class: "button", type: "button", "data-act": "more" },
    `${count(lines.length - from - MOST)} more lines`,
  );
  more.addEventListener("click", () => {
    more.remove();
    add(box, lines, from + MOST);
  });
  box.append(more);
}
