/**
 * Where one talks to a thread: say, steer, interrupt, and answer what waits. Only with control.
 */

import { announce, el, fill } from "./dom.js";
import { api, fetchJson, post } from "./data.js";
import { bindKey } from "./keys.js";
import { hear } from "./live.js";
import { failed } from "./states.js";
import { drawQuestion } from "./questions.js";

/** @typedef {import("./types.js").Place} Place */

/**
 * @param {Place} where
 * @param {() => void} sent
 */
export function composer(where, sent) {
  const asked = el("div", { id: "questions", "aria-live": "assertive" });
  const told = el("div", { id: "composer-told" });
  const field = el("textarea", {
    id: "say",
    rows: 2,
    "aria-label": "Say something to the model",
    placeholder: "Say something  (Ctrl Enter sends)",
  });
  const send = el("button", { class: "button main-act", type: "submit", id: "send" }, "Send");
  const stop = el("button", { class: "button danger", type: "button", id: "interrupt" }, "Interrupt");
  const form = el("form", null, field, el("div", { class: "row" }, send, stop));
  const box = el("div", { class: "composer", id: "composer" }, asked, told, form);
  let running = Boolean(where.thread?.running);
  let writer = where.thread?.writer;

  const show = () => {
    // Another process reads what lies in the inbox; only it can end its turn.
    const here = writer?.pid === where.server.pid;
    send.textContent = running && here ? "Steer" : writer && !here ? "Leave in its inbox" : "Send";
    stop.hidden = !running || !here;
    box.dataset.running = String(running);
  };
  show();
  hear(
    "running",
    (now) => {
      running = Boolean(now.running);
      writer = now.writer;
      fill(told);
      show();
    },
    where.signal,
  );

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = field.value.trim();
    if (!text) return;
    send.disabled = true;
    fill(told);
    try {
      const answer = await post(api("threads", where.id, running ? "steer" : "turns"), { text });
      field.value = "";
      sent();
      if (answer?.posted)
        fill(
          told,
          el(
            "p",
            { class: "hint" },
            "Another process writes this thread. The message lies in its inbox, and is read with its next step or turn.",
          ),
        );
      announce(running ? "steered" : "sent");
    } catch (error) {
      fill(told, failed(error));
    }
    send.disabled = false;
    field.focus();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit();
  });
  stop.addEventListener("click", async () => {
    try {
      await post(api("threads", where.id, "interrupt"), {});
      announce("interrupted");
    } catch (error) {
      fill(told, failed(error));
    }
  });
  bindKey("s", "say something", () => field.focus(), where.signal);
  bindKey(
    "a",
    "answer what waits",
    () => /** @type {HTMLElement | null} */ (asked.querySelector("button, input"))?.focus(),
    where.signal,
  );
  followQuestions(where, asked);
  return box;
}

/**
 * @param {Place} where
 * @param {HTMLElement} box
 */
function followQuestions(where, box) {
  const read = async () => {
    const answer = await fetchJson(api("threads", where.id, "questions"), where.signal).catch(() => null);
    if (!answer || where.signal.aborted) return;
    const waits = new Map(answer.questions.map((/** @type {any} */ each) => [each.id, each]));
    for (const drawn of [...box.children]) {
      const id = drawn.getAttribute("data-question") ?? "";
      if (waits.has(id)) waits.delete(id);
      else drawn.remove();
    }
    for (const each of waits.values()) box.append(drawQuestion(where, each, read));
  };
  read();
  hear(
    "live",
    ({ event }) => {
      const inner = event.type === "agent.reported" ? event.event : event;
      if (/^(approval|questions|turn)\./.test(inner?.type ?? "")) read();
    },
    where.signal,
  );
  hear("running", read, where.signal);
}
