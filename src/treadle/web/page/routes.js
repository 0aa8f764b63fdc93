/**
 * Addresses inside the page. Owns the form of the fragment, `#/threads/ID/requests/12?x=y`, and the
 * token that the link carries. Invariant: the token leaves the address bar before anything else.
 */

/**
 * Return the fragment of a place in the page.
 *
 * @param {(string | number)[]} parts
 * @param {Record<string, string | number | null | undefined>} [query]
 */
export function href(parts, query = {}) {
  const path = parts.map((part) => encodeURIComponent(String(part))).join("/");
  const set = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  const text = new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

/** Return where the page is. */
export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query ?? "") };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * Go to another place.
 *
 * @param {string} fragment
 */
export function go(fragment) {
  location.hash = fragment;
}

/**
 * Write another place into the address bar, without a step for the back button and without drawing.
 *
 * @param {string} fragment
 */
export function rename(fragment) {
  history.replaceState(history.state, "", fragment);
}

/** Take the token out of the address bar; null where there is none. */
export function takeToken() {
  const found = /^#token=([^&/]+)[&]?(.*)$/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", `${location.pathname}#${found[2].startsWith("/") ? found[2] : "/"}`);
  return decoded(found[1]);
}
