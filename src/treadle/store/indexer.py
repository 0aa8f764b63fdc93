"""The indexer: keeps search abreast of the log.

Owns which entries are indexed when, and in what bundles. A bundle is read and cut into
terms before its transaction begins, so that others wait for the writing alone.
Invariant: an entry is either found or is indexed again, by whoever comes next.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from ..core.entries import Entry
from ..core.errors import NotFound, StoreBusy
from . import cursors
from .contract import Progress, Span, Store, ThreadInfo
from .finding.documents import document_of
from .finding.spoken import Spoken, spoken
from .finding.tables import Document

__all__ = ["CHUNK", "Indexer", "Run"]

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
    """The entries of a writer after one up to another, ready to be indexed."""

    thread: str
    after: int
    last: int
    entries: int
    documents: list[Document]


class _Whole(NamedTuple):
    """A thread all of whose pieces came before."""

    info: ThreadInfo
    lineage: list[Span] | None
    """None for a thread that was deleted meanwhile."""
    entries: int = 0


_Work: TypeAlias = "_Piece | _Whole"


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
        bound = total if most is None else most
        # The newest come last, as they were said; but first where not all can be done.
        behind.sort(key=lambda info: info.updated, reverse=total > bound)
        done, noted = await self._index(behind, known, bound, total, progress)
        if done >= _MUCH:
            await self.change(lambda db: db.execute("PRAGMA optimize").fetchall())
        return 0 if noted == len(behind) else max(1, total - done)

    async def _index(
        self,
        behind: Sequence[ThreadInfo],
        known: dict[str, int],
        bound: int,
        total: int,
        progress: Progress | None,
    ) -> tuple[int, int]:
        """How many entries were indexed, and how many threads whole."""
        done = noted = 0
        async with aclosing(self._work(behind, known)) as work:
            bundle = await _bundled(work)
            while bundle:
                more = done + _entries(bundle) < bound
                following, added = await asyncio.gather(
                    _bundled(work) if more else _nothing(), self._write(bundle)
                )
                if added is None:  # someone else keeps the index locked
                    break
                done, noted = done + _entries(bundle), noted + added
                if progress is not None and _entries(bundle):
                    progress(min(done, total), total)
                bundle = following
        return done, noted

    async def _work(
        self, behind: Sequence[ThreadInfo], known: dict[str, int]
    ) -> AsyncGenerator[_Work, None]:
        """What is to be done for these threads, in order."""
        for info in behind:
            try:
                lineage = await self.store.lineage(info.id)
                for span in lineage:
                    after = known.get(span.thread, 0)
                    while (piece := await self._piece(info.id, span, after)) is not None:
                        yield piece
                        after = piece.last
                yield _Whole(info, lineage)
            except NotFound:
                yield _Whole(info, None)

    async def _piece(self, thread: str, span: Span, after: int) -> _Piece | None:
        """The entries after `after`, cut into terms; None when there are no more."""
        first = max(span.first, after + 1)
        if first > span.last:
            return None
        last = min(first + CHUNK - 1, span.last)
        entries = await self.store.read(thread, first, last)
        said = await asyncio.to_thread(lambda: [*map(spoken, entries)])
        calls = await self._calls(thread, first, said)
        documents = await asyncio.to_thread(_documents, entries, said, calls)
        return _Piece(span.thread, after, last, last - first + 1, documents)

    async def _calls(self, thread: str, first: int, said: Sequence[Spoken]) -> dict[str, str]:
        """The tools that were called, by call; some may have been before entry `first`."""
        calls = _called(said)
        if any(each.call and not each.tool and each.call not in calls for each in said):
            before = await self.store.read(thread, max(1, first - _LOOK_BACK), first - 1)
            return _called(map(spoken, before)) | calls
        return calls

    async def _write(self, bundle: Sequence[_Work]) -> int | None:
        """Index a bundle; how many threads are whole by it, None when nobody lets us write."""
        try:
            return await self.change(lambda db: sum(_applied(db, work) for work in bundle))
        except StoreBusy:
            return None


async def _bundled(work: AsyncGenerator[_Work, None]) -> list[_Work]:
    """What comes next, enough for one transaction."""
    bundle: list[_Work] = []
    room = CHUNK
    async for each in work:
        bundle.append(each)
        room -= max(1, each.entries)
        if room <= 0:
            break
    return bundle


async def _nothing() -> list[_Work]:
    return []


def _entries(bundle: Iterable[_Work]) -> int:
    return sum(each.entries for each in bundle)


def _applied(connection: sqlite3.Connection, work: _Work) -> bool:
    """Do it; whether that makes a thread whole."""
    if isinstance(work, _Whole):
        gone = work.lineage is None
        return gone or cursors.note_complete(connection, work.info, work.lineage or [])
    cursors.add_documents(connection, work.thread, work.documents, after=work.after, last=work.last)
    return False


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
