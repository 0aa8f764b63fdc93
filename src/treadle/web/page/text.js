/**
 * Text of others. Owns how it is shown: isolated from the text around it, and with a name in the
 * place of every character that one cannot see. Invariant: no text can hide another or turn it round.
 */

import { el } from "./dom.js";

const HIDDEN =
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180F\u200B\u200C\u200E\u200F\u2028-\u202E\u2060-\u206F\u3164\uFE00-\uFE0E\uFEFF\uFFA0\uFFF9-\uFFFB\u{E0000}-\u{E0FFF}]|(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\uFE0F])\u200D/gu;

const MOST_MARKS = 2000;

/** The first 32 characters. Few fonts have the signs that Unicode has for them. */
const CONTROLS =
  "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US".split(
    " ",
  );

/** @type {Record<number, string>} */
const NAMES = {
  0x007f: "DEL",
  0x00ad: "SHY",
  0x061c: "ALM",
  0x200b: "ZWSP",
  0x200c: "ZWNJ",
  0x200d: "ZWJ",
  0x200e: "LRM",
  0x200f: "RLM",
  0x2028: "LS",
  0x2029: "PS",
  0x202a: "LRE",
  0x202b: "RLE",
  0x202c: "PDF",
  0x202d: "LRO",
  0x202e: "RLO",
  0x2060: "WJ",
  0x2066: "LRI",
  0x2067: "RLI",
  0x2068: "FSI",
  0x2069: "PDI",
  0xfeff: "BOM",
};

/**
 * Return the name of a character that cannot be seen.
 *
 * @param {string} character
 */
function nameOf(character) {
  const code = character.codePointAt(0) ?? 0;
  return `⟨${CONTROLS[code] ?? NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}⟩`;
}

/**
 * Return text of others as an isolated element.
 *
 * @param {unknown} text
 * @param {string} [more]  Further classes.
 */
export function foreign(text, more = "") {
  const box = el("bdi", { class: `foreign ${more}`.trim() });
  box.append(...pieces(plain(text)));
  return box;
}

/**
 * Return text of others as a block that keeps its lines.
 *
 * @param {unknown} text
 * @param {string} [more]  Further classes.
 */
export function foreignBlock(text, more = "") {
  const box = el("pre", { class: `foreign ${more}`.trim(), dir: "auto" });
  box.append(...pieces(plain(text)));
  return box;
}

/**
 * Return text with names for what cannot be seen, for titles and labels.
 *
 * @param {unknown} text
 */
export function legible(text) {
  return plain(text).replace(HIDDEN, nameOf);
}

/**
 * @param {unknown} text
 * @returns {string}
 */
export function plain(text) {
  if (text === null || text === undefined) return "";
  return typeof text === "string" ? text : (JSON.stringify(text, null, 2) ?? String(text));
}

/**
 * @param {string} text
 * @returns {(Node | string)[]}
 */
function pieces(text) {
  /** @type {(Node | string)[]} */
  const found = [];
  let done = 0;
  let marks = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (marks === MOST_MARKS) break;
    marks += 1;
    if (match.index > done) found.push(text.slice(done, match.index));
    const mark = el("span", { class: "unseen" });
    mark.textContent = nameOf(match[0]);
    found.push(mark);
    done = match.index + match[0].length;
  }
  const rest = text.slice(done);
  if (rest) found.push(marks === MOST_MARKS ? rest.replace(HIDDEN, nameOf) : rest);
  return found;
}
