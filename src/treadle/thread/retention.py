"""Retention: which threads are old, and what nobody needs any more.

Owns the rules of `treadle prune` and `treadle gc`. Invariants: a thread that is being written,
or that works for one that stays, is kept; what a fork shares stays with the fork; what is
collected can be made again, or belongs to no thread.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct

from ..core.errors import NotFound, StoreError
from ..store.contract import Store, ThreadInfo
from ..store.lease import FileLock
from ..subagents.access import find_lineage
from ..workspace.copy_retention import EVERYTHING, Collected, collect_copies

__all__ = ["Garbage", "OldThread", "collect_garbage", "find_old_threads"]


class OldThread(Struct, frozen=True):
    """A thread that nobody has written for long."""

    info: ThreadInfo
    kept: str = ""
    """Why it stays all the same."""


class Garbage(Struct, frozen=True, kw_only=True):
    """What was deleted, or would be."""

    copies: Collected = Collected()
    """Copies of files."""
    locks: int = 0
    """Lock files of threads that are gone."""


async def find_old_threads(store: Store, before: int) -> list[OldThread]:
    """Return the threads that were last written before a time, oldest first."""
    threads = {info.id: info for info in await store.threads()}
    old = {name for name, info in threads.items() if info.updated < before}
    found = []
    for name in sorted(old, key=lambda name: threads[name].updated):
        starter = await _starter(store, threads[name])
        kept = starter is not None and starter in threads and starter not in old
        found.append(OldThread(threads[name], f"works for {starter}" if kept else ""))
    return found


async def _starter(store: Store, info: ThreadInfo) -> str | None:
    """Return the thread that started a thread; the first entry of an agent's log says it."""
    try:
        lineage = await find_lineage(store, info)
    except (NotFound, StoreError):
        return None
    return lineage.parent if lineage else None


async def collect_garbage(store: Store, home: Path, *, dry_run: bool = False) -> Garbage:
    """Delete what no thread needs. Raises `StoreError`, `OSError`."""
    threads = await store.threads()
    kept: dict[str, int] = {}
    for info in threads:
        for span in await store.lineage(info.id):
            kept[span.thread] = max(kept.get(span.thread, 0), span.last)
    kept |= {info.id: EVERYTHING for info in threads}
    names = {info.id for info in threads}
    return Garbage(
        copies=await asyncio.to_thread(collect_copies, home, kept, dry_run=dry_run),
        locks=await asyncio.to_thread(_remove_locks, home, names, dry_run=dry_run),
    )


def _remove_locks(home: Path, threads: set[str], *, dry_run: bool) -> int:
    """Remove the lock files of threads that are gone; one that is held stays."""
    removed = 0
    for path in sorted((home / "locks").glob("*.lock")):
        lock = FileLock(path)
        if path.stem in threads or not lock.acquire():
            continue
        try:
            if not dry_run:
                path.unlink(missing_ok=True)
            removed += 1
        finally:
            lock.release()
    return removed
