/**
 * What one can do from a turn on: rewind to before it, or fork there. Only with control.
 */

import { announce, el, fill } from "./dom.js";
import { api, post } from "./data.js";
import { openDialog } from "./dialog.js";
import { go, href } from "./routes.js";
import { failed } from "./states.js";
import { foreign } from "./text.js";

/** @typedef {import("./types.js").Place} Place */

/**
 * @param {Place} where
 * @param {number} turn
 */
export function turnActs(where, turn) {
  const rewind = el(
    "button",
    {
      class: "button bare small",
      type: "button",
      "data-act": "rewind",
      on: { click: () => askRewind(where, turn) },
    },
    "Rewind",
  );
  const fork = el(
    "button",
    {
      class: "button bare small",
      type: "button",
      "data-act": "fork",
      on: { click: () => askFork(where, turn) },
    },
    "Fork",
  );
  return el("span", { class: "row" }, rewind, fork);
}

/**
 * @param {Place} where
 * @param {number} turn
 */
function askRewind(where, turn) {
  const told = el("div", { role: "status" });
  const choice = (/** @type {string} */ what, /** @type {string} */ words, /** @type {string} */ more) => {
    const act = async () => {
      try {
        const answer = await post(api("threads", where.id, "rewind"), { turn, what });
        announce("rewound");
        dialog.addEventListener("close", where.again, { once: true });
        if (answer.kept.length) fill(told, leftAlone(answer.kept));
        else dialog.close();
      } catch (error) {
        fill(told, failed(error));
      }
    };
    return el(
      "li",
      null,
      el(
        "button",
        { class: "button", type: "button", "data-act": `rewind-${what}`, on: { click: act } },
        words,
      ),
      el("p", { class: "quiet small" }, more),
    );
  };
  const dialog = openDialog(
    `Rewind to before turn ${turn}`,
    [
      el(
        "p",
        null,
        "Nothing is deleted: the log notes that these turns no longer count, and they stay readable here.",
      ),
      el(
        "ul",
        { class: "form" },
        choice("both", "Conversation and files", "what the turns changed in files is taken back, too"),
        choice("conversation", "Conversation only", "files stay as they are"),
        choice("files", "Files only", "the model still knows what it did"),
      ),
      told,
    ],
    { box: true },
  );
}

/** @param {{path: string, reason: string}[]} kept */
function leftAlone(kept) {
  return el(
    "div",
    { class: "hint", "data-kept": kept.length },
    el("b", null, "Done, but these files were left alone:"),
    el(
      "ul",
      null,
      kept.map((each) => el("li", null, foreign(each.path, "mono"), " – ", foreign(each.reason))),
    ),
  );
}

/**
 * @param {Place} where
 * @param {number} turn
 */
function askFork(where, turn) {
  const told = el("div", { role: "status" });
  const title = el("input", { maxlength: 200, id: "fork-title" });
  const form = el(
    "form",
    { class: "form" },
    el("label", null, "Its name, if it needs one", title),
    el(
      "div",
      { class: "row" },
      el("button", { class: "button main-act", type: "submit", "data-act": "fork-now" }, "Fork"),
    ),
    told,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const answer = await post(api("threads", where.id, "fork"), {
        turn,
        ...(title.value ? { title: title.value } : {}),
      });
      go(href(["threads", answer.thread, "transcript"]));
    } catch (error) {
      fill(told, failed(error));
    }
  });
  openDialog(`A new thread with everything before turn ${turn}`, [form], { box: true });
  title.focus();
}
