"""The store in memory: the same contract, gone with the process.

Owns a second, plainer reading of the contract, for tests and for hosts that keep
nothing. Invariant: whatever raises has changed nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import msgspec

from ..core.entries import Entry
from ..core.errors import IllegalCut, LeaseLost, NotFound, StoreClosed, ThreadBusy, TurnConflict
from ..core.ids import new_id
from ..core.redact import blank_value, redact_known
from .contract import (
    ENDED_STATES,
    Admission,
    Change,
    ChangeResult,
    InboxDraft,
    InboxMessage,
    Lease,
    OutboxRow,
    Span,
    ThreadInfo,
    Turn,
)
from .lease import this_process
from .memory_log import MemoryLog, StagedChange
from .rows import (
    Link,
    RowRange,
    blob_digest,
    clip_ranges,
    is_same_input,
    rollback_cut,
    row_ranges,
)
from .work import Work

__all__ = ["MemoryStore"]


@dataclass(slots=True, eq=False)
class _Lease:
    """The right to write one thread of a `MemoryStore`."""

    thread: str
    fence: int
    log: MemoryLog

    async def release(self) -> None:
        """Release the thread. Harmless when called twice."""
        if self.log.fence == self.fence:
            self.log.holder = None


class MemoryStore:
    """A store in memory; its threads exist as long as this object."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._logs: dict[int, MemoryLog] = {}
        self._numbers: dict[str, int] = {}
        self._blobs: dict[str, bytes] = {}
        self._rows = count(1)
        self._open = True

    async def create(self, *, cwd: str = "", title: str = "") -> ThreadInfo:
        """Create an empty thread."""
        self._ensure_open()
        now, thread, title = self._now(), new_id("thr"), redact_known(title)
        info = ThreadInfo(id=thread, root=thread, cwd=cwd, title=title, created=now, updated=now)
        return self._add(info, None, 0)

    async def fork(self, thread: str, cut: int, *, title: str = "") -> ThreadInfo:
        """Create a thread that shares the entries up to `cut` without copying them."""
        parent = self._find_log(thread)
        if not 0 <= cut <= parent.info.last:
            raise IllegalCut(
                f"cannot fork thread {thread!r} at entry {cut}; "
                f"it has entries 1 to {parent.info.last}"
            )
        turns = self._turns_before(thread, cut)
        now = self._now()
        info = ThreadInfo(
            id=new_id("thr"),
            root=parent.info.root,
            parent=thread,
            cut=cut,
            cwd=parent.info.cwd,
            title=redact_known(title),
            created=now,
            updated=max(now, parent.info.updated),
            last=cut,
            turns=turns,
        )
        shared = [turn for turn in self._turns(thread) if turn.number <= turns]
        unended = next((t.number for t in shared if t.state not in ENDED_STATES), turns + 1)
        self._add(info, parent.link.number, unended - 1)
        log = self._find_log(info.id)
        for turn in (turn for turn in shared if turn.number >= unended):
            log.turns[turn.number], log.begins[turn.number] = turn, turn.first
        log.end_open_turns(now, keep=None)
        return info

    def _add(self, info: ThreadInfo, parent: int | None, turn_cut: int) -> ThreadInfo:
        number = next(self._rows)
        self._numbers[info.id] = number
        self._logs[number] = MemoryLog(Link(number, info.id, parent, info.cut, turn_cut), info)
        return info

    def _turns_before(self, thread: str, cut: int) -> int:
        shared = (
            number
            for part in self._ranges(thread)
            for number, begin in self._logs[part.number].begins.items()
            if begin <= cut and part.first_turn <= number <= part.last_turn
        )
        return max(shared, default=0)

    async def delete(self, thread: str) -> None:
        """Delete a thread. What its forks share stays until the last of them is deleted."""
        log = self._find_log(thread)
        if log.holder is not None:
            raise ThreadBusy(thread, log.holder)
        log.deleted = True
        log.inbox, log.outbox, log.posted = {}, {}, {}
        self._purge()

    def _purge(self) -> None:
        needed = [
            part
            for log in self._logs.values()
            if not log.deleted
            for part in self._ranges(log.info.id)
        ]
        for log in filter(lambda log: log.deleted, self._logs.values()):
            own = [part for part in needed if part.number == log.link.number]
            seq = max((part.last for part in own), default=0)
            turn = max((part.last_turn for part in own), default=0)
            log.entries = {at: entry for at, entry in log.entries.items() if at <= seq}
            log.turns = {at: kept for at, kept in log.turns.items() if at <= turn}
            log.begins = {at: begin for at, begin in log.begins.items() if at <= turn}
            log.blobs = {digest: at for digest, at in log.blobs.items() if at <= seq}
        used = {digest for log in self._logs.values() for digest in log.blobs}
        self._blobs = {digest: self._blobs[digest] for digest in used}

    async def info(self, thread: str) -> ThreadInfo:
        """Return one thread."""
        return self._find_log(thread).info

    async def threads(self, *, limit: int | None = None) -> list[ThreadInfo]:
        """Return all threads, the most recently written first."""
        self._ensure_open()
        living = [log for log in self._logs.values() if not log.deleted]
        living.sort(key=lambda log: (log.info.updated, log.link.number), reverse=True)
        return [log.info for log in living[:limit]]

    async def rollbacks(self, thread: str) -> list[tuple[int, int]]:
        """Return every rollback of a log, oldest first, and the first entry that each hides."""
        entries = await self.read(thread)
        return [rollback_cut(entry) for entry in entries if entry.kind == "rollback"]

    async def lineage(self, thread: str) -> list[Span]:
        """Return who wrote the entries of a log, oldest first."""
        line = clip_ranges(self._ranges(thread), 1, self._find_log(thread).info.last)
        return [Span(part.id, part.first, part.last) for part in line]

    async def acquire(self, thread: str) -> _Lease:
        """Acquire the lease for writing `thread`. Raises `ThreadBusy` with its holder."""
        log = self._find_log(thread)
        if log.holder is not None:
            raise ThreadBusy(thread, log.holder)
        log.holder = str(this_process(self._now()))
        log.fence += 1
        return _Lease(thread, log.fence, log)

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        """Apply `change` atomically."""
        change = blank_value(change)
        log = self._find_log(lease.thread)
        if log.fence != lease.fence or log.holder is None:
            raise LeaseLost(lease.thread)
        if change.unless_input and any(each.kind == "input" for each in log.inbox.values()):
            return ChangeResult(mail=True, held_back=True)
        now = max(self._now(), log.info.updated)
        if change.admit is not None and (earlier := self._earlier_turn(log, change.admit)):
            log.end_open_turns(now, keep=log.info.turns)
            turn = log.turns.get(earlier.number) or earlier
            if turn.state not in ENDED_STATES and earlier.number not in log.turns:
                turn = msgspec.structs.replace(turn, state="aborted")
            return ChangeResult(turn=turn, repeated=True, mail=bool(log.inbox))
        last = list(self._entries(lease.thread, log.info.last, log.info.last))
        newest = last[0].time if last else 0
        staged = StagedChange(log, now, newest, self._rows)
        staged.prepare(change)
        return staged.put()

    def _earlier_turn(self, log: MemoryLog, admission: Admission) -> Turn | None:
        turn = next((t for t in self._turns(log.info.id) if t.id == admission.id), None)
        if turn is not None and not is_same_input(turn, admission):
            raise TurnConflict(
                f"turn {admission.id!r} of thread {log.info.id!r} was admitted with another "
                "input; use a new turn id for a new input"
            )
        return turn

    async def read(
        self,
        thread: str,
        first: int = 1,
        last: int | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> list[Entry]:
        """Return the entries from `first` to `last` (both included), with the shared prefix."""
        info = self._find_log(thread).info
        found = self._entries(thread, first, info.last if last is None else min(last, info.last))
        ordered = list(found)[::-1] if reverse else list(found)
        return ordered[:limit]

    async def read_ranges(self, thread: str, ranges: Sequence[tuple[int, int]]) -> list[Entry]:
        """Return the entries of several ranges in the order given, from one snapshot."""
        end = self._find_log(thread).info.last
        return [
            entry
            for first, last in ranges
            for entry in self._entries(thread, first, min(last, end))
        ]

    def _entries(self, thread: str, first: int, last: int) -> Iterator[Entry]:
        for part in clip_ranges(self._ranges(thread), first, last):
            entries = self._logs[part.number].entries
            yield from (entries[seq] for seq in range(part.first, part.last + 1))

    async def turn(self, thread: str, number: int) -> Turn:
        """Return one turn by its number."""
        for turn in self._turns(thread):
            if turn.number == number:
                return turn
        raise NotFound("turn", number, f"thread {thread!r} has no turn with that number")

    async def turns(self, thread: str, *, limit: int | None = None) -> list[Turn]:
        """Return the turns of a thread, oldest first; with `limit` only the newest."""
        turns = list(self._turns(thread))
        return turns if limit is None else turns[max(len(turns) - limit, 0) :]

    def _turns(self, thread: str) -> Iterator[Turn]:
        for part in self._ranges(thread):
            for number, turn in self._logs[part.number].turns.items():
                if part.first_turn <= number <= part.last_turn:
                    yield turn

    async def put_blob(self, thread: str, data: bytes) -> str:
        """Store `data` for `thread` and return its digest (``sha256:`` and hex)."""
        log = self._find_log(thread)
        digest = blob_digest(data)
        self._blobs[digest] = bytes(data)
        log.blobs.setdefault(digest, log.info.last + 1)
        return digest

    async def blob(self, digest: str) -> bytes:
        """Return the bytes under `digest`."""
        self._ensure_open()
        try:
            return self._blobs[digest]
        except KeyError:
            raise NotFound("blob", digest, "its last thread may have been deleted") from None

    async def blobs(self, digests: Sequence[str]) -> list[bytes]:
        """Return the bytes under several digests in the order given, from one snapshot."""
        return [await self.blob(digest) for digest in digests]

    async def post(self, thread: str, message: InboxDraft) -> InboxMessage:
        """Send a message to the thread's writer. Needs no lease."""
        message = blank_value(message)
        log = self._find_log(thread)
        if message.key not in log.posted:
            kept = InboxMessage(
                **{name: getattr(message, name) for name in InboxDraft.__struct_fields__},
                number=next(self._rows),
                thread=thread,
                time=self._now(),
            )
            log.posted[kept.key] = log.inbox[kept.number] = kept
        return log.posted[message.key]

    async def inbox(self, thread: str) -> list[InboxMessage]:
        """Return the messages that wait, oldest first."""
        return list(self._find_log(thread).inbox.values())

    async def outbox(
        self, *, thread: str | None = None, topic: str | None = None
    ) -> list[OutboxRow]:
        """Return the rows that wait, oldest first."""
        self._ensure_open()
        logs = self._logs.values() if thread is None else [self._find_log(thread)]
        rows = [row for log in logs for row in log.outbox.values() if topic in {None, row.topic}]
        return sorted(rows, key=lambda row: row.number)

    async def retry(self, row: int, error: str) -> None:
        """Count a failed attempt at an outbox row."""
        self._ensure_open()
        for log in self._logs.values():
            if kept := log.outbox.get(row):
                attempts, now = kept.attempts + 1, self._now()
                log.outbox[row] = msgspec.structs.replace(
                    kept, attempts=attempts, error=redact_known(error), updated=now
                )
                return
        raise NotFound("outbox row", row, "it was already settled")

    async def waiting(self, *, limit: int) -> list[Work]:
        """Return threads with work whose lease is free, the longest waiting first."""
        self._ensure_open()
        free = (log for log in self._logs.values() if not log.deleted and log.holder is None)
        work = [found for log in free if (found := log.find_work()) is not None]
        return sorted(work, key=lambda each: each.since)[:limit]

    async def close(self) -> None:
        """Close the store: every later call raises `StoreClosed`."""
        self._open = False

    def _find_log(self, thread: str) -> MemoryLog:
        self._ensure_open()
        log = self._logs.get(self._numbers.get(thread, 0))
        if log is None or log.deleted:
            raise NotFound("thread", thread, "`treadle threads` lists those that exist")
        return log

    def _ranges(self, thread: str) -> list[RowRange]:
        return row_ranges(self._ancestors(self._find_log(thread)))

    def _ancestors(self, log: MemoryLog) -> Iterator[Link]:
        yield log.link
        while (parent := log.link.parent) is not None:
            log = self._logs[parent]
            yield log.link

    def _ensure_open(self) -> None:
        if not self._open:
            raise StoreClosed("this store was closed; make a new one")

    def _now(self) -> int:
        return int(self._clock() * 1000)
