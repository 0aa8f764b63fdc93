"""Recall by itself what the present input speaks of.

Owns when an input is worth a search, which entries are about the same, and the item that
shows the passage of each that was found: of the thread, and of its project where the user
shares that. Invariants: an input that names nothing recalls nothing; an entry that shares one
common word with the input is not recalled; nothing in view is recalled, and nothing that was
recalled before and is still shown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ....store.contract import Search
from ....store.search.terms import STOP_WORDS, fold, is_unspaced, stem
from ...values import AssembleParams, ContextItem, LogReader, recall_item
from ..library import Library
from ..recalled_rows import RecalledEntry
from ..view_state import ConversationStats
from .record_texts import Record, format_time, records_of

__all__ = ["InputQuery", "Recalled", "input_query", "recall_for_input"]

_QUERY_CHARS = 2_000
_MOST_HITS = 24
_MOST_OF_PROJECT = 8
"""Of other threads fewer hits are looked at …"""
_MOST_INDEXED = 1_000
"""… and no more of them is indexed while a turn waits."""
_EXCERPT_CHARS = 560
"""About how many characters of an entry are shown: those around what was found."""
_NAME = re.compile(r"[\w~-]*(?:[_./:#]|\d|(?<=[a-z])[A-Z])[\w./:#-]*\w|[A-Z]{2,}\w*")
_WORD = re.compile(r"\w+")
_SHORT_WORD = 3
"""Words up to this length say nothing by themselves."""
_SHARED_WORDS = 2
"""How many words an entry must share with an input that has no names."""


class InputQuery(Struct, frozen=True):
    """What an input speaks of."""

    text: str
    names: frozenset[str]
    """Identifiers, paths, numbers; an entry that has one of them matches."""
    words: frozenset[str]
    """Stems of other words; an entry must have two of them."""

    def matches(self, text: str) -> bool:
        """Return whether `text` is about the same, and is not the input itself."""
        folded = fold(text).strip()
        if folded == fold(self.text).strip():
            return False
        if any(name in folded for name in self.names):
            return True
        return len(self.words & _stems(text)) >= _SHARED_WORDS


def input_query(prompt: str) -> InputQuery | None:
    """Return what an input speaks of; None where that is too little for a search."""
    text = prompt[:_QUERY_CHARS]
    names = frozenset(fold(found) for found in _NAME.findall(text) if len(found) > 2)
    words = _stems(text)
    return InputQuery(text, names, words) if names or len(words) >= _SHARED_WORDS else None


class Recalled(Struct, frozen=True):
    """What was recalled for an input: one item at most, and the entries in it."""

    items: tuple[ContextItem, ...] = ()
    entries: frozenset[RecalledEntry] = frozenset()


async def recall_for_input(
    library: Library,
    given: AssembleParams,
    stats: ConversationStats,
    most_tokens: int,
    *,
    shown: frozenset[RecalledEntry] = frozenset(),
    project: Sequence[str] = (),
) -> Recalled:
    """Return what is known about the present input, without the entries already `shown`.

    The thread's own memory goes first, then that of the other threads of its `project`.
    """
    query = input_query(given.prompt or "")
    if query is None:
        return Recalled()
    records = await _find_records(library, given, stats, query) if stats.summaries else []
    if project:
        records += await _records_of_project(given.log, query, project)
    return _item_within([each for each in records if _key(each) not in shown], most_tokens)


async def _find_records(
    library: Library, given: AssembleParams, stats: ConversationStats, query: InputQuery
) -> list[Record]:
    """Return what matches the query below the summaries in view, best first: its passages."""
    thread = given.thread.id
    nodes = await library.nodes(stats.summaries)
    spans = [span for node in nodes.values() for span in node.spans]
    visible = {item.seq for item in stats.items}
    # Later entries are in view, and need not be indexed while the turn waits.
    newest = max((last for _, last in spans), default=0)
    search = Search(
        query.text,
        threads=(thread,),
        limit=_MOST_HITS,
        skip_common=True,
        indexed_upto=newest,
        snippet=_EXCERPT_CHARS,
    )
    passages = {
        hit.seq: hit.snippet
        for hit in await given.log.find(search)
        if hit.seq not in visible and any(low <= hit.seq <= high for low, high in spans)
    }
    if not passages:
        return []
    conversation = await given.log.spans([(seq, seq) for seq in passages])
    return [
        msgspec.structs.replace(record, text=passages[record.seq])
        for record in records_of(thread, conversation)
        if query.matches(record.text) and not record.is_echo
    ]


async def _records_of_project(
    log: LogReader, query: InputQuery, project: Sequence[str]
) -> list[Record]:
    """Return what matches the query in other threads, best first, with when it was said."""
    search = Search(
        query.text,
        threads=tuple(project),
        limit=_MOST_OF_PROJECT,
        skip_common=True,
        index_most=_MOST_INDEXED,
        snippet=_EXCERPT_CHARS,
    )
    found: list[Record] = []
    for hit in await log.find(search):
        other = await log.of(hit.thread)
        if other is None:
            continue
        for record in records_of(hit.thread, await other.spans([(hit.seq, hit.seq)])):
            if query.matches(record.text) and not record.is_echo:
                said = f"another thread of this project, {format_time(hit.time)}"
                found.append(msgspec.structs.replace(record, text=hit.snippet, origin=said))
    return found


def _key(record: Record) -> RecalledEntry:
    return record.id if record.origin else record.seq


def _item_within(records: Sequence[Record], most_tokens: int) -> Recalled:
    """Return one item with the best records that fit, in log order."""
    kept: list[Record] = []
    best: tuple[ContextItem, ...] = ()
    for record in records:
        tried = sorted((*kept, record), key=_order)
        item = recall_item("\n".join(map(_excerpt, tried)))
        if item.tokens <= most_tokens:
            kept, best = tried, (item,)
    return Recalled(best, frozenset(map(_key, kept)))


def _order(record: Record) -> tuple[str, str, int]:
    """Return what comes first: other threads, the oldest of them first, then the thread itself."""
    return (record.origin or "~", record.thread, record.seq)


def _excerpt(record: Record) -> str:
    where = f" ({record.origin})" if record.origin else ""
    text = " ".join(record.text.split())
    return f"[{record.id}] {record.role}, turn {record.turn}{where}: {text}"


def _stems(text: str) -> frozenset[str]:
    """Return the stems of the words that say something."""
    words = (word for word in _WORD.findall(fold(text)) if word not in STOP_WORDS)
    return frozenset(part for word in words for part in _word_stems(word))


def _word_stems(word: str) -> list[str]:
    """Return a word's stem; for a script without spaces, its characters two by two."""
    if any(map(is_unspaced, word)):
        return [word[at : at + 2] for at in range(len(word) - 1)]
    return [stem(word)] if len(word) > _SHORT_WORD else []
