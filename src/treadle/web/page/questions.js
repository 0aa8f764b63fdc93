/**
 * What waits for an answer: an approval of a command, or questions of the model.
 */

import { announce, el, fill } from "./dom.js";
import { api, post } from "./data.js";
import { failed } from "./states.js";
import { foreign, foreignBlock } from "./text.js";

/** @typedef {import("./types.js").Place} Place */

/**
 * @param {Place} where
 * @param {any} asked
 * @param {() => void} done
 */
export function drawQuestion(where, asked, done) {
  const told = el("div");
  const answer = async (/** @type {object} */ decision) => {
    try {
      await post(api("threads", where.id, "answers", asked.id), decision);
      announce("answered");
      done();
    } catch (error) {
      fill(told, failed(error));
    }
  };
  const inner = asked.questions ? choices(asked, answer) : approval(asked, answer);
  return el(
    "section",
    {
      class: "question",
      "data-question": asked.id,
      role: "group",
      "aria-label": asked.questions ? "The model asks" : "Approve?",
    },
    inner,
    told,
  );
}

/**
 * @param {any} asked
 * @param {(decision: object) => void} answer
 */
function approval(asked, answer) {
  const call = asked.call ?? asked;
  const argv = Array.isArray(call.argv) ? call.argv : [];
  const command = argv.length ? typed(argv) : (call.text ?? call.command ?? JSON.stringify(call));
  const note = el("input", { placeholder: "why not (the model reads it)", "aria-label": "Why not" });
  const button = (/** @type {string} */ decision, /** @type {string} */ words, more = "") =>
    el(
      "button",
      {
        class: `button ${more}`.trim(),
        type: "button",
        "data-act": decision,
        on: {
          click: () =>
            answer(decision === "no" && note.value ? { decision, note: note.value } : { decision }),
        },
      },
      words,
    );
  const prefix = Array.isArray(call.prefix) && call.prefix.length ? call.prefix.join(" ") : null;
  return [
    el("h2", null, "May it do this?"),
    foreignBlock(command),
    el(
      "p",
      { class: "quiet small" },
      call.cwd ? ["in ", foreign(call.cwd, "mono")] : null,
      call.reason ? [" – ", foreign(call.reason)] : null,
      call.outside ? " – outside the sandbox" : null,
      asked.agent ? [" – asked by ", foreign(asked.agent)] : null,
    ),
    el(
      "div",
      { class: "row" },
      button("once", "Approve once", "main-act"),
      button("thread", "For this thread"),
      prefix ? button("prefix", `Always “${prefix}”`) : null,
      button("no", "Refuse", "danger"),
      note,
    ),
  ];
}

/**
 * Return a command as one would type it: of a shell only what it is told.
 *
 * @param {string[]} argv
 */
function typed(argv) {
  if (argv.length === 3 && /^-l?c$/.test(argv[1])) return argv[2];
  return argv.map((part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : JSON.stringify(part))).join(" ");
}

/**
 * @param {any} asked
 * @param {(decision: object) => void} answer
 */
function choices(asked, answer) {
  const form = el("form", { class: "stack" });
  for (const each of asked.questions) {
    const options = (each.options ?? []).map((/** @type {any} */ option, /** @type {number} */ n) => {
      const label = typeof option === "string" ? option : option.label;
      return el(
        "label",
        null,
        el("input", { type: "radio", name: each.id, value: label, required: n === 0 && !each.free }),
        el(
          "span",
          null,
          foreign(label),
          option.description
            ? el("span", { class: "quiet small" }, " – ", foreign(option.description))
            : null,
        ),
      );
    });
    const own = el("input", {
      name: `${each.id} own`,
      placeholder: "in other words",
      "aria-label": "In other words",
    });
    own.addEventListener("input", () => {
      for (const radio of form.querySelectorAll("input[type=radio]"))
        if (radio.getAttribute("name") === each.id)
          /** @type {HTMLInputElement} */ (radio).required = !own.value;
    });
    form.append(
      el("fieldset", null, el("legend", null, el("b", null, foreign(each.question))), options, own),
    );
  }
  const dismiss = el(
    "button",
    {
      class: "button",
      type: "button",
      "data-act": "dismiss",
      on: { click: () => answer({ answers: null }) },
    },
    "No answer",
  );
  form.append(
    el(
      "div",
      { class: "row" },
      el("button", { class: "button main-act", type: "submit", "data-act": "answer" }, "Answer"),
      dismiss,
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new FormData(form);
    /** @type {Record<string, string[]>} */
    const answers = {};
    for (const each of asked.questions) {
      const own = String(given.get(`${each.id} own`) ?? "").trim();
      const picked = given.getAll(each.id).map(String);
      answers[each.id] = own ? [own] : picked;
    }
    answer({ answers });
  });
  return [el("h2", null, "The model asks"), form];
}
