"""Repair a library, and copy it together with its log.

Owns the changes to a library that no turn makes, and backups. Invariants: only what can
be made again from the log or belongs to nobody is changed, all of it in one transaction;
a backup copies the library first, so that the copy of the log has all that it names; a
copy is complete or not there, and never replaces a file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from ....core.entries import Node
from ....core.errors import StoreError, StoreReadOnly
from ....store.contract import Store
from ....store.database import connect, sqlite_errors
from ...conversation import conversation_of_rows, visible_rows
from ...values import ContextItem, EntryRange
from ..library import LEASE_MS, delete_thread, insert_node
from ..nodes import SummaryNode, node_from_log
from ..sqlite_file import SqliteFile
from .check_library import CheckResult
from .library_rules import DoctorFinding, FindingKind

__all__ = ["CopiedFile", "back_up", "move_aside", "repair_library"]

_DONE: dict[FindingKind, str] = {
    "lost_node": "took over {} summaries from the log",
    "outside_log": "dropped {} summaries of entries that are not there",
    "orphaned_job": "dropped {} jobs that nobody needs",
    "expired_lease": "freed {} jobs whose worker never ended",
    "degraded_node": "queued {} extracts to be written by a model",
    "left_behind": "forgot what was left of {} deleted threads",
}


async def repair_library(
    store: Store,
    library: Path,
    found: CheckResult,
    *,
    clock: Callable[[], float] = time.time,
) -> list[str]:
    """Repair what can be repaired; return what was done, one line for each kind."""
    fixable = [finding for finding in found.findings if finding.fixable]
    if not fixable:
        return []
    lost = {
        finding.subject: await _read_lost_node(store, finding.thread or "", part)
        for finding in fixable
        if (part := found.lost.get(finding.subject)) is not None
    }
    file = SqliteFile(library)
    try:
        now = int(clock() * 1000)
        await file.write(lambda db: _apply_fixes(db, fixable, lost, found.in_use, now))
    finally:
        await file.close()
    counted = Counter(finding.kind for finding in fixable)
    return [_DONE[kind].format(count) for kind, count in counted.items()]


async def _read_lost_node(store: Store, thread: str, part: Node) -> SummaryNode:
    """Return a node as the recipe that shows it knows it."""
    body = await store.blob(part.blob)
    covers = EntryRange(part.first, part.last)
    item = ContextItem(body=body, tokens=part.tokens, covers=covers, name=part.id)
    rows = await visible_rows(store, thread, part.first, part.last)
    return node_from_log(thread, item, conversation_of_rows(thread, rows).items)


def _apply_fixes(
    db: sqlite3.Connection,
    findings: Sequence[DoctorFinding],
    lost: dict[str, SummaryNode],
    in_use: frozenset[str],
    now: int,
) -> None:
    for finding in findings:
        thread, subject = finding.thread, finding.subject
        match finding.kind:
            case "lost_node":
                insert_node(db, lost[subject])
            case "outside_log":
                db.execute("DELETE FROM nodes WHERE id = ?", (subject,))
            case "orphaned_job":
                db.execute("DELETE FROM jobs WHERE thread = ? AND key = ?", (thread, subject))
            case "expired_lease":
                db.execute(
                    "UPDATE jobs SET owner = NULL, until = 0, after = 0 "
                    "WHERE thread = ? AND key = ? AND (until <= ? OR until > ?)",
                    (thread, subject, now, now + LEASE_MS),
                )
            case "degraded_node":
                db.execute(
                    "INSERT INTO jobs (key, thread, first, last, depth, created) "
                    "SELECT key, ?, first, last, depth, ? FROM nodes WHERE id = ? "
                    "ON CONFLICT DO NOTHING",
                    (thread, now, subject),
                )
            case "left_behind":
                delete_thread(db, subject, in_use)


def move_aside(library: Path) -> Path:
    """Move a library that cannot be read out of the way, with the files that SQLite keeps."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    place = library.with_name(f"{library.name}.broken-{stamp}")
    for suffix in ("-wal", "-shm", ""):
        part = library.with_name(library.name + suffix)
        if part.exists():
            part.rename(place.with_name(place.name + suffix))
    return place


class CopiedFile(Struct, frozen=True):
    """A file that was copied."""

    path: str
    size: int


def back_up(home: Path, destination: Path, files: tuple[str, ...]) -> list[CopiedFile]:
    """Copy `files` of a home to a new directory, in this order, while others write them.

    What is copied later is not older than what was copied before. Files that are not there
    are left out. Raises `StoreError` when the directory exists or cannot be written.
    """
    if destination.exists():
        raise StoreError(f"{str(destination)!r} already exists; name a new directory")
    unfinished = destination.with_name(f".{destination.name}.unfinished-{os.getpid()}")
    try:
        unfinished.mkdir(mode=0o700, parents=True)
        there = [name for name in files if (home / name).exists()]
        for name in there:
            _copy_database(home / name, unfinished / name)
        unfinished.rename(destination)
    except OSError as error:
        raise StoreReadOnly(
            f"no backup could be written to {str(destination)!r} ({error.strerror}); "
            "name another place"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return [CopiedFile(name, (destination / name).stat().st_size) for name in there]


def _copy_database(source: Path, target: Path) -> None:
    """Copy one snapshot of a database to one file."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with (
        sqlite_errors(source),
        closing(connect(source, "mode=ro")) as here,
        closing(sqlite3.connect(target, isolation_level=None)) as there,
    ):
        here.backup(there)
    with target.open("rb") as file:
        os.fsync(file.fileno())
