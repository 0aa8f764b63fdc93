"""The sink: where an import writes.

Owns how imported threads are made, forked and appended to. Invariant: a thread that
someone else wrote meanwhile is left alone, and one write is one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from ..core.entries import Draft, Notice, control_draft
from ..core.errors import ThreadBusy
from ..store.contract import Change, Store
from .history import entries_of
from .weaver import Weaver

__all__ = ["Sink", "Target"]


@dataclass(slots=True)
class Target:
    """A thread that is being written, and what waits for it."""

    source: str
    title: str
    cwd: str = ""
    about: str = ""
    """What people are told of where it came from."""
    thread: str = ""
    last: int = 0
    time: int | None = None
    """When the last thing happened that says so."""
    weaver: Weaver = field(default_factory=Weaver)


@dataclass(slots=True)
class Sink:
    """Writes to a store, or only seems to."""

    store: Store
    dry: bool = False

    async def resume(self, target: Target, thread: str) -> None:
        """Go on with a thread from its newest turn."""
        info = await self.store.info(thread)
        target.thread, target.last = thread, info.last
        first = (await self.store.turn(thread, info.turns)).first if info.turns else 1
        entries = [entry async for entry in entries_of(self.store, thread, first)]
        target.weaver.resume(info.turns, entries)
        target.time = await self._newest_time(thread, info.last)

    async def _newest_time(self, thread: str, last: int) -> int | None:
        newest = await self.store.read(thread, last, last) if last else []
        return newest[0].time if newest else None

    async def fork(self, target: Target, thread: str, cut: int) -> None:
        """Go on from an entry of a thread that went on otherwise."""
        if self.dry:
            return
        info = await self.store.fork(thread, cut, title=target.title)
        await self.resume(target, info.id)

    async def write(self, target: Target, *, last: bool = False) -> None:
        """Make what was woven durable; a new thread begins with where it came from."""
        await self.commit(target, target.weaver.take(last=last))

    async def commit(self, target: Target, change: Change) -> None:
        """Apply a change to the thread, which is made at its first one."""
        if self.dry or not (change.entries or change.past):
            return
        if not target.thread:
            made = await self.store.create(cwd=target.cwd, title=target.source)
            target.thread = made.id
        change = _timed(target, change)
        if not target.last:
            change = _opened(target, change)
        lease = await self.store.acquire(target.thread)
        try:
            if (await self.store.info(target.thread)).last != target.last:
                raise ThreadBusy(target.thread, "someone else")
            await self.store.commit(lease, change)
        finally:
            await lease.release()
        target.last += len(change.entries) + sum(len(past.entries) for past in change.past)


def _opened(target: Target, change: Change) -> Change:
    """The change with the entry that tells where the thread came from.

    Until then it is called by that, so that an import that was cut off finds it again.
    """
    said = control_draft(Notice("info", target.about, "import"))
    told = msgspec.structs.replace(said, source_id=target.source, time=_first_time(change))
    return msgspec.structs.replace(change, entries=(told, *change.entries), title=target.title)


def _timed(target: Target, change: Change) -> Change:
    """The change with a time for all, if there is one for any: that of what came before."""
    every = (*change.entries, *(draft for past in change.past for draft in past.entries))
    times = [draft.time for draft in every if draft.time is not None]
    known = target.time if target.time is not None else next(iter(times), None)
    if len(times) == len(every) or known is None:
        target.time = times[-1] if times else known
        return change

    def timed(drafts: Iterable[Draft]) -> Iterator[Draft]:
        nonlocal known
        for draft in drafts:
            known = known if draft.time is None else draft.time
            yield msgspec.structs.replace(draft, time=known)

    entries = tuple(timed(change.entries))
    past = tuple(
        msgspec.structs.replace(each, entries=tuple(timed(each.entries))) for each in change.past
    )
    target.time = known
    return msgspec.structs.replace(change, entries=entries, past=past)


def _first_time(change: Change) -> int | None:
    drafts = (*change.entries, *(draft for past in change.past[:1] for draft in past.entries))
    return drafts[0].time if drafts else None
