"""Vectors: what of the meaning of user and assistant text is kept in `index.db`.

Owns the blocks they lie in, and how far each thread has them. Invariants: vectors and the
progress of their thread are written in one transaction; of a forgotten thread no vector is
left; losing them all loses nothing but time.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .vector_model import CODE_BYTES, MODEL

__all__ = [
    "TABLES",
    "KeptVector",
    "VectorBlock",
    "add_vectors",
    "find_blocks",
    "forget_vectors",
    "has_vectors",
    "newest_blocks",
    "thread_progress",
    "vector_progress",
]

TABLES = (
    # A block holds the places of some texts, and the vectors in the same order.
    """
    CREATE TABLE vectors (
      id     INTEGER PRIMARY KEY,
      thread INTEGER NOT NULL,
      first  INTEGER NOT NULL,
      places BLOB NOT NULL,
      codes  BLOB NOT NULL,
      UNIQUE (thread, first)
    ) STRICT
    """,
    # `upto` is the last of a thread's own entries that has a vector, if it is to have one.
    """
    CREATE TABLE vector_progress (
      thread INTEGER PRIMARY KEY,
      upto   INTEGER NOT NULL,
      model  TEXT NOT NULL
    ) STRICT
    """,
)
BLOCK = 256
"""Vectors of a block, about."""
_PLACE = "q"
"""How a place is kept: eight bytes."""


class KeptVector(NamedTuple):
    """The place of a text, and its vector as it is kept."""

    place: int
    code: bytes


class VectorBlock(NamedTuple):
    """Some vectors: their places and codes, one after the other."""

    places: bytes
    codes: bytes


def has_vectors(connection: sqlite3.Connection) -> bool:
    """Return whether there is any vector."""
    return connection.execute("SELECT 1 FROM vectors LIMIT 1").fetchone() is not None


def vector_progress(connection: sqlite3.Connection) -> dict[int, int]:
    """Return up to which entry each thread, by its number, has vectors of our model."""
    return dict(
        connection.execute("SELECT thread, upto FROM vector_progress WHERE model = ?", (MODEL,))
    )


def thread_progress(connection: sqlite3.Connection) -> dict[str, int]:
    """Return up to which entry each thread, by its id, has vectors of our model."""
    return dict(
        connection.execute(
            "SELECT t.id, p.upto FROM vector_progress p JOIN threads t ON t.number = p.thread"
            " WHERE p.model = ?",
            (MODEL,),
        )
    )


def add_vectors(
    connection: sqlite3.Connection,
    number: int,
    made: Sequence[KeptVector],
    *,
    after: int,
    upto: int,
) -> None:
    """Keep the vectors of a thread's entries after `after` up to `upto`.

    Another process may have been faster, or the thread was forgotten: then nothing is kept.
    """
    known = connection.execute("SELECT 1 FROM threads WHERE number = ?", (number,)).fetchone()
    if known is None or vector_progress(connection).get(number, after) != after:
        return
    other = "SELECT 1 FROM vector_progress WHERE thread = ? AND model <> ?"
    if connection.execute(other, (number, MODEL)).fetchone() is not None:
        forget_vectors(connection, number)
    if made:
        _append(connection, number, made)
    connection.execute(
        "INSERT OR REPLACE INTO vector_progress VALUES (?, ?, ?)", (number, upto, MODEL)
    )


def _append(connection: sqlite3.Connection, number: int, made: Sequence[KeptVector]) -> None:
    newest = connection.execute(
        "SELECT id, places, codes FROM vectors WHERE thread = ? ORDER BY first DESC LIMIT 1",
        (number,),
    ).fetchone()
    if newest is not None and len(newest[2]) < BLOCK * CODE_BYTES:
        connection.execute(
            "UPDATE vectors SET places = ?, codes = ? WHERE id = ?",
            (newest[1] + _places(made), newest[2] + _codes(made), newest[0]),
        )
        return
    for start in range(0, len(made), BLOCK):
        block = made[start : start + BLOCK]
        connection.execute(
            "INSERT INTO vectors (thread, first, places, codes) VALUES (?, ?, ?, ?)",
            (number, block[0].place, _places(block), _codes(block)),
        )


def _places(made: Iterable[KeptVector]) -> bytes:
    return array(_PLACE, (each.place for each in made)).tobytes()


def _codes(made: Iterable[KeptVector]) -> bytes:
    return b"".join(each.code for each in made)


def newest_blocks(
    connection: sqlite3.Connection, numbers: Iterable[int] | None, most: int
) -> Iterator[VectorBlock]:
    """Yield the newest blocks of these threads, or of all, up to about `most` vectors."""
    where, values = "", tuple[int, ...]()
    if numbers is not None:
        values = tuple(numbers)
        where = f" WHERE thread IN ({', '.join('?' * len(values))})"
    rows = connection.execute(f"SELECT places, codes FROM vectors{where} ORDER BY id DESC", values)
    for places, codes in rows:
        yield VectorBlock(places, codes)
        most -= len(codes) // CODE_BYTES
        if most <= 0:
            return


def find_blocks(
    connection: sqlite3.Connection, places: Iterable[tuple[int, int]]
) -> Iterator[VectorBlock]:
    """Yield the blocks in which these places stand, given with the number of their thread."""
    found: set[int] = set()
    for number, place in places:
        row = connection.execute(
            "SELECT id, places, codes FROM vectors WHERE thread = ? AND first <= ?"
            " ORDER BY first DESC LIMIT 1",
            (number, place),
        ).fetchone()
        if row is not None and row[0] not in found:
            found.add(row[0])
            yield VectorBlock(row[1], row[2])


def forget_vectors(connection: sqlite3.Connection, number: int | None) -> None:
    """Delete the vectors of a thread; all of them when `number` is None."""
    for table in ("vectors", "vector_progress"):
        if number is None:
            connection.execute(f"DELETE FROM {table}")
        else:
            connection.execute(f"DELETE FROM {table} WHERE thread = ?", (number,))
