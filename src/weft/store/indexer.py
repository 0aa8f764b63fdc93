"""The indexer: keeps search abreast of the log.

Owns which entries are indexed when, and in what pieces. A piece is read and cut into
terms before its transaction begins, so that others wait for the writing alone.
Invariant: a piece is either found whole or is indexed again, by whoever comes next.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from ..entries import Entry
from ..errors import NotFound, StoreBusy
from . import cursors
from .contract import Progress, Span, Store, ThreadInfo
from .finding.spoken import called_by, spoken
from .finding.tables import Document, document_of

__all__ = ["CHUNK", "Indexer"]

T = TypeVar("T")

CHUNK = 1_000
"""Entries that are indexed in one transaction."""
_LOOK_BACK = 100
"""Entries before a piece among which the calls are that its outputs answer."""


class Run(Protocol):
    """Runs a job on the index, in a transaction of its own."""

    def __call__(self, job: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]:
        """What the job returned."""
        ...


@dataclass(slots=True)
class _Errand:
    """How much is to be done, and how much was."""

    total: int
    most: int | None
    progress: Progress | None
    done: int = 0

    @property
    def spent(self) -> bool:
        return self.most is not None and self.done >= self.most

    def advance(self, entries: int) -> None:
        self.done += entries
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total)


@dataclass(slots=True)
class Indexer:
    """Indexes what is new."""

    ask: Run
    change: Run
    store: Store
    _calls: dict[str, str] = field(default_factory=dict, init=False)

    async def catch_up(
        self,
        threads: Sequence[ThreadInfo],
        *,
        most: int | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Index what is new in `threads`, about `most` entries; how many are left."""
        known = await self.ask(cursors.completed)
        behind = [info for info in threads if known.get(info.id, -1) < info.last]
        total = sum(_behind(info, known) for info in behind)
        errand = _Errand(total, most, progress)
        # The newest come last, as they were said; but first where not all can be done.
        behind.sort(key=lambda info: info.updated, reverse=most is not None and total > most)
        for info in behind:
            if errand.spent or not await self._index(info, errand):
                return max(1, errand.total - errand.done)
        return 0

    async def _index(self, info: ThreadInfo, errand: _Errand) -> bool:
        """Index one thread; False when not all of it could be."""
        try:
            for span in await self.store.lineage(info.id):
                while await self._index_piece(info.id, span, errand):
                    if errand.spent:
                        return False
            await self.change(partial(cursors.note_complete, info=info))
        except NotFound:  # deleted while we read it
            return True
        except StoreBusy:  # someone else is indexing, for long
            return False
        return True

    async def _index_piece(self, thread: str, span: Span, errand: _Errand) -> bool:
        """Index the next piece of a span; False when there is none."""
        upto = await self.ask(lambda db: cursors.upto(db, span.thread))
        first = max(span.first, upto + 1)
        if first > span.last:
            return False
        last = min(first + CHUNK - 1, span.last)
        entries = await self.store.read(thread, first, last)
        await self._learn_calls(thread, entries)
        documents = await asyncio.to_thread(self._documents, entries)
        await self.change(
            partial(cursors.add_documents, thread=span.thread, documents=documents, last=last)
        )
        errand.advance(last - first + 1)
        return True

    def _documents(self, entries: Sequence[Entry]) -> list[Document]:
        made = (document_of(entry, self._calls.get(spoken(entry).call, "")) for entry in entries)
        return [document for document in made if document is not None]

    async def _learn_calls(self, thread: str, entries: Sequence[Entry]) -> None:
        """Know which tools the outputs among `entries` come from."""
        if len(self._calls) > 10 * CHUNK:
            self._calls.clear()
        self._calls.update(filter(None, map(called_by, entries)))
        asked = {spoken(entry).call for entry in entries if b"_call_output" in entry.body}
        if asked - self._calls.keys() - {""}:
            first = entries[0].seq
            before = await self.store.read(thread, max(1, first - _LOOK_BACK), first - 1)
            self._calls.update(filter(None, map(called_by, before)))


def _behind(info: ThreadInfo, known: dict[str, int]) -> int:
    return info.last - max(known.get(info.id, 0), info.cut)
