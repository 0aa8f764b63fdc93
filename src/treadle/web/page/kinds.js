/**
 * The kinds of what fills a window, and the reasons of a break. Owns their letters, names and colours.
 *
 * Invariant: what a colour says a letter says too. The letters are those of `treadle context`.
 */

/** @type {Record<string, {letter: string, name: string}>} */
const KINDS = {
  instructions: { letter: "I", name: "instructions" },
  tools: { letter: "T", name: "tools" },
  context: { letter: "X", name: "context" },
  summaries: { letter: "S", name: "summaries" },
  user: { letter: "U", name: "your messages" },
  assistant: { letter: "A", name: "its messages" },
  reasoning: { letter: "R", name: "reasoning" },
  calls: { letter: "C", name: "calls" },
  outputs: { letter: "O", name: "outputs" },
  images: { letter: "P", name: "images" },
  other: { letter: "?", name: "other" },
};

export const KIND_NAMES = Object.keys(KINDS);

/** @param {string} kind */
export function kindLetter(kind) {
  return KINDS[kind]?.letter ?? "?";
}

/** @param {string} kind */
export function kindName(kind) {
  return KINDS[kind]?.name ?? kind;
}

/** @param {string} kind */
export function kindColour(kind) {
  return `var(--k-${kind in KINDS ? kind : "other"})`;
}

/** @type {Record<string, string>} */
const REASONS = {
  start: "the first request of the thread",
  compaction: "the conversation was compacted into a summary",
  publish: "the engine published new summaries",
  rollback: "a part was rolled back",
  model: "another model",
  params: "other parameters",
  tools: "another list of tools",
  instructions: "other instructions",
  reset: "the context was reset",
  import: "the conversation was imported",
  images: "the provider refused images",
  other: "a reason that this version does not know",
};

/** @param {string | null | undefined} reason  One, or several joined by "+". */
export function reasonWords(reason) {
  if (!reason) return "";
  return reason
    .split("+")
    .map((each) => REASONS[each] ?? each)
    .join(", then ");
}

/** @param {string | null | undefined} reason */
export function isCompaction(reason) {
  return /compaction|publish/.test(reason ?? "");
}

/** @param {string | null | undefined} reason */
export function reasonLetter(reason) {
  return reason ? reason[0].toUpperCase() : "!";
}
