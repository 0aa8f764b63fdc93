/**
 * The sheet that starts a thread. Only with control.
 */

import { el, fill } from "./dom.js";
import { post } from "./data.js";
import { openDialog } from "./dialog.js";
import { go, href } from "./routes.js";
import { failed } from "./states.js";

const REMEMBERED = "treadle-directory";

export function openNewThread() {
  if (document.getElementById("new")) return;
  const told = el("div", { role: "status" });
  const cwd = el("input", {
    id: "new-cwd",
    required: true,
    placeholder: "/home/me/project",
    value: remembered(),
  });
  const model = el("input", { id: "new-model", placeholder: "the one of the settings" });
  const text = el("textarea", { id: "new-text", rows: 4, required: true });
  const start = el("button", { class: "button main-act", type: "submit", id: "new-start" }, "Start");
  const form = el(
    "form",
    { class: "form" },
    el("label", null, "Directory", cwd),
    el("label", null, "Model", model),
    el("label", null, "What should it do?", text),
    el("div", { class: "row" }, start),
    told,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    start.disabled = true;
    try {
      const answer = await post("/api/threads", {
        cwd: cwd.value.trim(),
        text: text.value,
        ...(model.value.trim() ? { model: model.value.trim() } : {}),
      });
      remember(cwd.value.trim());
      go(href(["threads", answer.thread, "transcript"]));
    } catch (error) {
      fill(told, failed(error));
    }
    start.disabled = false;
  });
  openDialog("New thread", [form], { box: true, id: "new" });
  (cwd.value ? text : cwd).focus();
}

function remembered() {
  try {
    return localStorage.getItem(REMEMBERED) ?? "";
  } catch {
    return "";
  }
}

/** @param {string} directory */
function remember(directory) {
  try {
    localStorage.setItem(REMEMBERED, directory);
  } catch {
    // then it is typed again
  }
}
