/**
 * Where the page gets its facts: the server, or the data that stands in an exported file.
 *
 * Owns every request to the server but the stream of events. Invariant: views read through
 * `fetchJson` and act through `post`; in an exported file nothing is requested at all.
 */

/** What the server, or the exported file, cannot give. */
export class Refused extends Error {
  /**
   * @param {string} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** @type {{export?: {version?: string, time?: number, thread?: string}, answers: Record<string, any>} | null} */
const inlined = readInlined();

function readInlined() {
  const found = document.getElementById("data");
  return found ? JSON.parse(found.textContent ?? "{}") : null;
}

/** Return what is known of the exported file; null for a page that a server gives. */
export function exported() {
  return inlined ? (inlined.export ?? {}) : null;
}

/**
 * Return the answer to a GET.
 *
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function fetchJson(path, signal) {
  if (inlined) return fromFile(path);
  return answered(await asked(path, { headers: { Accept: "application/json" }, signal }));
}

/**
 * Ask the server to do something; only with --control.
 *
 * @param {string} path
 * @param {object} body
 * @returns {Promise<any>}
 */
export async function post(path, body) {
  if (inlined) throw new Refused("static", "This is a file; it cannot act.");
  const headers = { "Content-Type": "application/json", "X-Treadle": "1" };
  return answered(await asked(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

/**
 * Trade the token of the link for a cookie.
 *
 * @param {string} token
 */
export async function openSession(token) {
  await post("/api/session", { token });
}

/**
 * Return the parts of a path, each encoded.
 *
 * @param {...(string | number)} parts
 */
export function api(...parts) {
  return `/api/${parts.map((part) => encodeURIComponent(String(part))).join("/")}`;
}

/**
 * Return a query without what is not set.
 *
 * @param {Record<string, string | number | null | undefined>} values
 */
export function query(values) {
  const set = Object.entries(values).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const text = new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

/**
 * @param {string} path
 * @param {RequestInit} options
 */
async function asked(path, options) {
  try {
    return await fetch(path, { ...options, credentials: "same-origin", cache: "no-store" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refused("gone", "The server does not answer. Start `treadle web` again.");
  }
}

/** @param {Response} response */
async function answered(response) {
  if (response.status === 204) return null;
  const text = await response.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = null;
  }
  if (response.ok) return value;
  const told = value?.error ?? {};
  const code =
    response.status === 401 || told.code === "wrong_token"
      ? "locked"
      : (told.code ?? String(response.status));
  throw new Refused(code, told.message ?? `The server answered ${response.status}.`);
}

/** Parameters that say how much of an answer is wanted. */
const PAGING = new Set(["from", "to", "before", "limit", "offset", "points", "buckets", "reverse"]);

/** @param {string} path */
function fromFile(path) {
  const answers = inlined?.answers ?? {};
  if (path in answers) return answers[path];
  const [plain, asked] = path.split("?");
  // A page of a list is a part of the whole one; any other question has an answer of its own.
  const known = [...new URLSearchParams(asked ?? "").keys()].every((key) => PAGING.has(key));
  if (!known || !(plain in answers))
    throw new Refused("not_found", "This is not in the file; `treadle web` shows it.");
  const name = ["entries", "requests", "turns"].find((key) => Array.isArray(answers[plain][key]));
  return name ? part(answers[plain], name, new URLSearchParams(asked ?? "")) : answers[plain];
}

/**
 * Return the part of a whole list that a query asks for.
 *
 * @param {any} answer
 * @param {string} name
 * @param {URLSearchParams} wanted
 */
function part(answer, name, wanted) {
  const key = name === "entries" ? "seq" : "number";
  const from = Number(wanted.get("from") ?? 0);
  const to = Number(wanted.get("to") ?? wanted.get("before") ?? Infinity);
  const limit = Number(wanted.get("limit") ?? 200);
  const inside = answer[name].filter(
    (/** @type {any} */ each) =>
      each[key] >= from && (wanted.has("before") ? each[key] < to : each[key] <= to),
  );
  const newest = !wanted.has("from");
  return { ...answer, [name]: newest ? inside.slice(-limit) : inside.slice(0, limit), next: null };
}
