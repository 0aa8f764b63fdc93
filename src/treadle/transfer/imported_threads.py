"""Imported threads in the store: what they have already, and how they are written.

Owns the comparison of a file's keys with the source ids of a thread, and how imported
threads are created, forked and appended to. Invariants: nothing is decided from texts or
times; a thread that someone else wrote to meanwhile is left unchanged; one write is one
transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from ..core.entries import Draft, Entry, Notice, control_draft
from ..core.errors import ThreadBusy
from ..store.contract import Change, Store, ThreadInfo
from .turn_builder import ABORTED_MARK, TurnBuilder

__all__ = [
    "PAGE",
    "ImportTarget",
    "Overlap",
    "ThreadWriter",
    "best_overlap",
    "entries_of",
    "known_threads",
    "overlap",
]

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
    """Whether someone ran turns in the thread after the import."""

    def rank(self, length: int) -> tuple[bool, bool, int]:
        """Return how well the thread suits a conversation of `length` records."""
        return self.matched == length, not (self.differs or self.resumed), self.matched


async def entries_of(store: Store, thread: str, first: int = 1) -> AsyncIterator[Entry]:
    """Yield the entries of a thread from `first` on; reads a page at a time."""
    while page := await store.read(thread, first, limit=PAGE):
        for entry in page:
            yield entry
        first = page[-1].seq + 1


async def known_threads(store: Store, threads: Sequence[ThreadInfo]) -> dict[str, list[ThreadInfo]]:
    """Return threads by the conversation that they were imported from, the newest first.

    A thread that was created for an import and has no entry yet has its conversation as title.
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
    """Return the best thread for a conversation: one that can grow, or the longest match."""
    best: Overlap | None = None
    for info in threads:
        found = await overlap(store, info.id, keys)
        if best is None or found.rank(len(keys)) > best.rank(len(keys)):
            best = found
    return best


async def overlap(store: Store, thread: str, keys: Sequence[str]) -> Overlap:
    """Return how far `thread` and the conversation with these keys agree.

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


@dataclass(slots=True)
class ImportTarget:
    """A thread that is being written, and what is not written yet."""

    source: str
    title: str
    about: str = ""
    """The text of the notice that says where the thread came from."""
    opening: str = ""
    """How the first message that is written begins."""
    thread: str = ""
    last: int = 0
    time: int | None = None
    """The time of the last entry that has one."""
    builder: TurnBuilder = field(default_factory=TurnBuilder)


@dataclass(slots=True)
class ThreadWriter:
    """Writes to a store; a `dry` one writes nothing."""

    store: Store
    dry: bool = False

    async def resume(self, target: ImportTarget, thread: str) -> None:
        """Continue a thread from its newest turn."""
        info = await self.store.info(thread)
        target.thread, target.last = thread, info.last
        first = (await self.store.turn(thread, info.turns)).first if info.turns else 1
        entries = [entry async for entry in entries_of(self.store, thread, first)]
        target.builder.resume(info.turns, entries)
        target.builder.next_seq = max(info.last, 1) + 1
        newest = await self.store.read(thread, info.last, info.last) if info.last else []
        target.time = newest[0].time if newest else None

    async def fork(self, target: ImportTarget, thread: str, cut: int) -> None:
        """Fork a thread at entry `cut`, and continue the fork."""
        if self.dry:
            return
        info = await self.store.fork(thread, cut, title=target.title)
        await self.resume(target, info.id)

    async def write(self, target: ImportTarget, *, last: bool = False) -> None:
        """Commit the turns that were built."""
        await self.commit(target, target.builder.take(last=last))

    async def commit(self, target: ImportTarget, change: Change) -> None:
        """Commit a change to the thread; create the thread at its first one."""
        if self.dry or not (change.entries or change.past):
            return
        if not target.thread:
            created = await self.store.create(title=target.source)
            target.thread = created.id
        change = _with_times(target, change)
        if not target.last:
            change = _with_opening(target, change)
        lease = await self.store.acquire(target.thread)
        try:
            if (await self.store.info(target.thread)).last != target.last:
                raise ThreadBusy(target.thread, "someone else")
            await self.store.commit(lease, change)
        finally:
            await lease.release()
        target.last += len(change.entries) + sum(len(past.entries) for past in change.past)


def _with_opening(target: ImportTarget, change: Change) -> Change:
    """Return the change with the notice that says where the thread came from.

    Until then its source is the title of the thread, so that the next import finds a thread
    whose import was interrupted.
    """
    drafts = (*change.entries, *(draft for past in change.past[:1] for draft in past.entries))
    opening = msgspec.structs.replace(
        control_draft(Notice("info", target.about, "import")),
        source_id=target.source,
        time=drafts[0].time if drafts else None,
    )
    return msgspec.structs.replace(change, entries=(opening, *change.entries), title=target.title)


def _with_times(target: ImportTarget, change: Change) -> Change:
    """Return the change with a time for every draft, if any has one: the one before it."""
    every = (*change.entries, *(draft for past in change.past for draft in past.entries))
    times = [draft.time for draft in every if draft.time is not None]
    known = target.time if target.time is not None else next(iter(times), None)
    if len(times) == len(every) or known is None:
        target.time = times[-1] if times else known
        return change

    def fill(drafts: Iterable[Draft]) -> Iterator[Draft]:
        nonlocal known
        for draft in drafts:
            known = known if draft.time is None else draft.time
            yield msgspec.structs.replace(draft, time=known)

    entries = tuple(fill(change.entries))
    past = tuple(
        msgspec.structs.replace(each, entries=tuple(fill(each.entries))) for each in change.past
    )
    target.time = known
    return msgspec.structs.replace(change, entries=entries, past=past)
