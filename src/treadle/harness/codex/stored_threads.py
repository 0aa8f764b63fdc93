"""Codex's own copies of conversations: the files and rows of its threads in a private home.

Owns deleting them, also without a Codex. Invariants: only threads that are named are
deleted, together with the agents that they started; a thread that a process writes is left
alone; a database that cannot be read or is in use is skipped, and the caller learns of it.
"""

from __future__ import annotations

import fcntl
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from ...core.files import open_regular

__all__ = [
    "delete_stored_threads",
    "is_written_to",
    "old_threads",
    "stored_rollouts",
    "with_agents",
]

_FOLDERS = ("sessions", "archived_sessions")
_LOCKS = "thread-writer-locks"
_BUSY_SECONDS = 5.0
_UNLOAD_SECONDS = 5.0
"""A server closes a thread a moment after the last client has left it."""
_CHECK_SECONDS = 0.05
_DAY = 24 * 3600.0
_ID_LENGTH = 36
"""The length of a thread id, which ends the name of a rollout."""


def stored_rollouts(home: Path) -> Iterator[tuple[str, Path]]:
    """Return the rollouts in a home, with the ids of their threads."""
    for folder in _FOLDERS:
        for path in (home / folder).rglob("rollout-*.jsonl*"):
            name = path.name.partition(".jsonl")[0][-_ID_LENGTH:]
            yield name, path


def old_threads(home: Path) -> list[str]:
    """Return the threads whose rollouts nobody has written to for a day, the oldest first."""
    before = time.time() - _DAY
    found: list[tuple[float, str]] = []
    for thread, path in stored_rollouts(home):
        with suppress(OSError):
            found.append((path.stat().st_mtime, thread))
    return [thread for written, thread in sorted(found) if written < before]


def with_agents(home: Path, threads: Iterable[str]) -> set[str]:
    """Return `threads` and the threads that they and their agents have started."""
    databases = sorted(home.glob("*.sqlite"))
    return {name for thread in threads for name in (thread, *_agents(databases, thread))}


def is_written_to(home: Path, thread: str) -> bool:
    """Say whether a process has a Codex thread open for writing."""
    try:
        with open_regular(home / _LOCKS / f"{thread}.lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _wait_until_closed(home: Path, thread: str) -> bool:
    """Wait until no process writes a thread; return whether that is so."""
    until = time.monotonic() + _UNLOAD_SECONDS
    while is_written_to(home, thread):
        if time.monotonic() > until:
            return False
        time.sleep(_CHECK_SECONDS)
    return True


def delete_stored_threads(home: Path, threads: Iterable[str], *, erase: bool = False) -> list[str]:
    """Delete Codex threads from a private home; return what could not be deleted, and why.

    With `erase`, the databases are written anew, so that no trace of the rows is left in them.
    """
    problems: list[str] = []
    doomed: set[str] = set()
    for thread in threads:
        if not _wait_until_closed(home, thread):
            problems.append(f"the Codex thread {thread!r} is in use; the next clean-up deletes it")
        else:
            doomed |= with_agents(home, (thread,))
    if not doomed:
        return problems
    for database in sorted(home.glob("*.sqlite")):
        try:
            _delete_rows(database, doomed, erase=erase)
        except sqlite3.Error as error:
            problems.append(f"{database.name!r} in {str(home)!r} could not be cleaned: {error}")
    for thread, path in stored_rollouts(home):
        if thread in doomed:
            path.unlink(missing_ok=True)
    for thread in doomed:
        (home / _LOCKS / f"{thread}.lock").unlink(missing_ok=True)
    return problems


def _agents(databases: Iterable[Path], thread: str) -> set[str]:
    """Return the threads that `thread` and its agents have started, as far as Codex noted them."""
    found: set[str] = set()
    for database in databases:
        try:
            with closing(sqlite3.connect(database, timeout=_BUSY_SECONDS)) as db:
                found |= {name for (name,) in db.execute(_CHILDREN, (thread,))}
        except sqlite3.Error:
            continue  # a database without such a table
    return found


_CHILDREN = """
WITH RECURSIVE started (id) AS (
  SELECT child_thread_id FROM thread_spawn_edges WHERE parent_thread_id = ?
  UNION
  SELECT child_thread_id FROM thread_spawn_edges JOIN started ON parent_thread_id = started.id
)
SELECT id FROM started
"""


def _delete_rows(database: Path, threads: set[str], *, erase: bool) -> None:
    """Delete the rows of threads. Raises `sqlite3.Error`.

    Which tables there are depends on the version of Codex: every column that names a thread counts.
    """
    marks = ", ".join("?" * len(threads))
    with closing(sqlite3.connect(database, timeout=_BUSY_SECONDS)) as db:
        db.execute("PRAGMA secure_delete = ON")
        with db:
            deleted = sum(
                db.execute(
                    f'DELETE FROM "{table}" WHERE "{column}" IN ({marks})', [*threads]
                ).rowcount
                for table, column in list(_thread_columns(db))
            )
        if deleted and erase:
            # Older versions of the rows are in the free pages and in the write-ahead log.
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _thread_columns(db: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Return the columns that hold ids of threads, with their tables."""
    tables = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    )
    for (table,) in db.execute(tables).fetchall():
        for _, column, *_ in db.execute(f'PRAGMA table_info("{table}")').fetchall():
            if column.endswith("thread_id") or (table, column) == ("threads", "id"):
                yield table, column
