"""Repair: putting right what a checkup found, as far as nothing can be lost by it.

Owns the changes to a library that no turn makes. Invariant: only what can be made again
from the log, or belongs to nobody, is changed; all of it in one transaction.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ....core.entries import Node as Part
from ....core.wire import json_bytes
from ....store.contract import Store
from ...conversation import conversation_of
from ...log import visible_rows
from ...values import ContextItem, Covered
from ..library import keep_node
from ..nodes import Node, recovered
from ..shelf import Shelf
from .checkup import Checkup
from .findings import Finding, Kind

__all__ = ["forget", "repair", "set_aside"]

_DONE: dict[Kind, str] = {
    "lost_node": "took over {} summaries from the log",
    "outside_log": "dropped {} summaries of entries that are not there",
    "orphaned_job": "dropped {} jobs that nobody needs",
    "expired_lease": "freed {} jobs whose worker never ended",
    "degraded_node": "queued {} extracts to be written by a model",
    "left_behind": "forgot what was left of {} deleted threads",
}
_OF_A_THREAD = ("jobs", "turns", "notes", "told")


async def repair(
    store: Store,
    library: Path,
    checkup: Checkup,
    *,
    clock: Callable[[], float] = time.time,
) -> list[str]:
    """Mend what can be mended; what was done, one line for each kind."""
    found = [finding for finding in checkup.findings if finding.fixable]
    if not found:
        return []
    lost = {
        finding.subject: await _taken_over(store, finding.thread or "", part)
        for finding in found
        if (part := checkup.lost.get(finding.subject)) is not None
    }
    shelf = Shelf(library)
    try:
        now = int(clock() * 1000)
        await shelf.change(lambda db: _mend(db, found, lost, checkup.kept, now))
    finally:
        await shelf.close()
    counted = Counter(finding.kind for finding in found)
    return [_DONE[kind].format(count) for kind, count in counted.items()]


async def forget(library: Path, thread: str) -> None:
    """Drop all that is known of a thread that was deleted.

    What another thread shows of it is known again at that thread's next turn.
    """
    if not await asyncio.to_thread(library.exists):
        return
    shelf = Shelf(library)
    try:
        await shelf.change(lambda db: _forget(db, thread, frozenset()))
    finally:
        await shelf.close()


async def _taken_over(store: Store, thread: str, part: Part) -> Node:
    """A node as the recipe that shows it knows it."""
    body = await store.blob(part.blob)
    covers = Covered(part.first, part.last)
    item = ContextItem(body=body, tokens=part.tokens, covers=covers, name=part.id)
    rows = await visible_rows(store, thread, part.first, part.last)
    return recovered(thread, item, conversation_of(thread, rows).items)


def _mend(
    db: sqlite3.Connection,
    findings: Sequence[Finding],
    lost: dict[str, Node],
    kept: frozenset[str],
    now: int,
) -> None:
    for finding in findings:
        thread, subject = finding.thread, finding.subject
        match finding.kind:
            case "lost_node":
                keep_node(db, lost[subject])
            case "outside_log":
                db.execute("DELETE FROM nodes WHERE id = ?", (subject,))
            case "orphaned_job":
                db.execute("DELETE FROM jobs WHERE thread = ? AND key = ?", (thread, subject))
            case "expired_lease":
                db.execute(
                    "UPDATE jobs SET owner = NULL, until = 0, after = 0 "
                    "WHERE thread = ? AND key = ? AND until <= ?",
                    (thread, subject, now),
                )
            case "degraded_node":
                db.execute(
                    "INSERT INTO jobs (key, thread, first, last, depth, created) "
                    "SELECT key, ?, first, last, depth, ? FROM nodes WHERE id = ? "
                    "ON CONFLICT DO NOTHING",
                    (thread, now, subject),
                )
            case "left_behind":
                _forget(db, subject, kept)


def set_aside(library: Path) -> Path:
    """Move a library that cannot be read out of the way, with what SQLite keeps beside it."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    place = library.with_name(f"{library.name}.broken-{stamp}")
    for suffix in ("-wal", "-shm", ""):
        part = library.with_name(library.name + suffix)
        if part.exists():
            part.rename(place.with_name(place.name + suffix))
    return place


def _forget(db: sqlite3.Connection, thread: str, kept: frozenset[str]) -> None:
    """Drop all that is known of a thread, but what others need."""
    db.execute(
        "DELETE FROM nodes WHERE thread = ? AND id NOT IN (SELECT value FROM json_each(?))",
        (thread, json_bytes(sorted(kept))),
    )
    for table in _OF_A_THREAD:
        db.execute(f"DELETE FROM {table} WHERE thread = ?", (thread,))
