"""Check whether a library and the logs agree.

Owns what is read and which rules are applied to it. Invariants: checking changes
nothing, and a sound home has no findings.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from ....core.entries import Node
from ....core.errors import NotFound, StoreError, StoreTooNew
from ....store.contract import Store
from ....store.database import open_reader, sqlite_errors
from ...advance import topic_of
from .inspect_library import (
    ENGINE,
    LibraryContents,
    LoggedRecipe,
    LoggedThread,
    open_library,
    read_library,
    read_logs,
)
from .library_rules import (
    FIX,
    DoctorFinding,
    check_jobs,
    check_leftovers,
    check_nodes,
    check_outbox,
    check_view,
    nodes_in_use,
)

__all__ = ["CheckResult", "check_library"]


class CheckResult(Struct, frozen=True, kw_only=True):
    """What a check found."""

    findings: tuple[DoctorFinding, ...] = ()
    lost: dict[str, Node] = {}
    """Summaries that logs show and the library lacks, by name."""
    in_use: frozenset[str] = frozenset()
    """Summaries that a living thread needs, whoever made them."""


async def check_library(
    store: Store,
    log: Path,
    library: Path,
    *,
    clock: Callable[[], float] = time.time,
    progress: Callable[[str], None] = lambda _: None,
) -> CheckResult:
    """Return everything that is wrong with a library and with what the logs show of it.

    Reads all of both. A damaged file is the only finding: nothing else in it counts.
    Raises `StoreTooNew`.
    """
    progress("checking the files")
    if damaged := await asyncio.to_thread(_check_files, log, library):
        return CheckResult(findings=tuple(damaged))
    contents = await asyncio.to_thread(read_library, library)
    logs = await read_logs(store, progress)
    threads = {logged.info.id: logged for logged in logs}
    alive = threads.keys() | {span.thread for logged in logs for span in logged.lineage}
    findings: list[DoctorFinding] = []
    for logged in logs:
        findings += await _check_thread(store, logged, contents)
    in_use = nodes_in_use(contents, threads)
    findings += check_nodes(contents, threads, in_use)
    findings += check_jobs(contents, threads, int(clock() * 1000))
    findings += check_outbox(await store.outbox(topic=topic_of(ENGINE)))
    findings += check_leftovers(contents, alive, in_use)
    parts = {part.id: part for one in logs for recipe in one.recipes for part in recipe.nodes}
    lost = {found.subject for found in findings if found.kind == "lost_node"}
    if lost:
        # Another process may have added and shown it since the library was read.
        lost -= (await asyncio.to_thread(read_library, library)).nodes.keys()
    return CheckResult(
        findings=tuple(f for f in findings if f.kind != "lost_node" or f.subject in lost),
        lost={name: parts[name] for name in lost},
        in_use=in_use,
    )


def _check_files(log: Path, library: Path) -> list[DoctorFinding]:
    findings: list[DoctorFinding] = []
    for path, pragma in ((log, "quick_check"), (library, "integrity_check")):
        if path.exists() and (damage := _find_damage(path, pragma, library)):
            kept = "restore it from a backup, or salvage it with `sqlite3 FILE .recover`"
            anew = f"{FIX} moves it aside: its summaries are made again from the log"
            findings.append(
                DoctorFinding(
                    kind="damaged_file",
                    subject=path.name,
                    what=f"{path.name} is damaged: {damage}",
                    remedy=anew if path == library else kept,
                )
            )
    return findings


def _find_damage(path: Path, pragma: str, library: Path) -> str:
    """Return the first thing that SQLite finds wrong with a file."""
    try:
        if path == library:
            with open_library(path) as db:
                (result,) = db.execute(f"PRAGMA {pragma}(1)").fetchone()
        else:
            with sqlite_errors(path), closing(open_reader(path)) as db:
                (result,) = db.execute(f"PRAGMA {pragma}(1)").fetchone()
    except StoreTooNew:
        raise
    except StoreError as error:
        return str(error).partition("; ")[0]
    return "" if result == "ok" else str(result).partition("\n")[0]


async def _check_thread(
    store: Store, logged: LoggedThread, contents: LibraryContents
) -> list[DoctorFinding]:
    """Return what is wrong with the recipes of a thread, and its view."""
    findings: list[DoctorFinding] = []
    checked: set[str] = set()
    for recipe in logged.recipes:
        if recipe.by != ENGINE:
            continue
        for part in recipe.nodes:
            if part.id not in checked:
                checked.add(part.id)
                findings += await _check_part(store, logged.info.id, recipe, part, contents)
    last, known = logged.info.last, contents.turns.get(logged.info.id)
    if known is not None and known.last > last:
        findings.append(
            DoctorFinding(
                kind="ahead_of_log",
                thread=logged.info.id,
                what=f"the engine knows turns up to entry {known.last}, the log ends at {last}",
                remedy="the log was put back from an older copy; put back the library "
                "of the same backup",
            )
        )
    return [*findings, *check_view(logged)]


async def _check_part(
    store: Store, thread: str, recipe: LoggedRecipe, part: Node, contents: LibraryContents
) -> list[DoctorFinding]:
    if not await _has_blob(store, part.blob):
        return [
            DoctorFinding(
                kind="lost_blob",
                thread=thread,
                subject=part.id,
                what=f"the text of summary {part.id} (shown since entry {recipe.seq}) "
                "is not in the log",
                remedy=f"go on from before it: treadle fork {thread} --at {recipe.seq - 1}",
            )
        ]
    if not 1 <= part.first <= part.last < recipe.seq:
        return [
            DoctorFinding(
                kind="outside_log",
                thread=thread,
                subject=part.id,
                what=f"summary {part.id} stands for entries {part.first} to {part.last}, "
                f"which are not all before entry {recipe.seq} that shows it",
                remedy=f"go on from before it: treadle fork {thread} --at {recipe.seq - 1}",
            )
        ]
    if part.id in contents.nodes:
        return []
    return [
        DoctorFinding(
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
