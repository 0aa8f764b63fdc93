/**
 * Sheets over the page. Owns their frame: a title, a way to close, the focus back where it was.
 */

import { el } from "./dom.js";

/**
 * Open a sheet from the side, or a box in the middle.
 *
 * @param {string | Node} title
 * @param {(Node | string | null)[]} content
 * @param {{box?: boolean, id?: string}} [options]
 */
export function openDialog(title, content, options = {}) {
  const label = typeof title === "string" ? title : (title.textContent ?? "");
  const close = el(
    "button",
    { class: "button bare", type: "button", "aria-label": "Close", "data-act": "close" },
    "Close ",
    el("kbd", null, "Esc"),
  );
  const dialog = el(
    "dialog",
    { class: options.box ? "box" : "aside", "aria-label": label, id: options.id ?? "sheet" },
    el(
      "div",
      { class: "dialog-body" },
      el("div", { class: "dialog-head" }, el("h2", null, title), close),
      content,
    ),
  );
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    // The browser has given the focus back already; by now the user may have moved it on.
    if (document.activeElement === document.body) before?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Close what stands over the page, as a new address does. */
export function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
}
