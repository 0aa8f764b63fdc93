"""The tables of search in `index.db`, and how far each thread is indexed.

Owns what is kept of each entry with text: its terms in a full-text table without the text,
its place, time and length, and every spelling once. Invariants: a row of `documents`
exists exactly for what can be found (terms without one are debris); terms and progress
change in one transaction, so that no entry is indexed twice or left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

from ..contract import Span, ThreadInfo
from ..index_tables import ensure_thread_number, find_thread_number
from ..rows import MAX_SEQ, row_id
from ..usage_tables import forget_usages
from .vectors import forget_vectors

__all__ = [
    "TABLES",
    "RunJob",
    "SearchDocument",
    "Totals",
    "add_documents",
    "complete_threads",
    "forget_thread",
    "indexed_threads",
    "label_term",
    "mark_complete",
    "read_totals",
]

T = TypeVar("T")

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
    # Terms are split and folded before they come here; bytes beyond ASCII belong to them.
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
"""With so few documents left, everything is indexed again instead of keeping debris."""


class RunJob(Protocol):
    """Runs a job on the index, in a transaction of its own."""

    def __call__(self, job: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]:
        """Return the result of the job."""
        ...


class SearchDocument(NamedTuple):
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
    def average_length(self) -> float:
        """The average number of words of a document."""
        return self.length / self.documents if self.length else 1.0


@lru_cache(maxsize=1 << 10)
def label_term(kind: str, name: object) -> str:
    """Return the term that labels a document with its thread, role or tool.

    No text can hold such a term. Upper and lower case make no difference.
    """
    safe = "".join(char if char.isalnum() else f"_{ord(char):x}_" for char in str(name).lower())
    return f"{kind}:{safe}"


def indexed_threads(connection: sqlite3.Connection) -> dict[str, int]:
    """Return each known thread and the last of its own entries that is indexed."""
    return dict(connection.execute("SELECT id, upto FROM threads").fetchall())


def complete_threads(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the threads that are indexed together with their ancestors, and up to where."""
    return dict(connection.execute("SELECT id, upto FROM threads WHERE complete").fetchall())


def mark_complete(
    connection: sqlite3.Connection, info: ThreadInfo, lineage: Sequence[Span]
) -> bool:
    """Mark a thread as indexed together with its ancestors, up to `info.last`.

    Return False if some of them are no longer indexed that far.
    """
    if any(_indexed_upto(connection, span.thread) < span.last for span in lineage):
        return False
    connection.execute(
        "UPDATE threads SET complete = 1, upto = max(upto, ?) WHERE number = ?",
        (info.last, ensure_thread_number(connection, info.id)),
    )
    return True


def _indexed_upto(connection: sqlite3.Connection, thread: str) -> int:
    row = connection.execute("SELECT upto FROM threads WHERE id = ?", (thread,)).fetchone()
    return 0 if row is None else int(row[0])


def add_documents(
    connection: sqlite3.Connection,
    thread: str,
    documents: Sequence[SearchDocument],
    *,
    after: int,
    last: int,
) -> None:
    """Index the documents of the entries after `after` up to `last`.

    Another process may have indexed some of them meanwhile: those are left out. It may
    also have forgotten those up to `after`: then nothing is added, so that no gap arises.
    """
    number = ensure_thread_number(connection, thread)
    done = _indexed_upto(connection, thread)
    if done < after:
        return
    if new := [document for document in documents if document.seq > done]:
        _insert_documents(connection, number, new)
        _insert_spellings(connection, new)
    connection.execute("UPDATE threads SET upto = max(upto, ?) WHERE number = ?", (last, number))


def _insert_documents(
    connection: sqlite3.Connection, number: int, documents: Sequence[SearchDocument]
) -> None:
    (newest,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'documents'"
    ).fetchone()
    numbered = list(enumerate(documents, newest + 1))
    connection.executemany(
        "INSERT INTO documents (id, place, time, length) VALUES (?, ?, ?, ?)",
        [(at, row_id(number, doc.seq), doc.time, doc.length) for at, doc in numbered],
    )
    thread = label_term("thread", number)
    connection.executemany(
        "INSERT INTO words (rowid, terms) VALUES (?, ?)",
        [(at, " ".join((thread, *doc.terms))) for at, doc in numbered],
    )
    connection.execute(
        "UPDATE totals SET documents = documents + ?, length = length + ?",
        (len(documents), sum(doc.length for doc in documents)),
    )


def _insert_spellings(connection: sqlite3.Connection, documents: Sequence[SearchDocument]) -> None:
    words = set[str]().union(*(doc.spellings for doc in documents))
    (newest,) = connection.execute("SELECT coalesce(max(id), 0) FROM spellings").fetchone()
    connection.executemany(
        "INSERT INTO spellings (word) VALUES (?) ON CONFLICT DO NOTHING",
        [(word,) for word in sorted(words)],
    )
    connection.execute(
        "INSERT INTO spelt (rowid, word) SELECT id, word FROM spellings WHERE id > ?", (newest,)
    )


def read_totals(connection: sqlite3.Connection) -> Totals:
    """Return how much is indexed."""
    return Totals(*connection.execute("SELECT documents, length, debris FROM totals").fetchone())


def forget_thread(connection: sqlite3.Connection, thread: str | None) -> None:
    """Delete what the index knows of a thread; of everything when `thread` is None."""
    if thread is None:
        _clear_search(connection)
        forget_usages(connection, None)
        forget_vectors(connection, None)
        for table in ("requests", "segments", "calibrations", "threads"):
            connection.execute(f"DELETE FROM {table}")
        return
    number = find_thread_number(connection, thread)
    connection.execute("DELETE FROM requests WHERE thread = ?", (number,))
    connection.execute("DELETE FROM segments WHERE thread = ?", (number,))
    forget_usages(connection, number)
    forget_vectors(connection, number)
    others_kept = _delete_documents(connection, number)
    connection.execute("DELETE FROM threads WHERE number = ?", (number,))
    # Forks may need what was deleted: their next search checks their whole lineage again.
    connection.execute("UPDATE threads SET complete = 0")
    if not others_kept:
        connection.execute("UPDATE threads SET upto = 0")


def _delete_documents(connection: sqlite3.Connection, number: int) -> bool:
    """Delete a thread's documents; return False when all documents had to go with them.

    A table without text cannot tell which terms a document had. They stay as debris until
    there is too much of it; then everything is indexed again.
    """
    bounds = row_id(number, 0), row_id(number, MAX_SEQ)
    gone, length = connection.execute(
        "SELECT count(*), coalesce(sum(length), 0) FROM documents WHERE place BETWEEN ? AND ?",
        bounds,
    ).fetchone()
    if not gone:
        return True
    totals = read_totals(connection)
    kept, debris = totals.documents - gone, totals.debris + gone
    if kept <= _SMALL or debris * 3 > kept:
        _clear_search(connection)
        return False
    connection.execute("DELETE FROM documents WHERE place BETWEEN ? AND ?", bounds)
    connection.execute(
        "UPDATE totals SET documents = ?, length = length - ?, debris = ?", (kept, length, debris)
    )
    return True


def _clear_search(connection: sqlite3.Connection) -> None:
    for table in ("documents", "spellings"):
        connection.execute(f"DELETE FROM {table}")
    for table in ("words", "spelt"):
        connection.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
    connection.execute("UPDATE totals SET documents = 0, length = 0, debris = 0")
