"""Importing plain JSONL: messages of any number of threads, in one stream.

Owns which lines a log has already. Invariant: lines are read once and in order, and
memory holds their ids, never their texts; the ids of a thread say what is missing in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from ..core.entries import Entry
from ..prompt.registry import Registry
from ..store.contract import Store, ThreadInfo
from .history import entries_of
from .lines import Line, bounded, read_objects, sound
from .pieces import is_kept, stamped
from .plain import FORMAT, PlainLine, chained, decode_line, is_part, plain_pieces, time_of
from .report import Brought, State
from .sessions import clean_line
from .sink import Sink, Target
from .tally import Tally
from .weaver import ABORTED_MARK

__all__ = ["PlainImport"]

_CHUNK = 4_096
"""Lines that are read and written at a time."""
_AT_ONCE = 64
"""Threads that are written together; each needs a lock file while it is."""


class _Message(Struct, frozen=True, gc=False):
    """A line on its way."""

    key: str
    given: bool
    """Whether the file names it."""
    line: PlainLine
    data: bytes


@dataclass(slots=True)
class _Log:
    """What a thread of the log has, walked along with the file."""

    thread: str
    entries: AsyncIterator[Entry]
    seq: int = 0
    """The last entry that came from elsewhere, so far."""
    resumed: bool = False
    waiting: Entry | None = None
    _keys: set[str] | None = None

    async def peek(self) -> str | None:
        """The next source id; None at the end."""
        while self.waiting is None:
            entry = await anext(self.entries, None)
            if entry is None:
                return None
            if entry.seq == 1:
                self.seq = 1
            elif entry.source_id is None:
                self.resumed = True
            elif entry.source_id.endswith(ABORTED_MARK) or is_part(entry):
                self.seq = entry.seq
            else:
                self.waiting = entry
        return self.waiting.source_id

    def advance(self) -> None:
        """Pass the entry that `peek` told."""
        assert self.waiting is not None
        self.seq, self.waiting = self.waiting.seq, None

    async def rest(self) -> set[str]:
        """All ids that were not passed yet."""
        if self._keys is None:
            self._keys = set()
            while (key := await self.peek()) is not None:
                self._keys.add(key)
                self.advance()
        return self._keys


@dataclass(slots=True)
class _Thread:
    """One thread of a file."""

    target: Target
    brought: Brought
    log: _Log | None
    """None for a thread that the log does not have."""
    seen: set[str] = field(default_factory=set)
    chain: str = ""
    missing: list[_Message] = field(default_factory=list)

    def read(self, line: PlainLine, data: bytes) -> _Message:
        """The line under its key: its id, or what follows from all lines so far."""
        if line.id is not None and line.id != "":
            return _Message(str(line.id), True, line, data)
        self.chain = chained(self.chain, data)
        return _Message(self.chain, False, line, data)


@dataclass(slots=True)
class PlainImport:
    """Brings the messages of one file in."""

    store: Store
    sink: Sink
    registry: Registry
    path: Path
    known: Mapping[str, Sequence[ThreadInfo]]
    tally: Tally
    progress: Callable[[str], None]
    threads: dict[str, _Thread] = field(default_factory=dict)

    async def run(self) -> list[Brought]:
        """Bring the whole file in; one report for each thread in it."""
        lines = read_objects(self.path, sound(decode_line), self.tally)
        done = 0
        while chunk := await asyncio.to_thread(bounded, lines, _weight, _CHUNK):
            for line, message in chunk:
                await self.sort(message, line.data)
            await self.write()
            done += len(chunk)
            self.progress(f"{self.path.name}: {done:,} messages")
        await self.write(last=True)
        for thread in self.threads.values():
            thread.brought.thread = thread.target.thread or thread.brought.thread
        return [thread.brought for thread in self.threads.values()]

    async def sort(self, line: PlainLine, data: bytes) -> None:
        """Put a line with those that its thread has, or with those that it misses."""
        named = "" if line.thread is None else clean_line(str(line.thread))
        name = named or self.path.stem
        thread = self.threads.get(name) or self.open(name)
        message = thread.read(line, data)
        if await self.has(thread, message):
            thread.brought.present += 1
        else:
            thread.brought.added += 1
            thread.missing.append(message)
        if message.given:
            thread.seen.add(message.key)

    def open(self, name: str) -> _Thread:
        """Meet a thread for the first time in this file."""
        source = f"{FORMAT}:{name}"
        info = next(iter(self.known.get(source, ())), None)
        log = None if info is None else _Log(info.id, entries_of(self.store, info.id))
        target = Target(source=source, title=name, about="imported from plain JSONL")
        state: State = "new" if info is None or not info.last else "unchanged"
        brought = Brought(
            thread=info.id if info else "",
            title=name,
            source=source,
            file=str(self.path),
            state=state,
        )
        self.threads[name] = _Thread(target, brought, log)
        return self.threads[name]

    async def has(self, thread: _Thread, message: _Message) -> bool:
        """Whether the log has a message. Decides at the first missing one where it goes."""
        if message.given and message.key in thread.seen:
            return True
        log = thread.log
        if log is None or thread.brought.state == "forked":
            return False
        expected = await log.peek()
        if expected == message.key:
            log.advance()
            return True
        if message.given and message.key in await log.rest():
            return True
        differs = expected is not None and not message.given
        if differs and await self.switch(thread, message):
            return True
        if not thread.target.thread:
            await self.go_on(thread, log, differs=differs)
        return False

    async def switch(self, thread: _Thread, message: _Message) -> bool:
        """Go on along another thread of the same name that has the message.

        The key of a message without an id says all that came before it, so whoever has
        it has all of that.
        """
        for info in self.known.get(thread.target.source, ()):
            log = _Log(info.id, entries_of(self.store, info.id))
            while (key := await log.peek()) is not None:
                log.advance()
                if key == message.key:
                    thread.log, thread.brought.thread = log, info.id
                    return True
        return False

    async def go_on(self, thread: _Thread, log: _Log, *, differs: bool) -> None:
        """Append to the thread, or to a fork where it went on otherwise."""
        if differs and log.seq <= 1:
            thread.log, thread.brought.state = None, "apart"
        elif differs or log.resumed:
            thread.brought.state = "forked"
            await self.sink.fork(thread.target, log.thread, log.seq)
        else:
            if thread.brought.state == "unchanged":
                thread.brought.state = "grown"
            await self.sink.resume(thread.target, log.thread)

    async def write(self, *, last: bool = False) -> None:
        """Append what is missing, all threads at once: they share their transactions."""
        waiting = [thread for thread in self.threads.values() if thread.missing or last]
        await asyncio.to_thread(self.weave, waiting)
        for first in range(0, len(waiting), _AT_ONCE):
            some = waiting[first : first + _AT_ONCE]
            await asyncio.gather(*(self.sink.write(thread.target, last=last) for thread in some))

    def weave(self, threads: Sequence[_Thread]) -> None:
        """Turn what is missing into turns."""
        for thread in threads:
            for message in thread.missing:
                pieces = plain_pieces(message.line, message.data, self.registry)
                if any(map(is_kept, pieces)):
                    self.tally.kept[message.line.role or "without a role"] += 1
                for piece in stamped(pieces, message.key, time_of(message.line)):
                    thread.target.weaver.add(piece)
            thread.missing = []


def _weight(read: tuple[Line, PlainLine]) -> int:
    return len(read[0].data)
