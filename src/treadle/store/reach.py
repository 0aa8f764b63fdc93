"""Reach: the threads that a search covers, and how their entries are named.

Owns the arithmetic of forks and deleted threads. Entries are indexed once, under the
thread that wrote them. Invariant: a name it gives can be opened, and the entry is there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from . import cursors
from .contract import Progress, Span, ThreadInfo
from .finding.scope import Stretch
from .indexer import Indexer

__all__ = ["Everywhere", "Within"]


@dataclass(slots=True)
class Everywhere:
    """All threads; an entry goes by its writer, or by a fork that outlived it."""

    indexer: Indexer
    _keepers: dict[str, list[tuple[Span, str]]] = field(default_factory=dict, init=False)
    _dead: set[str] = field(default_factory=set, init=False)

    async def prepare(self, most: int | None = None, *, progress: Progress | None = None) -> int:
        """Index what is new and forget what was deleted; how many entries are left."""
        known = await self.indexer.ask(cursors.everything)
        living = await self.indexer.store.threads()
        self._dead = known.keys() - {info.id for info in living}
        if self._dead:
            await self._find_keepers(living)
            await self._drop_unreachable(known)
        return await self.indexer.catch_up(living, most=most, progress=progress)

    async def _find_keepers(self, living: Iterable[ThreadInfo]) -> None:
        """Find the spans of dead threads that live on in forks."""
        keepers: dict[str, list[tuple[Span, str]]] = defaultdict(list)
        for info in living:
            if info.parent is not None:
                for span in await self.indexer.store.lineage(info.id):
                    if span.thread in self._dead:
                        keepers[span.thread].append((span, info.id))
        self._keepers = dict(keepers)

    async def _drop_unreachable(self, known: dict[str, int]) -> None:
        for thread in self._dead:
            kept = max((span.last for span, _ in self._keepers.get(thread, ())), default=-1)
            if known[thread] > kept:
                await self.indexer.change(partial(cursors.forget, thread=thread))

    async def stretches(self) -> None:
        """No bounds."""

    def name(self, writer: str, seq: int) -> str | None:
        """A thread under which an entry of `writer` can be read."""
        for span, keeper in self._keepers.get(writer, ()):
            if span.first <= seq <= span.last:
                return keeper
        return None if writer in self._dead else writer


@dataclass(slots=True)
class Within:
    """Some threads, each with the prefix it shares."""

    indexer: Indexer
    threads: Sequence[str]
    upto: int | None = None
    """What comes after this entry need not be indexed; None for all."""
    _spans: dict[str, list[tuple[Span, str]]] = field(default_factory=dict, init=False)

    async def prepare(self, most: int | None = None, *, progress: Progress | None = None) -> int:
        """Index what is new in these threads; how many entries are left."""
        if await self._is_known():
            return 0
        infos = [await self.indexer.store.info(thread) for thread in self.threads]
        return await self.indexer.catch_up(infos, most=most, progress=progress)

    async def _is_known(self) -> bool:
        """Whether all that must be indexed is, whatever else came since."""
        if self.upto is None:
            return False
        known, upto = await self.indexer.ask(cursors.completed), self.upto
        return all(known.get(thread, -1) >= upto for thread in self.threads)

    async def stretches(self) -> tuple[Stretch, ...]:
        """Where the entries of these threads are."""
        spans: dict[str, list[tuple[Span, str]]] = defaultdict(list)
        cut: set[Span] = set()
        for thread in self.threads:
            lineage = await self.indexer.store.lineage(thread)
            cut.update(span for span in lineage if span.thread != thread)
            for span in lineage:
                spans[span.thread].append((span, thread))
        self._spans = dict(spans)
        numbers = await self.indexer.ask(
            lambda db: {writer: cursors.number_of(db, writer) for writer in spans}
        )
        return tuple(
            Stretch(numbers[writer], span.first, span.last, cut=span in cut)
            for writer, listed in spans.items()
            for span, _ in listed
        )

    def name(self, writer: str, seq: int) -> str | None:
        """The first of the threads that has this entry."""
        for span, thread in self._spans.get(writer, ()):
            if span.first <= seq and (span.thread == thread or seq <= span.last):
                return thread
        return None
