"""Moving threads from one store into another.

Owns the order: nobody may write a family while it is copied, what is copied is rendered again and
compared, and only then the other store may forget it. Invariant: each request of a thread has the
same bytes in both stores, or nothing is removed.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, suppress
from functools import partial

from msgspec import Struct

from ..context.rebuild import rebuild_ledger
from ..core.errors import InvalidOption, NotFound, StoreCorrupt
from ..prompt.registry import Registry
from ..store.contract import Index, Store
from ..store.copying import (
    CopiedThread,
    CopiesRows,
    copy_rows,
    find_family_rows,
    finish,
    prepare,
    read_rest,
    write_entries,
    write_rest,
)
from ..store.index import MemoryIndex
from ..store.queries import read_blob
from ..store.updates import store_blob

__all__ = ["MovedThread", "copy_family"]


class MovedThread(Struct, frozen=True, kw_only=True):
    """A thread that is in the other store now."""

    id: str
    entries: int
    requests: int
    """Requests that were rendered again, with the bytes that they had."""


async def copy_family(
    source: Store, target: Store, index: Index, thread: str, registry: Registry, *, keep: bool
) -> list[MovedThread]:
    """Copy a thread with its forks, and delete them in `source` unless `keep`.

    What waits in inbox and outbox goes with a thread that moves: a copy that is kept beside it
    would do it twice. Raises `ThreadBusy` while somebody writes one of them, `StoreError` where
    the other store has one, and `StoreCorrupt` where a request is not what it was.
    """
    if not isinstance(source, CopiesRows) or not isinstance(target, CopiesRows):
        raise InvalidOption("threads can only be moved between stores that last")
    async with AsyncExitStack() as stack:
        family = await source.read_rows(lambda db: find_family_rows(db, thread))
        living = [each for each in family if each.deleted is None]
        for each in living:
            stack.push_async_callback((await source.acquire(each.id)).release)
        family = await source.read_rows(lambda db: find_family_rows(db, thread))
        now = int(time.time() * 1000)
        numbers = await target.write_rows(lambda db: prepare(db, family, now))
        for each in family:
            await _copy_thread(source, target, each, numbers[each.number], waiting=not keep)
        await target.write_rows(lambda db: finish(db, family))
        try:
            moved = [await _check(source, target, index, each, registry) for each in living]
        except BaseException:
            for each in reversed(living):
                with suppress(NotFound):
                    await target.delete(each.id)
            raise
    if not keep:
        for each in reversed(living):
            await source.delete(each.id)
    return moved


async def _copy_thread(
    source: CopiesRows, target: CopiesRows, thread: CopiedThread, number: int, *, waiting: bool
) -> None:
    at = 0
    while True:
        at, rows = await source.read_rows(copy_rows(thread.number, at))
        if not rows:
            break
        await target.write_rows(write_entries(number, rows))
    rest = await source.read_rows(read_rest(thread.number))
    await target.write_rows(write_rest(number, rest, waiting=waiting))
    for digest, seq in rest.blobs:
        data = await source.read_rows(partial(read_blob, digest=digest))
        await target.write_rows(partial(store_blob, thread=number, seq=seq, data=data))


async def _check(
    source: Store, target: Store, index: Index, thread: CopiedThread, registry: Registry
) -> MovedThread:
    """Render every request of a thread in its new place."""
    rebuilt = await rebuild_ledger(target, index, thread.id, registry)
    if rebuilt.differing:
        # An earlier version of Treadle may have sent them: then they differ in both places.
        before = MemoryIndex(source)
        try:
            known = (await rebuild_ledger(source, before, thread.id, registry)).differing
        finally:
            await before.close()
        if new := set(rebuilt.differing) - set(known):
            raise StoreCorrupt(
                f"request {min(new)} of thread {thread.id!r} is not what it was, so nothing was "
                "moved; this is a defect of Treadle: please report it"
            )
    return MovedThread(id=thread.id, entries=thread.last, requests=rebuilt.requests)
