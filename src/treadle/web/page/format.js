/**
 * Figures as people read them. Owns the units. Invariant: what nobody knows is a dash, not a nought.
 */

export const UNKNOWN = "–";
const COUNT = new Intl.NumberFormat("en");
const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });
const DAY_OF_YEAR = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", year: "numeric" });
const MOMENT = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hour12: false });

/** @param {number | null | undefined} n */
export function count(n) {
  return n === null || n === undefined ? UNKNOWN : COUNT.format(n);
}

/**
 * @param {number} n
 * @param {string} one
 * @param {string} [many]
 */
export function counted(n, one, many = `${one}s`) {
  return `${COUNT.format(n)} ${n === 1 ? one : many}`;
}

/** @param {number | null | undefined} n */
export function bytes(n) {
  if (n === null || n === undefined) return UNKNOWN;
  if (n < 1000) return `${n} B`;
  const [value, unit] = n < 999_500 ? [n / 1e3, "kB"] : n < 999_500_000 ? [n / 1e6, "MB"] : [n / 1e9, "GB"];
  return `${value.toFixed(value < 10 ? 1 : 0)} ${unit}`;
}

/** @param {number | null | undefined} n */
export function tokens(n) {
  if (n === null || n === undefined) return UNKNOWN;
  if (n < 1000) return String(n);
  return n < 999_500 ? `${(n / 1e3).toFixed(n < 9_950 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

/**
 * @param {number | null | undefined} part
 * @param {number | null | undefined} whole
 */
export function share(part, whole) {
  if (part === null || part === undefined || !whole) return UNKNOWN;
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 1) return "<1%";
  return `${percent > 99 && percent < 100 ? "99" : percent.toFixed(0)}%`;
}

/** @param {any} cost  A cost, a bill, or null. */
export function money(cost) {
  if (cost === null || cost === undefined) return UNKNOWN;
  if (typeof cost === "number") return amount(cost, "USD");
  if (cost.amounts) {
    const sums = Object.entries(cost.amounts).map(([name, value]) => amount(Number(value), name));
    if (!sums.length) return cost.unpriced ? UNKNOWN : "$0.00";
    return `${cost.unpriced ? "≥ " : ""}${sums.join(" + ")}`;
  }
  return cost.amount === undefined ? UNKNOWN : amount(cost.amount, cost.currency ?? "USD");
}

/**
 * What some things cost together.
 *
 * @param {any[]} bills  What is not known yet may be null.
 */
export function together(bills) {
  /** @type {Record<string, number>} */
  const amounts = {};
  for (const bill of bills)
    for (const [name, value] of Object.entries(bill?.amounts ?? {}))
      amounts[name] = (amounts[name] ?? 0) + Number(value);
  return money({ amounts, unpriced: bills.some((bill) => !bill || bill.unpriced) });
}

/**
 * @param {number} value
 * @param {string} currency
 */
function amount(value, currency) {
  const small = value > 0 && value < 0.0001;
  const places = value >= 1 || !value ? 2 : value >= 0.1 ? 3 : 4;
  const figure = small ? "0.0001" : value.toFixed(places);
  const named = currency === "USD" ? `$${figure}` : `${figure} ${currency}`;
  return small ? `< ${named}` : named;
}

/** @param {number | null | undefined} milliseconds */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return UNKNOWN;
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60
    ? `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** @param {number | null | undefined} time */
export function moment(time) {
  return time ? MOMENT.format(time) : UNKNOWN;
}

/** @param {number | null | undefined} time */
export function clock(time) {
  return time ? CLOCK.format(time) : "";
}

/** @param {number | null | undefined} time */
export function ago(time) {
  if (!time) return UNKNOWN;
  const seconds = Math.max(0, (Date.now() - time) / 1000);
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 7 * 86_400) return `${Math.floor(seconds / 86_400)} d ago`;
  return (seconds < 300 * 86_400 ? DAY : DAY_OF_YEAR).format(time);
}

/**
 * Return a path whose middle is left out where it is long.
 *
 * @param {string | null | undefined} path
 */
export function place(path) {
  if (!path) return "";
  const parts = path.split("/");
  return parts.length > 5 ? `${parts.slice(0, 2).join("/")}/…/${parts.slice(-2).join("/")}` : path;
}

/** @type {Record<string, string>} */
const TURN_STATES = { admitted: "begins", aborted: "interrupted" };

/** @param {string} state  As the log has it. */
export function turnState(state) {
  return TURN_STATES[state] ?? state;
}
