/**
 * A long text, a page at a time. Owns the way from one page to the next.
 */

import { el } from "./dom.js";
import { fetchJson } from "./data.js";
import { bytes, count } from "./format.js";
import { failed, waiting } from "./states.js";
import { foreignBlock } from "./text.js";

/**
 * @typedef {object} PageOfText
 * @property {string} text
 * @property {number} [chars]
 * @property {number | null} [next]
 */

/**
 * Return a box that reads a text from its start, and goes on when asked.
 *
 * @param {(offset: number) => string} path
 * @param {AbortSignal} signal
 * @param {(answer: any) => PageOfText} [read]
 */
export function textPages(path, signal, read = (answer) => answer) {
  const box = el("div", { class: "stack", "data-text": "pages" });
  load(box, 0, path, signal, read);
  return box;
}

/**
 * @param {HTMLElement} box
 * @param {number} offset
 * @param {(offset: number) => string} path
 * @param {AbortSignal} signal
 * @param {(answer: any) => PageOfText} read
 */
async function load(box, offset, path, signal, read) {
  const wait = waiting(4);
  box.append(wait);
  try {
    const page = read(await fetchJson(path(offset), signal));
    wait.remove();
    box.append(foreignBlock(page.text, "whole-text"));
    if (page.next === null || page.next === undefined) return;
    const left = page.chars
      ? ` (${count(page.next)} of ${bytes(page.chars).replace("B", "")} characters)`
      : "";
    const more = el(
      "button",
      { class: "button", type: "button", "data-act": "more-text" },
      `Go on reading${left}`,
    );
    more.addEventListener("click", () => {
      more.remove();
      load(box, /** @type {number} */ (page.next), path, signal, read);
    });
    box.append(more);
  } catch (error) {
    if (signal.aborted) return;
    wait.replaceWith(failed(error));
  }
}

/**
 * Copy a text and say so on the button.
 *
 * @param {HTMLButtonElement} button
 * @param {() => string} text
 */
export function copyOnClick(button, text) {
  const words = button.textContent;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Not allowed to copy";
    }
    setTimeout(() => {
      button.textContent = words;
    }, 1500);
  });
}
