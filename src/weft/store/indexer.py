"""The indexer: keeps search abreast of the log.

Owns which entries are indexed when, and in what pieces. A piece is read and cut into
terms before its transaction begins, so that others wait for the writing alone.
Invariant: a piece is either found whole or is indexed again, by whoever comes next.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from ..entries import Entry
from ..errors import NotFound, StoreBusy
from . import cursors
from .contract import Progress, Span, Store, ThreadInfo
from .finding.spoken import Spoken, spoken
from .finding.tables import Document, document_of

__all__ = ["CHUNK", "Indexer"]

T = TypeVar("T")

CHUNK = 1_000
"""Entries that are indexed in one transaction."""
_MUCH = 10_000
"""Entries after which SQLite may look at its statistics again."""
_LOOK_BACK = 100
"""Entries before a piece among which the calls are that its outputs answer."""


class Run(Protocol):
    """Runs a job on the index, in a transaction of its own."""

    def __call__(self, job: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]:
        """What the job returned."""
        ...


class _Piece(NamedTuple):
    """The entries after one up to another, ready to be indexed."""

    after: int
    last: int
    documents: list[Document]


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


@dataclass(frozen=True, slots=True)
class Indexer:
    """Indexes what is new."""

    ask: Run
    change: Run
    store: Store

    async def catch_up(
        self,
        threads: Sequence[ThreadInfo],
        *,
        most: int | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Index what is new in `threads`, about `most` entries; how many are left."""
        found, known = await self.ask(lambda db: (cursors.completed(db), cursors.everything(db)))
        behind = [info for info in threads if found.get(info.id, -1) < info.last]
        total = sum(info.last - max(known.get(info.id, 0), info.cut) for info in behind)
        errand = _Errand(total, most, progress)
        # The newest come last, as they were said; but first where not all can be done.
        behind.sort(key=lambda info: info.updated, reverse=most is not None and total > most)
        whole = all([await self._index(info, errand) for info in behind])
        if errand.done >= _MUCH:
            await self.change(lambda db: db.execute("PRAGMA optimize").fetchall())
        return 0 if whole else max(1, errand.total - errand.done)

    async def _index(self, info: ThreadInfo, errand: _Errand) -> bool:
        """Index one thread; False when not all of it could be."""
        if errand.spent:
            return False
        try:
            lineage = await self.store.lineage(info.id)
            for span in lineage:
                if not await self._index_span(info.id, span, errand):
                    return False
            await self.change(partial(cursors.note_complete, info=info, lineage=lineage))
        except NotFound:  # deleted while we read it
            return True
        except StoreBusy:  # someone else is indexing, for long
            return False
        return True

    async def _index_span(self, thread: str, span: Span, errand: _Errand) -> bool:
        """Index what is new in a span, reading one piece while another is written."""
        upto = await self.ask(lambda db: cursors.upto(db, span.thread))
        piece = await self._piece(thread, span, upto)
        while piece is not None and not errand.spent:
            following, upto = await asyncio.gather(
                self._piece(thread, span, piece.last), self._write(span.thread, piece)
            )
            errand.advance(piece.last - max(span.first - 1, piece.after))
            # Others may have indexed more in the meantime, or have forgotten all.
            piece = following if upto == piece.last else await self._piece(thread, span, upto)
        return piece is None

    async def _piece(self, thread: str, span: Span, after: int) -> _Piece | None:
        """The entries after `after`, cut into terms; None when there are no more."""
        first = max(span.first, after + 1)
        if first > span.last:
            return None
        last = min(first + CHUNK - 1, span.last)
        entries = await self.store.read(thread, first, last)
        said = await asyncio.to_thread(lambda: [*map(spoken, entries)])
        calls = await self._calls(thread, first, said)
        return _Piece(after, last, await asyncio.to_thread(_documents, entries, said, calls))

    async def _write(self, thread: str, piece: _Piece) -> int:
        after, last, documents = piece
        return await self.change(
            lambda db: cursors.add_documents(db, thread, documents, after=after, last=last)
        )

    async def _calls(self, thread: str, first: int, said: Sequence[Spoken]) -> dict[str, str]:
        """The tools that were called, by call; some may have been before entry `first`."""
        calls = _called(said)
        if any(each.call and not each.tool and each.call not in calls for each in said):
            before = await self.store.read(thread, max(1, first - _LOOK_BACK), first - 1)
            return _called(map(spoken, before)) | calls
        return calls


def _called(said: Iterable[Spoken]) -> dict[str, str]:
    return {each.call: each.tool for each in said if each.call and each.tool}


def _documents(
    entries: Sequence[Entry], said: Sequence[Spoken], calls: dict[str, str]
) -> list[Document]:
    return [
        document_of(entry, each, each.tool or calls.get(each.call, ""))
        for entry, each in zip(entries, said, strict=True)
        if each.text.strip()
    ]
