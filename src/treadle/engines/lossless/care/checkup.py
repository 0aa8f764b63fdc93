"""The checkup: whether library and logs agree, and what to do where they do not.

Owns what is looked at. Invariants: looking changes nothing, a finding says in one line
what is wrong and what mends it, and a sound home has none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from ....core.entries import Node as Part
from ....core.errors import NotFound, StoreError, StoreTooNew
from ....store.contract import Store
from ....store.database import open_reader, sqlite_errors
from ...advance import topic_of
from .audits import (
    audit_debts,
    audit_leftovers,
    audit_nodes,
    audit_view,
    audit_waiting,
    needed,
)
from .findings import ENGINE, FIX, Finding
from .inventory import Inventory, inventory_of, reading
from .shown import Base, Shown, shown_in

__all__ = ["Checkup", "check_up"]


class Checkup(Struct, frozen=True, kw_only=True):
    """What was found."""

    findings: tuple[Finding, ...] = ()
    lost: dict[str, Part] = {}
    """Summaries that logs show and the library lacks, by name."""
    kept: frozenset[str] = frozenset()
    """Summaries that a living thread needs, whoever made them."""


async def check_up(
    store: Store,
    log: Path,
    library: Path,
    *,
    clock: Callable[[], float] = time.time,
    progress: Callable[[str], None] = lambda _: None,
) -> Checkup:
    """Everything that is wrong with a library and what the logs show of it.

    Reads all of both. A file that is damaged is the only finding: nothing else in it counts.
    Raises `StoreTooNew`.
    """
    progress("checking the files")
    if damaged := await asyncio.to_thread(_damage, log, library):
        return Checkup(findings=tuple(damaged))
    held = await asyncio.to_thread(inventory_of, library)
    logs = await shown_in(store, progress)
    threads = {shown.info.id: shown for shown in logs}
    alive = threads.keys() | {span.thread for shown in logs for span in shown.lineage}
    findings: list[Finding] = []
    for shown in logs:
        findings += await _of_thread(store, shown, held)
    kept = needed(held, threads)
    findings += audit_nodes(held, threads, kept)
    findings += audit_debts(held, threads, int(clock() * 1000))
    findings += audit_waiting(await store.outbox(topic=topic_of(ENGINE)))
    findings += audit_leftovers(held, alive, kept)
    parts = {part.id: part for shown in logs for base in shown.bases for part in base.nodes}
    lost = {found.subject for found in findings if found.kind == "lost_node"}
    if lost:
        # Others may have kept and shown it since the library was read.
        lost -= (await asyncio.to_thread(inventory_of, library)).nodes.keys()
    return Checkup(
        findings=tuple(f for f in findings if f.kind != "lost_node" or f.subject in lost),
        lost={name: parts[name] for name in lost},
        kept=kept,
    )


def _damage(log: Path, library: Path) -> list[Finding]:
    findings: list[Finding] = []
    for path, pragma in ((log, "quick_check"), (library, "integrity_check")):
        if path.exists() and (wrong := _integrity(path, pragma, library)):
            kept = "restore it from a backup, or salvage it with `sqlite3 FILE .recover`"
            anew = f"{FIX} moves it aside: its summaries are made again from the log"
            findings.append(
                Finding(
                    kind="damaged_file",
                    subject=path.name,
                    what=f"{path.name} is damaged: {wrong}",
                    remedy=anew if path == library else kept,
                )
            )
    return findings


def _integrity(path: Path, pragma: str, library: Path) -> str:
    """The first thing that SQLite finds wrong with a file."""
    try:
        if path == library:
            with reading(path) as db:
                (said,) = db.execute(f"PRAGMA {pragma}(1)").fetchone()
        else:
            with sqlite_errors(path), closing(open_reader(path)) as db:
                (said,) = db.execute(f"PRAGMA {pragma}(1)").fetchone()
    except StoreTooNew:
        raise
    except StoreError as error:
        return str(error).partition("; ")[0]
    return "" if said == "ok" else str(said).partition("\n")[0]


async def _of_thread(store: Store, shown: Shown, held: Inventory) -> list[Finding]:
    """What is wrong with the recipes of a thread, and its view."""
    findings: list[Finding] = []
    known: set[str] = set()
    for base in shown.bases:
        if base.by != ENGINE:
            continue
        for part in base.nodes:
            if part.id not in known:
                known.add(part.id)
                findings += await _of_part(store, shown, base, part, held)
    last = shown.info.last
    if shown.info.id in held.turns and held.turns[shown.info.id].last > last:
        findings.append(
            Finding(
                kind="ahead_of_log",
                thread=shown.info.id,
                what=f"the engine knows turns up to entry {held.turns[shown.info.id].last}, "
                f"the log ends at {last}",
                remedy="the log was put back from an older copy; put back the library "
                "of the same backup",
            )
        )
    return [*findings, *audit_view(shown)]


async def _of_part(
    store: Store, shown: Shown, base: Base, part: Part, held: Inventory
) -> list[Finding]:
    thread = shown.info.id
    if not await _has_blob(store, part.blob):
        return [
            Finding(
                kind="lost_blob",
                thread=thread,
                subject=part.id,
                what=f"the text of summary {part.id} (shown since entry {base.seq}) "
                "is not in the log",
                remedy=f"go on from before it: treadle fork {thread} --at {base.seq - 1}",
            )
        ]
    if not 1 <= part.first <= part.last < base.seq:
        return [
            Finding(
                kind="outside_log",
                thread=thread,
                subject=part.id,
                what=f"summary {part.id} stands for entries {part.first} to {part.last}, "
                f"which are not all before entry {base.seq} that shows it",
                remedy=f"go on from before it: treadle fork {thread} --at {base.seq - 1}",
            )
        ]
    if part.id in held.nodes:
        return []
    return [
        Finding(
            kind="lost_node",
            thread=thread,
            subject=part.id,
            what=f"summary {part.id} is shown, but not in the library",
            remedy=f"{FIX} takes it over from the log, as the thread's next turn does",
            fixable=True,
        )
    ]


async def _has_blob(store: Store, digest: str) -> bool:
    try:
        await store.blob(digest)
    except NotFound:
        return False
    return True
