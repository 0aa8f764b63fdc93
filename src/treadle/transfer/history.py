"""History: what of a conversation the log has already.

Owns the comparison of a file's keys with the source ids of a thread. Invariant: reading
costs what is read; nothing is decided from texts or times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from ..core.entries import Entry
from ..store.contract import Store, ThreadInfo
from .weaver import ABORTED_MARK

__all__ = ["PAGE", "Overlap", "best_overlap", "entries_of", "known_threads", "overlap"]

PAGE = 1_000


class Overlap(Struct, frozen=True):
    """How far a thread and a conversation agree."""

    thread: str
    matched: int
    """How many of the conversation's records the thread has, from the first on."""
    seq: int
    """The last entry of what agrees."""
    differs: bool
    """Whether the thread goes on with records that the conversation does not have."""
    resumed: bool
    """Whether someone went on with the thread here."""


async def entries_of(store: Store, thread: str, first: int = 1) -> AsyncIterator[Entry]:
    """The entries of a thread from one on, a page at a time."""
    while page := await store.read(thread, first, limit=PAGE):
        for entry in page:
            yield entry
        first = page[-1].seq + 1


async def known_threads(store: Store, threads: Sequence[ThreadInfo]) -> dict[str, list[ThreadInfo]]:
    """Threads by the conversation that they were imported from, the newest first.

    One that was made for an import and never got an entry is called by its conversation.
    """
    found: dict[str, list[ThreadInfo]] = defaultdict(list)
    for info in sorted(threads, key=lambda info: (info.created, info.id), reverse=True):
        if info.last == 0:
            found[info.title].append(info)
            continue
        (first,) = await store.read(info.id, 1, 1)
        if first.kind == "notice" and first.source_id is not None:
            found[first.source_id].append(info)
    return found


async def best_overlap(
    store: Store, threads: Sequence[ThreadInfo], keys: Sequence[str]
) -> Overlap | None:
    """The thread that agrees with a conversation best: can go on with it, else longest."""
    best: Overlap | None = None
    for info in threads:
        found = await overlap(store, info.id, keys)
        if best is None or _worth(found, len(keys)) > _worth(best, len(keys)):
            best = found
    return best


def _worth(found: Overlap, length: int) -> tuple[bool, bool, int]:
    whole = found.matched == length
    return whole, not (found.differs or found.resumed), found.matched


async def overlap(store: Store, thread: str, keys: Sequence[str]) -> Overlap:
    """How far `thread` and the conversation with these keys agree.

    Of a record that became several entries the first has the key, the others have it
    with a number behind a ``#``.
    """
    matched = seq = 0
    differs = resumed = False
    async for entry in entries_of(store, thread):
        if entry.seq == 1:
            seq = 1
        elif entry.source_id is None:
            resumed = True
            break
        elif not entry.source_id.endswith(ABORTED_MARK):
            key = entry.source_id.partition("#")[0]
            if matched < len(keys) and key == keys[matched]:
                matched += 1
            elif not matched or key != keys[matched - 1]:
                differs = matched < len(keys)
                break
            seq = entry.seq
    return Overlap(thread, matched, seq, differs, resumed)
