"""The import of sessions: files that hold whole conversations of another agent.

Owns what happens to a conversation that the store knows already. Invariant: a thread
grows only where the file continues it; otherwise a fork or a new thread is made, so that
no thread mixes two conversations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..core.errors import ConfigError
from ..prompt.registry import Registry
from ..store.contract import Store, ThreadInfo
from ..store.thread_names import words_of_user
from .import_drafts import PlacedDraft, is_verbatim, rollback_turns, verbatim_draft, with_source
from .import_report import ImportCounts, ImportedThread, ImportState
from .imported_threads import ImportTarget, Overlap, ThreadWriter, best_overlap
from .jsonl import CHUNK_BYTES, mend_halves, take_chunk
from .session_format import ImportedSession, RecordPosition, SessionFormat
from .visible_turns import VisibleTurns

__all__ = ["SessionImport"]

BATCH = 2_000
"""Entries that one transaction may hold, give or take a record's."""
_CHUNK = 256


@dataclass(slots=True)
class SessionImport:
    """Imports the conversations of one file."""

    store: Store
    writer: ThreadWriter
    format: SessionFormat
    registry: Registry
    path: Path
    known: Mapping[str, Sequence[ThreadInfo]]
    counts: ImportCounts
    progress: Callable[[str], None]

    async def run(self, session: ImportedSession) -> ImportedThread:
        """Import one conversation."""
        keys = [position.key for position in session.positions]
        threads = self.known.get(session.key, ())
        found = await best_overlap(self.store, threads, keys)
        target = ImportTarget(
            source=session.key,
            title=session.title,
            about=_origin_text(self.format.agent, session),
        )
        state = await self._choose_thread(target, found, len(keys))
        matched = 0 if found is None or state == "apart" else found.matched
        if state != "unchanged":
            await self._append(target, session.positions[matched:])
        return ImportedThread(
            thread=target.thread,
            title=target.title,
            name=target.title or target.opening,
            source=session.key,
            file=str(self.path),
            state=state,
            added=len(keys) - matched,
            present=matched,
        )

    async def _choose_thread(
        self, target: ImportTarget, found: Overlap | None, records: int
    ) -> ImportState:
        """Choose the thread to write to; fork it where it differs from the file."""
        if found is None:
            return "new"
        if found.matched == records:
            target.thread = found.thread
            return "unchanged"
        if not (found.differs or found.resumed):
            await self.writer.resume(target, found.thread)
            return "grown" if found.matched else "new"
        if not found.matched:
            return "apart"
        await self.writer.fork(target, found.thread, found.seq)
        return "forked"

    async def _append(self, target: ImportTarget, positions: Sequence[RecordPosition]) -> None:
        """Append the records at these positions."""
        builder = target.builder
        done, rest = 0, iter(positions)
        with await asyncio.to_thread(self.path.open, "rb") as file:
            while chunk := take_chunk(rest, lambda position: position.size, _CHUNK):
                for drafts in await asyncio.to_thread(list, self._read_records(file, chunk)):
                    await self._add_record(target, drafts)
                    if builder.size >= BATCH or builder.weight >= CHUNK_BYTES:
                        await self.writer.write(target)
                done += len(chunk)
                self.progress(f"{self.path.name}: {done:,} of {len(positions):,} records")
        await self.writer.write(target, last=True)

    def _read_records(
        self, file: BinaryIO, positions: Sequence[RecordPosition]
    ) -> Iterator[tuple[PlacedDraft, ...]]:
        """Yield the drafts of each record at these positions."""
        for position in positions:
            file.seek(position.offset)
            data = mend_halves(file.read(position.size))
            try:
                drafts = self.format.drafts(data, position, self.registry)
                time = self.format.time(data)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"{str(self.path)!r} was changed while it was read; import it again"
                ) from error
            drafts = drafts or [verbatim_draft(data, self.format.name)]
            if any(map(is_verbatim, drafts)):
                self.counts.kept[_type_of(data)] += 1
            yield with_source(drafts, position.key, time)

    async def _add_record(self, target: ImportTarget, drafts: Sequence[PlacedDraft]) -> None:
        for placed in drafts:
            if turns := rollback_turns(placed):
                await self._roll_back(target, placed, turns)
            else:
                target.opening = target.opening or words_of_user(placed.draft)
                target.builder.add(placed)

    async def _roll_back(self, target: ImportTarget, placed: PlacedDraft, turns: int) -> None:
        """Hide the last turns."""
        builder = target.builder
        if builder.visible is None:  # a thread that was there before
            await self.writer.write(target, last=True)
            builder.visible = await VisibleTurns.load(self.store, target.thread)
        builder.roll_back(placed, turns)


def _type_of(data: bytes) -> str:
    """Return the type of a record, with that of what it carries."""
    record = msgspec.json.decode(data)
    names = [record.get("type")]
    for name in ("payload", "message", "attachment"):
        inner = record.get(name)
        if isinstance(inner, dict):
            names.append(inner.get("role") or inner.get("type"))
    return ".".join(name for name in names if isinstance(name, str)) or "without a type"


def _origin_text(agent: str, session: ImportedSession) -> str:
    """Say where a conversation comes from.

    Its directory is told and not used: there commands could write, and a file grants no rights.
    """
    text = f"imported from {agent}, session {session.key.partition(':')[2]}"
    return f"{text}; it worked in {session.cwd!r}" if session.cwd else text
