"""Full-text search over what was said.

Owns which words of an entry are found and how a question is put. Invariant: any
text is a legal question; what a user types never reaches FTS5 as syntax.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..entries import Entry, Flags, own_parts
from ..errors import StoreCorrupt
from ..items import (
    AgentMessage,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
    Search,
    WebSearchCall,
    text_of,
)
from .ancestry import MAX_SEQ
from .rows import place

__all__ = ["TABLES", "Found", "Scope", "add_words", "drop_words", "find_words", "words_of"]

TABLES = ("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61')",)

_WORD = re.compile(r"\w+")


class Scope(NamedTuple):
    """Entries `first` to `last` of the thread stored under `number`."""

    number: int
    first: int = 1
    last: int = MAX_SEQ


class Found(NamedTuple):
    """One entry that matched."""

    number: int
    seq: int
    score: float
    snippet: str


def words_of(entry: Entry) -> str:
    """The text of an entry that can be searched for; empty for what is not said."""
    if entry.kind != "item" or entry.flags & (Flags.CONTEXTUAL | Flags.VOLATILE):
        return ""
    try:
        item = entry.item
        if isinstance(item, Message):
            return text_of(own_parts(item.content, entry.fragments))
        return _text(item)
    except StoreCorrupt:
        return ""


def _text(item: Item) -> str:
    text = ""
    match item:
        case AgentMessage():
            text = text_of(item.content)
        case Reasoning():
            text = text_of((*item.summary, *(item.content or ())))
        case FunctionCall():
            text = f"{item.name} {item.arguments}"
        case CustomToolCall():
            text = f"{item.name} {item.input}"
        case FunctionCallOutput() | CustomToolCallOutput():
            text = text_of(item.output)
        case WebSearchCall(action=Search(query=str(query))):
            text = query
    return text


def add_words(connection: sqlite3.Connection, number: int, entries: Iterable[Entry]) -> None:
    """Make entries of one thread findable."""
    rows = ((place(number, entry.seq), words_of(entry)) for entry in entries)
    connection.executemany(
        "INSERT INTO words (rowid, text) VALUES (?, ?)", [row for row in rows if row[1].strip()]
    )


def drop_words(connection: sqlite3.Connection, number: int) -> None:
    """Make a thread's entries unfindable."""
    connection.execute(
        "DELETE FROM words WHERE rowid BETWEEN ? AND ?", (place(number, 0), place(number, MAX_SEQ))
    )


def find_words(
    connection: sqlite3.Connection, question: str, scopes: Sequence[Scope] | None, limit: int
) -> list[Found]:
    """Entries that contain every word of `question`, best first."""
    terms = _terms(question)
    if not terms or scopes == []:
        return []
    within = " OR ".join("rowid BETWEEN ? AND ?" for _ in scopes or ())
    bounds = [
        bound
        for scope in scopes or ()
        for bound in (place(scope.number, scope.first), place(scope.number, scope.last))
    ]
    rows = connection.execute(
        "SELECT rowid, -rank, snippet(words, 0, '', '', '…', 24) FROM words WHERE words MATCH ? "
        + (f"AND ({within}) " if within else "")
        + "ORDER BY rank, rowid DESC LIMIT ?",
        (terms, *bounds, limit),
    )
    return [Found(at >> 32, at & MAX_SEQ, score, snippet) for at, score, snippet in rows]


def _terms(question: str) -> str:
    words = _WORD.findall(question)
    return " ".join(f'"{word}"' for word in words if any(map(str.isalnum, word)))
