"""Importing sessions: files that hold whole conversations of another agent.

Owns what is done about a conversation that a log knows already. Invariant: a thread
grows only where the file goes on with it; otherwise a fork or a new thread is made, so
that no thread ever mixes two pasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from ..context.cuts import turn_start
from ..core.entries import Rollback, control_draft
from ..core.errors import ConfigError, IllegalCut
from ..prompt.registry import Registry
from ..store.contract import Change, Store, ThreadInfo
from .codex import rolled_back
from .history import Overlap, best_overlap
from .lines import HEAVY, bounded
from .pieces import Piece, is_kept, kept, stamped
from .report import Brought, State
from .sessions import Session, SessionFormat, Spot
from .sink import Sink, Target
from .tally import Tally

__all__ = ["SessionImport"]

BATCH = 2_000
"""Entries that one transaction may hold, give or take a record's."""
_CHUNK = 256


@dataclass(slots=True)
class SessionImport:
    """Brings the conversations of one file in."""

    store: Store
    sink: Sink
    format: SessionFormat
    registry: Registry
    path: Path
    known: Mapping[str, Sequence[ThreadInfo]]
    tally: Tally
    progress: Callable[[str], None]

    async def run(self, session: Session) -> Brought:
        """Bring one conversation in."""
        keys = [spot.key for spot in session.spots]
        threads = self.known.get(session.key, ())
        found = await best_overlap(self.store, threads, keys)
        target = Target(
            source=session.key,
            title=session.title,
            cwd=session.cwd,
            about=f"imported from {self.format.agent}, session {session.key.partition(':')[2]}",
        )
        state = await self.continue_from(target, found, len(keys))
        matched = 0 if found is None or state == "apart" else found.matched
        if state != "unchanged":
            await self.bring(target, session.spots[matched:])
        return Brought(
            thread=target.thread,
            title=target.title,
            source=session.key,
            file=str(self.path),
            state=state,
            added=len(keys) - matched,
            present=matched,
        )

    async def continue_from(self, target: Target, found: Overlap | None, records: int) -> State:
        """Choose the thread to write to."""
        if found is None:
            return "new"
        if found.matched == records:
            target.thread = found.thread
            return "unchanged"
        if not (found.differs or found.resumed):
            await self.sink.resume(target, found.thread)
            return "grown" if found.matched else "new"
        if not found.matched:
            return "apart"
        await self.sink.fork(target, found.thread, found.seq)
        return "forked"

    async def bring(self, target: Target, spots: Sequence[Spot]) -> None:
        """Append the records at these places."""
        weaver = target.weaver
        done, rest = 0, iter(spots)
        with await asyncio.to_thread(self.path.open, "rb") as file:
            while chunk := bounded(rest, lambda spot: spot.size, _CHUNK):
                for pieces in await asyncio.to_thread(list, self.records(file, chunk)):
                    await self.weave(target, pieces)
                    if weaver.size >= BATCH or weaver.weight >= HEAVY:
                        await self.sink.write(target)
                done += len(chunk)
                self.progress(f"{self.path.name}: {done:,} of {len(spots):,} records")
        await self.sink.write(target, last=True)

    def records(self, file: BinaryIO, spots: Sequence[Spot]) -> Iterator[tuple[Piece, ...]]:
        """What stands at these places."""
        for spot in spots:
            file.seek(spot.offset)
            data = file.read(spot.size)
            try:
                made = self.format.pieces(data, spot, self.registry)
                time = self.format.time(data)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ConfigError(
                    f"{str(self.path)!r} was changed while it was read; import it again"
                ) from error
            made = made or [kept(data, self.format.name)]
            if any(map(is_kept, made)):
                self.tally.kept[_type_in(data)] += 1
            yield stamped(made, spot.key, time)

    async def weave(self, target: Target, pieces: Sequence[Piece]) -> None:
        """Weave the pieces of one record in."""
        for piece in pieces:
            if turns := rolled_back(piece):
                await self.roll_back(target, piece, turns)
            else:
                target.weaver.add(piece)

    async def roll_back(self, target: Target, piece: Piece, turns: int) -> None:
        """Hide the last turns; which entries that are, the log tells once it has them."""
        await self.sink.write(target, last=True)
        if not target.thread:  # a dry run, or a rollback of nothing
            return
        try:
            cut = await turn_start(self.store, target.thread, turns)
        except IllegalCut:
            cut = 2
        body = control_draft(Rollback(cut, turns)).body
        draft = msgspec.structs.replace(piece.draft, body=body, turn=target.weaver.turn)
        await self.sink.commit(target, Change(entries=(draft,)))


def _type_in(data: bytes) -> str:
    """The type that a record claims, with that of what it carries."""
    record = msgspec.json.decode(data)
    names = [record.get("type")]
    for name in ("payload", "message", "attachment"):
        inner = record.get(name)
        if isinstance(inner, dict):
            names.append(inner.get("role") or inner.get("type"))
    return ".".join(name for name in names if isinstance(name, str)) or "without a type"
