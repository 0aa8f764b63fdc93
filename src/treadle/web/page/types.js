/**
 * The shapes of the API, for the type checker only; nothing runs here.
 *
 * @typedef {{amount: number, currency: string}} Cost
 * @typedef {{amounts: Record<string, number>, requests: number, unpriced: number}} Bill
 *
 * @typedef {object} Thread
 * @property {string} id
 * @property {string|null} [parent]
 * @property {number|null} [cut]
 * @property {string|null} [cwd]
 * @property {string|null} [title]
 * @property {string|null} [name]
 * @property {number} created
 * @property {number} updated
 * @property {number} turns
 * @property {number} entries
 * @property {string|null} [model]
 * @property {string|null} [harness]
 * @property {string|null} [engine]
 * @property {number|null} [bytes]
 * @property {Cost|Bill|null} [cost]
 * @property {boolean} [counting]  Whether more of its cost will be known in a moment.
 * @property {number|null} [requests]
 * @property {number|null} [sent]
 * @property {number|null} [shared]
 * @property {number|null} [input_tokens]
 * @property {number|null} [cached_tokens]
 * @property {number|null} [unexplained]
 * @property {{pid?: number, host?: string, command?: string, since?: number}|null} [writer]
 * @property {boolean} [running]
 * @property {{from?: string}|null} [imported]
 * @property {string|null} [agent_of]
 * @property {{id: string, parent: string|null, cut: number|null, name: string, turns: number, agent?: boolean}[]} [family]
 * @property {string[]} [what_is_not_known]
 *
 * @typedef {object} LedgerRow
 * @property {number} number
 * @property {number} seq
 * @property {number} turn
 * @property {number} step
 * @property {number} time
 * @property {number} epoch
 * @property {number} segments
 * @property {number} size
 * @property {string} digest
 * @property {number} shared_segments
 * @property {number} shared_size
 * @property {string|null} [reason]
 * @property {string|null} [difference]
 * @property {boolean} [unexplained]
 * @property {number|null} [input_tokens]
 * @property {number|null} [cached_tokens]
 * @property {number|null} [output_tokens]
 * @property {number|null} [written_tokens]
 * @property {number|null} [expected_cached_tokens]
 * @property {number|null} [latency]
 * @property {Cost|Bill|null} [cost]
 * @property {string|null} [model]
 * @property {string|null} [purpose]
 * @property {string|null} [epoch_reason]
 *
 * @typedef {object} Bucket
 * @property {number} from
 * @property {number} to
 * @property {number} sent
 * @property {number} shared
 * @property {number|null} [input_tokens]
 * @property {number|null} [cached_tokens]
 * @property {number} breaks
 * @property {number} unexplained
 *
 * @typedef {object} EpochRow
 * @property {number} seq
 * @property {number} number
 * @property {string} reason
 * @property {string|null} [detail]
 * @property {number} [turn]
 * @property {number} [time]
 * @property {number|null} [first_request]
 * @property {number|null} [last_request]
 * @property {string|null} [model]
 * @property {Record<string, unknown>|null} [compaction]
 *
 * @typedef {object} RequestRow
 * @property {number} position
 * @property {string} kind
 * @property {string|null} [role]
 * @property {string} label
 * @property {string[]|null} [fragments]
 * @property {string} part
 * @property {number} tokens
 * @property {number} bytes
 * @property {number|null} [seq]
 * @property {number|null} [first_request]
 * @property {boolean} [shared]
 * @property {string} [text]
 * @property {boolean} [cut]
 * @property {number} [chars]
 *
 * @typedef {object} DiffSegment
 * @property {"same"|"removed"|"added"|"changed"} op
 * @property {number|null} [a]
 * @property {number|null} [b]
 * @property {string} [kind]
 * @property {string|null} [role]
 * @property {string} [label]
 * @property {number} [count]
 * @property {number} [bytes_a]
 * @property {number} [bytes_b]
 * @property {{op: string, text: string}[]} [lines]
 * @property {boolean} [cut]
 *
 * @typedef {object} FileChange
 * @property {"add"|"delete"|"update"} op
 * @property {string|null} old
 * @property {string|null} new
 * @property {{op: string, text: string}[]} lines
 * @property {boolean} [cut]
 *
 * @typedef {object} EntryView
 * @property {string} kind
 * @property {string} [title]
 * @property {string} [text]
 * @property {boolean} [cut]
 * @property {number} [chars]
 * @property {string[]} [badges]
 * @property {{name: string, arguments: string|object, id?: string}} [call]
 * @property {FileChange[]} [diff]
 * @property {number[]} [images]
 * @property {unknown} [verdict]
 *
 * @typedef {object} Entry
 * @property {number} seq
 * @property {string} kind
 * @property {number} turn
 * @property {number} step
 * @property {number} time
 * @property {number} tokens
 * @property {string[]} [flags]
 * @property {boolean} visible
 * @property {unknown} [fragments]
 * @property {unknown} [provenance]
 * @property {unknown[]} [events]
 * @property {any} [item]
 * @property {any} [control]
 * @property {EntryView} view
 *
 * @typedef {object} Turn
 * @property {number} number
 * @property {string} [id]
 * @property {string} [state]
 * @property {number} [admitted]
 * @property {number|null} [ended]
 * @property {number} [first]
 * @property {number} [last]
 * @property {number} [steps]
 * @property {string} [text]
 * @property {string} [answer]
 * @property {any} [usage]
 * @property {Cost|Bill|null} [cost]
 * @property {any} [outcome]
 * @property {string|null} [model]
 * @property {string|null} [harness]
 *
 * @typedef {object} SummaryNode
 * @property {string} id
 * @property {number} depth
 * @property {number} first
 * @property {number} last
 * @property {number} tokens
 * @property {number|null} [source_tokens]
 * @property {boolean} [degraded]
 * @property {string[]} [children]
 * @property {boolean} [in_view]
 * @property {number} [time]
 *
 * @typedef {object} Composition
 * @property {number} tokens
 * @property {boolean} [counted]
 * @property {number|null} [window]
 * @property {number|null} [free]
 * @property {Record<string, number>} kinds
 * @property {{kind: string, label: string, tokens: number, count: number}[]} parts
 * @property {{cold: Cost, cached: Cost}|null} [next_request]
 * @property {{seq: number, label: string, tokens: number}[]} [largest]
 * @property {{seq: number, label: string, tokens: number}[]} [unreferred]
 *
 * @typedef {{version: string, home?: string, control: boolean, pid?: number, limits?: Record<string, number>}} Server
 *
 * @typedef {object} Place  What a view is given.
 * @property {HTMLElement} root  Where it draws.
 * @property {Server} server
 * @property {Thread} [thread]
 * @property {string} id  The thread's id; empty in the list of threads.
 * @property {string[]} rest  What stands behind the view's name in the route.
 * @property {URLSearchParams} query
 * @property {AbortSignal} signal  Ends with the view.
 * @property {() => void} again  Draws the view again, as something has changed.
 */

export const TYPES = "see the comments";
