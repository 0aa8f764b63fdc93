"""Which entries were recalled into a view, as rows of the library.

Owns their place beside what guidance said. Invariant: only the newest view of a thread has such a
row; where it is missing, an entry is at worst recalled once more.
"""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

import msgspec

from ...core.wire import json_bytes

__all__ = ["RecalledEntry", "delete_recalled", "read_recalled", "write_recalled"]

RecalledEntry: TypeAlias = int | str
"""An entry of the thread by its number, one of another thread by its id."""

_PREFIX = "recalled:"


def read_recalled(db: sqlite3.Connection, thread: str, base: str) -> frozenset[RecalledEntry]:
    """Return the entries that were recalled into the view that starts with `base`."""
    found = db.execute(
        "SELECT text FROM told WHERE thread = ? AND prefix = ?", (thread, _PREFIX + base)
    ).fetchone()
    if not found:
        return frozenset()
    return frozenset(msgspec.json.decode(found[0], type=list[int | str]))


def write_recalled(
    db: sqlite3.Connection, thread: str, base: str, entries: frozenset[RecalledEntry]
) -> None:
    """Store the entries that were recalled into the view that starts with `base`."""
    delete_recalled(db, thread)
    text = json_bytes(sorted(entries, key=str)).decode()
    db.execute("INSERT INTO told VALUES (?, ?, ?)", (thread, _PREFIX + base, text))


def delete_recalled(db: sqlite3.Connection, thread: str) -> None:
    """Forget what was recalled in a thread."""
    db.execute("DELETE FROM told WHERE thread = ? AND prefix GLOB ?", (thread, f"{_PREFIX}*"))
