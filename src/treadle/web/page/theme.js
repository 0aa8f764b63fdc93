/**
 * Light or dark. Owns the switch. Invariant: without a choice of the user the system decides.
 */

const KEY = "treadle-theme";
const DARK = matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // an exported file may not store anything
  }
}

export function applyTheme() {
  const theme = chosen() ?? (DARK.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  return theme;
}

/** Change to the other theme and return its name. */
export function switchTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    if ((DARK.matches ? "dark" : "light") === next) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // it holds until the page is loaded again
  }
  document.documentElement.dataset.theme = next;
  return next;
}

/** @param {() => void} changed */
export function watchTheme(changed) {
  DARK.addEventListener("change", changed);
}
