"""Searching: from a question to what is found, with the index brought up to date first.

Owns how much is indexed before a search answers. Invariant: what was not indexed in time
is said beside the hits.
"""

from __future__ import annotations

from collections.abc import Sequence

from .contract import Hits, Progress, Search, Store
from .finding.finder import Finder
from .finding.scan import Scanner
from .finding.scope import Scope
from .indexer import Indexer, Run
from .reach import Everywhere, Within

__all__ = ["MOST_AT_ONCE", "Searching"]

MOST_AT_ONCE = 20_000
"""Entries that a search indexes before it answers; `catch_up` has no such bound."""


class Searching:
    """Searches of one index."""

    def __init__(self, ask: Run, change: Run, store: Store) -> None:
        self._ask, self._store = ask, store
        self._indexer = Indexer(ask, change, store)
        self._everywhere: Everywhere | None = None

    async def search(self, query: Search, *, catch_up: bool) -> Hits:
        """What the query asks for, in the order that its mode says."""
        searched = self._searched(query.threads, query.indexed, afresh=catch_up)
        left = await searched.prepare(MOST_AT_ONCE) if catch_up else 0
        scope = Scope(
            stretches=await searched.stretches(),
            roles=query.roles,
            tools=query.tools,
            since=query.since,
            until=query.until,
        )
        finder = Finder(self._ask, self._store, searched.name)
        hits = await (
            finder.find(query, scope)
            if query.mode == "words"
            else Scanner(finder).find(query, scope)
        )
        if left:
            unread = f"about {left:,} entries are not indexed yet; search again to go on"
            hits.note = "; ".join(filter(None, (hits.note, unread)))
        return hits

    async def catch_up(self, threads: Sequence[str] | None, progress: Progress | None) -> None:
        """Index all that is new in these threads, or everywhere."""
        named = None if threads is None else tuple(threads)
        await self._searched(named).prepare(progress=progress)

    def _searched(
        self, threads: tuple[str, ...] | None, upto: int | None = None, *, afresh: bool = True
    ) -> Everywhere | Within:
        if threads is not None:
            return Within(self._indexer, threads, upto)
        if afresh or self._everywhere is None:
            self._everywhere = Everywhere(self._indexer)
        return self._everywhere
