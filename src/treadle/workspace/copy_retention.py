"""How long copies of files are kept.

Owns what is deleted from `files.db`. Invariants: a window is kept as long as a thread has its
turn, a fork that shares the turn included; a version is kept as long as a window begins or ends
with it; a content as long as a version has it. Above the limit, the oldest windows go first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from .file_history import ENDLESS, FILE_NAME, FileHistory, open_history

__all__ = [
    "EVERYTHING",
    "MOST_STORED",
    "Collected",
    "collect_copies",
    "forget_thread",
    "make_room",
    "stored_bytes",
]

MOST_STORED = 2 << 30
"""Bytes of copies in a home."""
EVERYTHING = 1 << 61
"""The last entry of a thread that is kept as it is."""

_MOST_AT_ONCE = 20


class Collected(Struct, frozen=True, kw_only=True):
    """What was deleted."""

    windows: int = 0
    copies: int = 0
    bytes: int = 0


def collect_copies(
    home: Path, kept: Mapping[str, int], *, most: int = MOST_STORED, dry_run: bool = False
) -> Collected:
    """Delete the copies that no thread needs; `kept` says up to which entry threads need them.

    Raises `StoreError`, `OSError`.
    """
    if not (home / FILE_NAME).exists():
        return Collected()
    with open_history(home) as history:
        before = _count(history)
        with history.transaction(keep=not dry_run):
            _drop_owners(history, kept)
            _sweep(history)
            make_room(history, most)
            after = _count(history)
        history.connection.execute("PRAGMA incremental_vacuum").fetchall()
        windows, copies, size = (then - now for then, now in zip(before, after, strict=True))
        return Collected(windows=windows, copies=copies, bytes=size)


def forget_thread(home: Path, thread: str, upto: int) -> None:
    """Delete what was kept for a thread after entry `upto`, which a fork may still share."""
    if not (home / FILE_NAME).exists():
        return
    with open_history(home) as history:
        with history.transaction():
            history.connection.execute(
                "DELETE FROM owners WHERE thread = ? AND seq > ?", (thread, upto)
            )
            history.connection.execute("DELETE FROM rewinds WHERE thread = ?", (thread,))
            _sweep(history)
        history.connection.execute("PRAGMA incremental_vacuum").fetchall()


def make_room(history: FileHistory, most: int) -> None:
    """Delete the oldest windows until the copies fit."""
    while stored_bytes(history) > most:
        oldest = history.connection.execute(
            "SELECT number FROM windows WHERE after IS NOT NULL ORDER BY began, number LIMIT ?",
            (_MOST_AT_ONCE,),
        ).fetchall()
        if not oldest:
            return
        history.connection.executemany("DELETE FROM owners WHERE window = ?", oldest)
        _sweep(history)


def stored_bytes(history: FileHistory) -> int:
    """Return the bytes of all copies."""
    found = history.connection.execute("SELECT coalesce(sum(length(data)), 0) FROM objects")
    return int(found.fetchone()[0])


def _drop_owners(history: FileHistory, kept: Mapping[str, int]) -> None:
    rows = history.connection.execute("SELECT window, thread, seq FROM owners").fetchall()
    gone = [(window, thread) for window, thread, seq in rows if seq > kept.get(thread, 0)]
    history.connection.executemany("DELETE FROM owners WHERE window = ? AND thread = ?", gone)
    threads = history.connection.execute("SELECT DISTINCT thread FROM rewinds").fetchall()
    history.connection.executemany(
        "DELETE FROM rewinds WHERE thread = ?", [row for row in threads if row[0] not in kept]
    )


def _sweep(history: FileHistory) -> None:
    """Delete windows without owners, versions without windows, contents without versions."""
    run = history.connection.execute
    run("DELETE FROM windows WHERE number NOT IN (SELECT window FROM owners)")
    run("DELETE FROM roots WHERE number NOT IN (SELECT root FROM windows)")
    run("DELETE FROM versions WHERE root NOT IN (SELECT number FROM roots)")
    run(
        "DELETE FROM versions WHERE last < ? AND NOT EXISTS (SELECT 1 FROM windows w "
        "WHERE w.root = versions.root AND ("
        "(versions.first <= w.before AND w.before < versions.last) OR "
        "(versions.first <= w.after AND w.after < versions.last)))",
        (ENDLESS,),
    )
    run(
        "DELETE FROM objects WHERE digest NOT IN "
        "(SELECT digest FROM versions WHERE digest IS NOT NULL)"
    )


def _count(history: FileHistory) -> tuple[int, int, int]:
    (windows,) = history.connection.execute("SELECT count(*) FROM windows").fetchone()
    (copies,) = history.connection.execute("SELECT count(*) FROM objects").fetchone()
    return windows, copies, stored_bytes(history)
