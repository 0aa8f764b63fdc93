"""Batches: many searches in one process, one line each.

Owns the lines of `treadle recall --batch`: ``{"id", "query", "thread"?, "limit"?}`` is answered
with ``{"id", "items"}``. Invariant: every line gets exactly one line, in order and at once;
one that cannot be answered has no items and an ``error``, and harms no other.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import click
import msgspec
from msgspec import Meta, Struct

from ..core.errors import NotFound, TreadleError
from ..core.typed import decode_json
from ..store.contract import Hit, Index, Search, SearchMode, Store, ThreadInfo
from .cli_home import find_thread
from .entry_ranges import entry_id, pick_threads
from .output import say_json

__all__ = ["LONGEST_LINE", "Batch", "item_json"]

LONGEST_LINE = 1 << 20
"""The largest number of bytes of a line."""
_MOST = 10_000


class _Line(Struct, frozen=True):
    """One search, as a line of JSON."""

    query: str
    id: Any = None
    thread: str | int | None = None
    limit: Annotated[int, Meta(ge=1)] | None = None
    mode: SearchMode = "words"
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None


class _Named(Struct, frozen=True):
    id: Any = None


def _hit_json(hit: Hit) -> dict[str, object]:
    """Return a hit for the answer to a line: these fields and no others."""
    return {
        "id": entry_id(hit.thread, hit.seq),
        "source_id": hit.source_id,
        "thread": hit.thread,
        "score": hit.score,
        "snippet": hit.snippet,
    }


def item_json(hit: Hit) -> dict[str, object]:
    """Return a hit as `treadle recall --json` prints it."""
    return {
        **_hit_json(hit),
        "seq": hit.seq,
        "turn": hit.turn,
        "time": hit.time,
        "role": hit.role,
        **({"neighbours": hit.neighbours} if hit.neighbours else {}),
        **({"why": hit.why} if hit.why is not None else {}),
    }


@dataclass(slots=True)
class Batch:
    """Answers lines until there are no more."""

    store: Store
    index: Index
    limit: int
    threads: tuple[str, ...] | None = None
    """The threads that are searched for a line that names none."""
    _listed: list[ThreadInfo] = field(default_factory=list, init=False)

    async def run(self) -> None:
        """Read standard input to its end."""
        async for line in _lines():
            if len(line) > LONGEST_LINE:
                say_json(_error_json(None, f"the line has more than {LONGEST_LINE:,} bytes"))
            elif line.strip():
                say_json(await self.answer(line))

    async def answer(self, line: bytes) -> dict[str, object]:
        """Return the answer to one line."""
        try:
            asked = decode_json(line, _Line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _error_json(_id_of(line), f"the line cannot be used: {error}")
        try:
            hits = await self.index.search(await self._search(asked), catch_up=False)
        except TreadleError as error:
            return _error_json(asked.id, str(error))
        noted = {"note": hits.note} if hits.note else {}
        return {"id": asked.id, "items": list(map(_hit_json, hits)), **noted}

    async def _search(self, asked: _Line) -> Search:
        threads = self.threads if asked.thread is None else await self._threads(str(asked.thread))
        return Search(
            asked.query,
            mode=asked.mode,
            threads=threads,
            roles=asked.roles,
            tools=asked.tools,
            since=asked.since,
            until=asked.until,
            limit=min(asked.limit or self.limit, _MOST),
        )

    async def _threads(self, name: str) -> tuple[str, ...]:
        found = pick_threads(self._listed, name)
        if not found:
            self._listed = await self.store.threads()
            found = pick_threads(self._listed, name)
        if found:
            return found
        try:
            return ((await find_thread(self.store, name)).id,)
        except click.ClickException as error:  # several could be meant
            raise NotFound("thread", name, "type more of its id") from error


def _error_json(name: Any, why: str) -> dict[str, object]:
    return {"id": name, "items": [], "error": why}


async def _lines() -> AsyncIterator[bytes]:
    while line := await asyncio.to_thread(_next_line):
        yield line


def _next_line() -> bytes:
    """Return the next line; of a line that is too long, one byte too many, and skip its rest."""
    line = rest = sys.stdin.buffer.readline(LONGEST_LINE + 1)
    while len(line) > LONGEST_LINE and rest and not rest.endswith(b"\n"):
        rest = sys.stdin.buffer.readline(LONGEST_LINE)
    return line


def _id_of(line: bytes) -> Any:
    try:
        return decode_json(line, _Named).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
