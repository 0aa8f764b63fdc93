"""Memory: what an engine keeps of threads, in one SQLite file.

Owns the tables and how they are searched. Invariants: a turn's notes and its key are
written in one transaction, and a note has one place (thread, entry), so that writing
it twice changes nothing. Every method blocks; the engine calls them in a thread.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from msgspec.json import encode

__all__ = ["Memory", "Note"]

_TABLES = """
CREATE TABLE IF NOT EXISTS turns (
    thread TEXT, key TEXT, PRIMARY KEY (thread, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS read_up_to (
    thread TEXT PRIMARY KEY, seq INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (
    number INTEGER PRIMARY KEY, thread TEXT, seq INTEGER, turn INTEGER, speaker TEXT, text TEXT,
    UNIQUE (thread, seq)
);
CREATE INDEX IF NOT EXISTS notes_of_turns ON notes (thread, turn);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, tokenize = 'porter unicode61');
"""

_FIND = """
WITH hits AS MATERIALIZED (
    SELECT words.rowid AS number, word.key AS word FROM json_each(:words) AS word, words
    WHERE words MATCH word.value
),
best AS (
    SELECT turn FROM hits CROSS JOIN notes USING (number)
    WHERE thread = :thread AND seq NOT IN (SELECT value FROM json_each(:seen))
    GROUP BY turn ORDER BY count(DISTINCT word) DESC, turn DESC LIMIT :turns
)
SELECT seq, turn, speaker, text FROM best CROSS JOIN notes USING (turn)
WHERE thread = :thread AND seq NOT IN (SELECT value FROM json_each(:seen))
ORDER BY seq LIMIT 100
"""
"""By the words that a turn shares, not by rank: that depends on other threads. From the hits
to their notes, so that the length of a thread costs nothing."""

_WORD = re.compile(r"\w{4,}")
"""Shorter words are in too many notes to tell them apart."""


class Note(NamedTuple):
    """Something that was said."""

    seq: int
    turn: int
    speaker: str
    text: str


@dataclass(slots=True)
class Memory:
    """The notes of all threads. Opened at first use; can be used again after `close`."""

    path: Path | None
    """None for a memory that lasts as long as it is open."""
    _connection: sqlite3.Connection | None = None
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def commit(self, thread: str, key: str, notes: Iterable[Note]) -> bool:
        """Keep the notes of a turn; whether its key was new."""
        with self._transaction() as db:
            if not db.execute("INSERT OR IGNORE INTO turns VALUES (?, ?)", (thread, key)).rowcount:
                return False
            for note in notes:
                _add(db, thread, note)
            return True

    def add(self, thread: str, notes: Iterable[Note], *, read_up_to: int | None = None) -> int:
        """Keep notes; how many were new. `read_up_to` is where the next reading begins."""
        with self._transaction() as db:
            if read_up_to is not None:
                db.execute("REPLACE INTO read_up_to VALUES (?, ?)", (thread, read_up_to))
            return sum(_add(db, thread, note) for note in notes)

    def read_up_to(self, thread: str) -> int:
        """The last entry of a thread that was read from its log."""
        with self._transaction() as db:
            row = db.execute("SELECT seq FROM read_up_to WHERE thread = ?", (thread,)).fetchone()
        return row[0] if row else 0

    def find(self, thread: str, question: str, *, turns: int, but: Collection[int]) -> list[Note]:
        """The notes of the turns that share most words with `question`, newest first in doubt.

        The entries in `but` are left out.
        """
        words = sorted({f'"{word}"' for word in _WORD.findall(question.casefold())})
        with self._transaction() as db:
            asked = {"words": _json(words), "thread": thread, "seen": _json(sorted(but))}
            rows = db.execute(_FIND, asked | {"turns": turns})
            return [Note(*row) for row in rows]

    def forget(self, thread: str, first: int, last: int, *, read_up_to: int | None = None) -> None:
        """Drop the notes of some entries; with `read_up_to`, also never read them again."""
        where = "FROM notes WHERE thread = ? AND seq BETWEEN ? AND ?"
        with self._transaction() as db:
            if read_up_to is not None:
                db.execute("REPLACE INTO read_up_to VALUES (?, ?)", (thread, read_up_to))
            hidden = (thread, first, last)
            db.execute(f"DELETE FROM words WHERE rowid IN (SELECT number {where})", hidden)
            db.execute(f"DELETE {where}", hidden)

    def close(self) -> None:
        """Let go of the file."""
        with self._one_at_a_time:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._one_at_a_time:
            db = self._connection = self._connection or _opened(self.path)
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


def _opened(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    place = path or ":memory:"
    db = sqlite3.connect(place, timeout=10, isolation_level=None, check_same_thread=False)
    # Whoever hears "committed" forgets the turn, so it has to survive a power cut too.
    try:
        db.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + _TABLES)
    except BaseException:
        db.close()
        raise
    return db


def _json(values: Sequence[int | str]) -> str:
    return encode(values).decode()


def _add(db: sqlite3.Connection, thread: str, note: Note) -> bool:
    added = db.execute(
        "INSERT OR IGNORE INTO notes (thread, seq, turn, speaker, text) VALUES (?, ?, ?, ?, ?)",
        (thread, *note),
    )
    if added.rowcount:
        db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, note.text))
    return bool(added.rowcount)
