"""The tables of search in `index.db`.

Owns what is kept of each entry that says something: its terms in a full-text table
without text, its place, time and length, and every spelling once. Invariant: a row of
`documents` exists exactly for what can be found; terms without one are debris.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..ancestry import MAX_SEQ
from ..rows import place

__all__ = [
    "TABLES",
    "Document",
    "Totals",
    "add_documents",
    "clear",
    "drop_documents",
    "mark",
    "totals",
]

TABLES = (
    """
    CREATE TABLE documents (
      id     INTEGER PRIMARY KEY AUTOINCREMENT,
      place  INTEGER NOT NULL UNIQUE,
      time   INTEGER NOT NULL,
      length INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX documents_by_time ON documents (time)",
    # Terms are cut and folded before they come here; bytes beyond ASCII belong to them.
    """
    CREATE VIRTUAL TABLE words USING fts5 (
      terms, content = '', columnsize = 0, detail = none, tokenize = "ascii tokenchars '_:'"
    )
    """,
    "CREATE TABLE spellings (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE) STRICT",
    """
    CREATE VIRTUAL TABLE spelt USING fts5 (
      word, content = '', columnsize = 0, detail = none, tokenize = 'trigram'
    )
    """,
    """
    CREATE TABLE totals (
      documents INTEGER NOT NULL,
      length    INTEGER NOT NULL,
      debris    INTEGER NOT NULL
    ) STRICT
    """,
    "INSERT INTO totals VALUES (0, 0, 0)",
    # Fewer, larger segments: what is indexed at once is written at once.
    "INSERT INTO words (words, rank) VALUES ('hashsize', 16777216)",
)

_SMALL = 2_000
"""So few documents are indexed anew rather than kept beside debris."""


class Document(NamedTuple):
    """An entry, ready to be indexed."""

    seq: int
    time: int
    length: int
    terms: set[str]
    spellings: set[str]


class Totals(NamedTuple):
    """How much is indexed."""

    documents: int
    length: int
    debris: int

    @property
    def average(self) -> float:
        """The words of a middling document."""
        return self.length / self.documents if self.length else 1.0


@lru_cache(maxsize=1 << 10)
def mark(kind: str, name: object) -> str:
    """A term that no text holds: the thread, role or tool of a document, case aside."""
    safe = "".join(char if char.isalnum() else f"_{ord(char):x}_" for char in str(name).lower())
    return f"{kind}:{safe}"


def add_documents(
    connection: sqlite3.Connection, number: int, documents: Sequence[Document]
) -> None:
    """Make documents of one thread findable."""
    if not documents:
        return
    (newest,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'documents'"
    ).fetchone()
    numbered = list(enumerate(documents, newest + 1))
    connection.executemany(
        "INSERT INTO documents (id, place, time, length) VALUES (?, ?, ?, ?)",
        [(at, place(number, doc.seq), doc.time, doc.length) for at, doc in numbered],
    )
    thread = mark("thread", number)
    connection.executemany(
        "INSERT INTO words (rowid, terms) VALUES (?, ?)",
        [(at, " ".join((thread, *doc.terms))) for at, doc in numbered],
    )
    connection.execute(
        "UPDATE totals SET documents = documents + ?, length = length + ?",
        (len(documents), sum(doc.length for doc in documents)),
    )
    _spell(connection, documents)


def _spell(connection: sqlite3.Connection, documents: Sequence[Document]) -> None:
    words = set[str]().union(*(doc.spellings for doc in documents))
    (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM spellings").fetchone()
    connection.executemany(
        "INSERT INTO spellings (word) VALUES (?) ON CONFLICT DO NOTHING",
        [(word,) for word in sorted(words)],
    )
    connection.execute(
        "INSERT INTO spelt (rowid, word) SELECT id, word FROM spellings WHERE id > ?", (newest,)
    )


def totals(connection: sqlite3.Connection) -> Totals:
    """How much is indexed."""
    return Totals(*connection.execute("SELECT documents, length, debris FROM totals").fetchone())


def drop_documents(connection: sqlite3.Connection, number: int) -> bool:
    """Make a thread's entries unfindable. False when everything had to go with them.

    A table without text cannot say which terms a document had. They stay as debris until
    there is too much of it; then all of search starts anew.
    """
    bounds = place(number, 0), place(number, MAX_SEQ)
    gone, length = connection.execute(
        "SELECT count(*), coalesce(sum(length), 0) FROM documents WHERE place BETWEEN ? AND ?",
        bounds,
    ).fetchone()
    if not gone:
        return True
    known = totals(connection)
    kept, debris = known.documents - gone, known.debris + gone
    if kept <= _SMALL or debris * 3 > kept:
        clear(connection)
        return False
    connection.execute("DELETE FROM documents WHERE place BETWEEN ? AND ?", bounds)
    connection.execute(
        "UPDATE totals SET documents = ?, length = length - ?, debris = ?", (kept, length, debris)
    )
    return True


def clear(connection: sqlite3.Connection) -> None:
    """Forget all that search knows."""
    for table in ("documents", "spellings"):
        connection.execute(f"DELETE FROM {table}")
    for table in ("words", "spelt"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
    connection.execute("UPDATE totals SET documents = 0, length = 0, debris = 0")
