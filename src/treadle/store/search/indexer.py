"""The indexer: brings the search index up to date with the log.

Owns which entries are indexed when, and in what batches. A batch is read and split into
terms before its transaction begins, so that others wait only for the writing. Invariant:
an entry is either found or indexed again by the next process that searches.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ...core.entries import Entry
from ...core.errors import NotFound, StoreBusy
from ..contract import Progress, Span, Store, ThreadInfo
from .documents import EntryText, build_document, entry_text
from .tables import (
    RunJob,
    SearchDocument,
    add_documents,
    complete_threads,
    indexed_threads,
    mark_complete,
)

__all__ = ["CHUNK", "Indexer"]

CHUNK = 1_000
"""Entries that are indexed in one transaction."""
_OPTIMIZE_AFTER = 10_000
"""Entries after which SQLite may update its statistics."""
_LOOK_BACK = 100
"""Entries before a chunk that are searched for the calls that its outputs answer."""


class _Chunk(NamedTuple):
    """The entries of a writer after `after` up to `last`, ready to be indexed."""

    thread: str
    after: int
    last: int
    entries: int
    documents: list[SearchDocument]


class _ThreadEnd(NamedTuple):
    """Follows the last chunk of a thread."""

    info: ThreadInfo
    lineage: list[Span] | None
    """None for a thread that was deleted meanwhile."""
    entries: int = 0


_Work: TypeAlias = "_Chunk | _ThreadEnd"


@dataclass(frozen=True, slots=True)
class Indexer:
    """Indexes what is new."""

    read_index: RunJob
    write_index: RunJob
    store: Store

    async def catch_up(
        self,
        threads: Sequence[ThreadInfo],
        *,
        most: int | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Index about `most` new entries of `threads`; return how many are left."""
        complete, known = await self.read_index(
            lambda db: (complete_threads(db), indexed_threads(db))
        )
        behind = [info for info in threads if complete.get(info.id, -1) < info.last]
        total = sum(info.last - max(known.get(info.id, 0), info.cut) for info in behind)
        bound = total if most is None else most
        # Oldest first, as in the log; but newest first where not all can be done.
        behind.sort(key=lambda info: info.updated, reverse=total > bound)
        done, completed = await self._index(behind, known, bound, total, progress)
        if done >= _OPTIMIZE_AFTER:
            await self.write_index(lambda db: db.execute("PRAGMA optimize").fetchall())
        return 0 if completed == len(behind) else max(1, total - done)

    async def _index(
        self,
        behind: Sequence[ThreadInfo],
        known: dict[str, int],
        bound: int,
        total: int,
        progress: Progress | None,
    ) -> tuple[int, int]:
        """Index chunk after chunk; return how many entries and how many whole threads."""
        done = completed = 0
        async with aclosing(self._work(behind, known)) as work:
            batch = await _next_batch(work, CHUNK)
            while batch:
                size = sum(each.entries for each in batch)
                room = CHUNK if done + size < bound else 0
                following, added = await asyncio.gather(_next_batch(work, room), self._write(batch))
                if added is None:  # another process keeps the index locked
                    break
                done, completed = done + size, completed + added
                if progress is not None and size:
                    progress(min(done, total), total)
                batch = following
        return done, completed

    async def _work(
        self, behind: Sequence[ThreadInfo], known: dict[str, int]
    ) -> AsyncGenerator[_Work, None]:
        """Yield the work for these threads, in order."""
        for info in behind:
            try:
                lineage = await self.store.lineage(info.id)
                for span in lineage:
                    after = known.get(span.thread, 0)
                    while (chunk := await self._read_chunk(info.id, span, after)) is not None:
                        yield chunk
                        after = chunk.last
                yield _ThreadEnd(info, lineage)
            except NotFound:
                yield _ThreadEnd(info, None)

    async def _read_chunk(self, thread: str, span: Span, after: int) -> _Chunk | None:
        """Read entries after `after` and split them into terms; None when there are no more."""
        first = max(span.first, after + 1)
        if first > span.last:
            return None
        last = min(first + CHUNK - 1, span.last)
        entries = await self.store.read(thread, first, last)
        texts = await asyncio.to_thread(lambda: [*map(entry_text, entries)])
        tools = await self._tool_names(thread, first, texts)
        documents = await asyncio.to_thread(_build_documents, entries, texts, tools)
        return _Chunk(span.thread, after, last, last - first + 1, documents)

    async def _tool_names(
        self, thread: str, first: int, texts: Sequence[EntryText]
    ) -> dict[str, str]:
        """Return the tool of each call; a call may stand before entry `first`."""
        tools = _called_tools(texts)
        if any(each.call_id and not each.tool and each.call_id not in tools for each in texts):
            before = await self.store.read(thread, max(1, first - _LOOK_BACK), first - 1)
            return _called_tools(map(entry_text, before)) | tools
        return tools

    async def _write(self, batch: Sequence[_Work]) -> int | None:
        """Index a batch; return how many threads it completes, None while the index is locked."""
        try:
            return await self.write_index(lambda db: sum(_apply(db, work) for work in batch))
        except StoreBusy:
            return None


async def _next_batch(work: AsyncGenerator[_Work, None], room: int) -> list[_Work]:
    """Take the next work, about `room` entries; none when there is no room."""
    batch: list[_Work] = []
    if room <= 0:
        return batch
    async for each in work:
        batch.append(each)
        room -= max(1, each.entries)
        if room <= 0:
            break
    return batch


def _apply(connection: sqlite3.Connection, work: _Work) -> bool:
    """Do the work; return whether it completes a thread."""
    if isinstance(work, _ThreadEnd):
        return work.lineage is None or mark_complete(connection, work.info, work.lineage)
    add_documents(connection, work.thread, work.documents, after=work.after, last=work.last)
    return False


def _called_tools(texts: Iterable[EntryText]) -> dict[str, str]:
    return {each.call_id: each.tool for each in texts if each.call_id and each.tool}


def _build_documents(
    entries: Sequence[Entry], texts: Sequence[EntryText], tools: dict[str, str]
) -> list[SearchDocument]:
    return [
        build_document(entry, each, each.tool or tools.get(each.call_id, ""))
        for entry, each in zip(entries, texts, strict=True)
        if each.text.strip()
    ]
