"""The import of plain JSONL: messages of any number of threads in one file.

Owns which lines the log has already. Invariant: lines are read once and in order, and
memory holds their ids, never their texts; the ids of a thread say what it lacks.
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
from .import_drafts import is_verbatim, with_source
from .import_report import ImportCounts, ImportedThread, ImportState
from .imported_threads import ImportTarget, ThreadWriter, entries_of
from .jsonl import milliseconds, read_objects, strict_decoder, take_chunk
from .plain_jsonl import FORMAT, PlainLine, chain_key, decode_line, is_part, plain_drafts
from .session_format import clean_line
from .turn_builder import ABORTED_MARK

__all__ = ["PlainImport"]

_CHUNK = 4_096
"""Lines that are read and written at a time."""
_AT_ONCE = 64
"""Threads that are written together; each needs a lock file while it is."""


class _Message(Struct, frozen=True, gc=False):
    """A line of the file with its key."""

    key: str
    has_id: bool
    """Whether the key is the line's own id."""
    line: PlainLine
    data: bytes


@dataclass(slots=True)
class _LogReader:
    """The source ids of a thread in the log, read along with the file."""

    thread: str
    entries: AsyncIterator[Entry]
    seq: int = 0
    """The last imported entry so far."""
    resumed: bool = False
    next: Entry | None = None
    _keys: set[str] | None = None

    async def peek(self) -> str | None:
        """Return the next source id; None at the end."""
        while self.next is None:
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
                self.next = entry
        return self.next.source_id

    def advance(self) -> None:
        """Go past the entry that `peek` returned."""
        assert self.next is not None
        self.seq, self.next = self.next.seq, None

    async def rest(self) -> set[str]:
        """Read all ids that are left."""
        if self._keys is None:
            self._keys = set()
            while (key := await self.peek()) is not None:
                self._keys.add(key)
                self.advance()
        return self._keys


@dataclass(slots=True)
class _Thread:
    """One thread of a file."""

    target: ImportTarget
    report: ImportedThread
    log: _LogReader | None
    """None for a thread that is not in the log."""
    seen: set[str] = field(default_factory=set)
    chain: str = ""
    missing: list[_Message] = field(default_factory=list)

    def message(self, line: PlainLine, data: bytes) -> _Message:
        """Return the line with its key: its id, or a digest of all lines so far."""
        if line.id is not None and line.id != "":
            return _Message(str(line.id), True, line, data)
        self.chain = chain_key(self.chain, data)
        return _Message(self.chain, False, line, data)


@dataclass(slots=True)
class PlainImport:
    """Imports the messages of one file."""

    store: Store
    writer: ThreadWriter
    registry: Registry
    path: Path
    known: Mapping[str, Sequence[ThreadInfo]]
    counts: ImportCounts
    progress: Callable[[str], None]
    threads: dict[str, _Thread] = field(default_factory=dict)

    async def run(self) -> list[ImportedThread]:
        """Import the whole file; return one report for each thread in it."""
        lines = read_objects(self.path, strict_decoder(decode_line), self.counts)
        done = 0
        while chunk := await asyncio.to_thread(
            take_chunk, lines, lambda each: len(each[0].data), _CHUNK
        ):
            for line, message in chunk:
                await self._sort(message, line.data)
            await self._write()
            done += len(chunk)
            self.progress(f"{self.path.name}: {done:,} messages")
        await self._write(last=True)
        for thread in self.threads.values():
            thread.report.thread = thread.target.thread or thread.report.thread
        return [thread.report for thread in self.threads.values()]

    async def _sort(self, line: PlainLine, data: bytes) -> None:
        """Count a line that its thread has; collect one that it lacks."""
        named = "" if line.thread is None else clean_line(str(line.thread))
        name = named or self.path.stem
        thread = self.threads.get(name) or self._open_thread(name)
        message = thread.message(line, data)
        if await self._has(thread, message):
            thread.report.present += 1
        else:
            thread.report.added += 1
            thread.missing.append(message)
        if message.has_id:
            thread.seen.add(message.key)

    def _open_thread(self, name: str) -> _Thread:
        """Add a thread that this file has not named before."""
        source = f"{FORMAT}:{name}"
        info = next(iter(self.known.get(source, ())), None)
        log = None if info is None else _LogReader(info.id, entries_of(self.store, info.id))
        target = ImportTarget(source=source, title=name, about="imported from plain JSONL")
        state: ImportState = "new" if info is None or not info.last else "unchanged"
        report = ImportedThread(
            thread=info.id if info else "",
            title=name,
            name=name,
            source=source,
            file=str(self.path),
            state=state,
        )
        self.threads[name] = _Thread(target, report, log)
        return self.threads[name]

    async def _has(self, thread: _Thread, message: _Message) -> bool:
        """Return whether the log has a message; choose the target at the first missing one."""
        if message.has_id and message.key in thread.seen:
            return True
        log = thread.log
        if log is None or thread.report.state == "forked":
            return False
        expected = await log.peek()
        if expected == message.key:
            log.advance()
            return True
        if message.has_id and message.key in await log.rest():
            return True
        differs = expected is not None and not message.has_id
        if differs and await self._switch(thread, message):
            return True
        if not thread.target.thread:
            await self._choose_target(thread, log, differs=differs)
        return False

    async def _switch(self, thread: _Thread, message: _Message) -> bool:
        """Go on with another thread of the same name that has the message.

        The key of a message without an id depends on all messages before it, so a thread
        that has the key has all of them.
        """
        for info in self.known.get(thread.target.source, ()):
            log = _LogReader(info.id, entries_of(self.store, info.id))
            while (key := await log.peek()) is not None:
                log.advance()
                if key == message.key:
                    thread.log, thread.report.thread = log, info.id
                    return True
        return False

    async def _choose_target(self, thread: _Thread, log: _LogReader, *, differs: bool) -> None:
        """Append to the thread, or to a fork of it where it differs from the file."""
        if differs and log.seq <= 1:
            thread.log, thread.report.state = None, "apart"
        elif differs or log.resumed:
            thread.report.state = "forked"
            await self.writer.fork(thread.target, log.thread, log.seq)
        else:
            if thread.report.state == "unchanged":
                thread.report.state = "grown"
            await self.writer.resume(thread.target, log.thread)

    async def _write(self, *, last: bool = False) -> None:
        """Append what is missing to all threads at once; they share transactions."""
        waiting = [thread for thread in self.threads.values() if thread.missing or last]
        await asyncio.to_thread(self._build_turns, waiting)
        for first in range(0, len(waiting), _AT_ONCE):
            some = waiting[first : first + _AT_ONCE]
            await asyncio.gather(*(self.writer.write(thread.target, last=last) for thread in some))

    def _build_turns(self, threads: Sequence[_Thread]) -> None:
        """Build turns of the missing messages."""
        for thread in threads:
            for message in thread.missing:
                drafts = plain_drafts(message.line, message.data, self.registry)
                if any(map(is_verbatim, drafts)):
                    self.counts.kept[message.line.role or "without a role"] += 1
                time = milliseconds(message.line.time)
                for placed in with_source(drafts, message.key, time):
                    thread.target.builder.add(placed)
            thread.missing = []
