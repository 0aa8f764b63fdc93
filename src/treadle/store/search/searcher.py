"""The searcher: from a query to its hits, with the index brought up to date first.

Owns how much is indexed before a search answers, which threads a search covers, and under
which thread an entry is named: entries are indexed once, under the thread that wrote them,
also when forks share them. Invariants: a hit can be read under the thread it names; what
was not indexed in time is noted beside the hits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..contract import Progress, Span, Store, ThreadInfo
from ..index_tables import find_thread_number
from .indexer import Indexer
from .query import Hits, Search
from .reader import EntryReader
from .scan import scan_texts
from .scope import Scope, ScopeRange
from .tables import RunJob, complete_threads, forget_thread, indexed_threads
from .word_search import search_words

__all__ = ["MOST_AT_ONCE", "Searcher"]

MOST_AT_ONCE = 20_000
"""Entries that a search indexes before it answers; `catch_up` has no such bound."""


class Searcher:
    """Searches one index."""

    def __init__(self, read_index: RunJob, write_index: RunJob, store: Store) -> None:
        self._read_index, self._store = read_index, store
        self._indexer = Indexer(read_index, write_index, store)
        self._all_threads: _AllThreads | None = None

    async def search(self, query: Search, *, catch_up: bool) -> Hits:
        """Find what the query asks for, in the order of its mode."""
        coverage = self._coverage(query.threads, query.indexed_upto, afresh=catch_up)
        most = MOST_AT_ONCE if query.index_most is None else query.index_most
        left = await coverage.catch_up(most) if catch_up else 0
        scope = Scope(
            ranges=await coverage.ranges(),
            roles=query.roles,
            tools=query.tools,
            since=query.since,
            until=query.until,
        )
        reader = EntryReader(self._read_index, self._store, coverage.readable_thread)
        find = search_words if query.mode == "words" else scan_texts
        hits = await find(reader, query, scope)
        hits.left = left
        if left:
            unread = f"about {left:,} entries are not indexed yet; search again to go on"
            hits.note = "; ".join(filter(None, (hits.note, unread)))
        return hits

    async def catch_up(self, threads: Sequence[str] | None, progress: Progress | None) -> None:
        """Index all that is new in these threads, or everywhere."""
        named = None if threads is None else tuple(threads)
        await self._coverage(named).catch_up(progress=progress)

    def _coverage(
        self, threads: tuple[str, ...] | None, upto: int | None = None, *, afresh: bool = True
    ) -> _AllThreads | _SomeThreads:
        if threads is not None:
            return _SomeThreads(self._indexer, threads, upto)
        if afresh or self._all_threads is None:
            self._all_threads = _AllThreads(self._indexer)
        return self._all_threads


@dataclass(slots=True)
class _AllThreads:
    """All threads; an entry is named under its writer, or a fork that outlived the writer."""

    indexer: Indexer
    _heirs: dict[str, list[tuple[Span, str]]] = field(default_factory=dict, init=False)
    """For each deleted thread the spans that forks still share, and the forks."""
    _deleted: set[str] = field(default_factory=set, init=False)

    async def catch_up(self, most: int | None = None, *, progress: Progress | None = None) -> int:
        """Index what is new and forget what was deleted; return how many entries are left."""
        known = await self.indexer.read_index(indexed_threads)
        living = await self.indexer.store.threads()
        self._deleted = known.keys() - {info.id for info in living}
        if self._deleted:
            await self._find_heirs(living)
            await self._forget_unreachable(known)
        return await self.indexer.catch_up(living, most=most, progress=progress)

    async def _find_heirs(self, living: Iterable[ThreadInfo]) -> None:
        heirs: dict[str, list[tuple[Span, str]]] = defaultdict(list)
        for info in living:
            if info.parent is not None:
                for span in await self.indexer.store.lineage(info.id):
                    if span.thread in self._deleted:
                        heirs[span.thread].append((span, info.id))
        self._heirs = dict(heirs)

    async def _forget_unreachable(self, known: dict[str, int]) -> None:
        for thread in self._deleted:
            kept = max((span.last for span, _ in self._heirs.get(thread, ())), default=-1)
            if known[thread] > kept:
                await self.indexer.write_index(partial(forget_thread, thread=thread))

    async def ranges(self) -> None:
        """Return no restriction."""

    def readable_thread(self, writer: str, seq: int) -> str | None:
        """Return a thread under which an entry of `writer` can be read."""
        for span, heir in self._heirs.get(writer, ()):
            if span.first <= seq <= span.last:
                return heir
        return None if writer in self._deleted else writer


@dataclass(slots=True)
class _SomeThreads:
    """Some threads, each with the prefix it shares."""

    indexer: Indexer
    threads: Sequence[str]
    upto: int | None = None
    """Entries after this one need not be indexed; None for no such bound."""
    _spans: dict[str, list[tuple[Span, str]]] = field(default_factory=dict, init=False)

    async def catch_up(self, most: int | None = None, *, progress: Progress | None = None) -> int:
        """Index what is new in these threads; return how many entries are left."""
        if await self._is_up_to_date():
            return 0
        infos = [await self.indexer.store.info(thread) for thread in self.threads]
        return await self.indexer.catch_up(infos, most=most, progress=progress)

    async def _is_up_to_date(self) -> bool:
        """Return whether all that must be indexed is, whatever else was written since."""
        if self.upto is None:
            return False
        known, upto = await self.indexer.read_index(complete_threads), self.upto
        return all(known.get(thread, -1) >= upto for thread in self.threads)

    async def ranges(self) -> tuple[ScopeRange, ...]:
        """Return where the entries of these threads are."""
        spans: dict[str, list[tuple[Span, str]]] = defaultdict(list)
        cut: set[Span] = set()
        for thread in self.threads:
            lineage = await self.indexer.store.lineage(thread)
            cut.update(span for span in lineage if span.thread != thread)
            for span in lineage:
                spans[span.thread].append((span, thread))
        self._spans = dict(spans)
        numbers = await self.indexer.read_index(
            lambda db: {writer: find_thread_number(db, writer) for writer in spans}
        )
        return tuple(
            ScopeRange(numbers[writer], span.first, span.last, cut=span in cut)
            for writer, listed in spans.items()
            for span, _ in listed
        )

    def readable_thread(self, writer: str, seq: int) -> str | None:
        """Return the first of the threads that has this entry."""
        for span, thread in self._spans.get(writer, ()):
            if span.first <= seq and (span.thread == thread or seq <= span.last):
                return thread
        return None
