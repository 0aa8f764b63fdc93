"""The finder: from a search to its hits.

Owns the way there: the index names candidates, the log has their texts, and only what
is shown is cut to a snippet. Invariant: every hit can be read under the thread it names.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from ...core.entries import Entry
from ...core.errors import NotFound
from ..contract import Store
from ..hits import Hit, Hits, Search
from .candidates import Gathered, Place, beside, gather
from .excerpt import excerpt
from .question import Question, question_of
from .ranking import Reading, Scored, Weight, needle_pattern, ranked, weigh
from .scope import Scope
from .spoken import spoken

__all__ = ["Ask", "Finder", "Name", "Said"]

T = TypeVar("T")

Name: TypeAlias = Callable[[str, int], str | None]
"""The thread under which an entry of a writer can be read; None for none."""

_READ = 60
"""Candidates whose text is read, at least."""
_ECHOING = 3
"""A question of so many words also finds what stands beside them."""


class Ask(Protocol):
    """Puts a question to the index."""

    def __call__(self, job: Callable[[sqlite3.Connection], T], /) -> Awaitable[T]:
        """The answer of `job`, from one snapshot."""
        ...


class Said(NamedTuple):
    """An entry, the thread it can be read under, and what it says."""

    thread: str
    entry: Entry
    text: str
    role: str

    def hit(self, score: float, snippet: str, neighbours: Iterable[int] = ()) -> Hit:
        """The entry as a hit."""
        return Hit(
            thread=self.thread,
            seq=self.entry.seq,
            score=round(score, 4),
            snippet=snippet,
            time=self.entry.time,
            role=self.role,
            turn=self.entry.turn,
            source_id=self.entry.source_id,
            neighbours=tuple(neighbours),
        )


@dataclass(frozen=True, slots=True)
class Finder:
    """Answers searches for words, and reads what was found."""

    ask: Ask
    store: Store
    name: Name

    async def find(self, query: Search, scope: Scope) -> Hits:
        """What holds the words of `query`, best first."""
        question = question_of(query.text)
        if not question.terms:
            return Hits()
        most = max(_READ, query.limit + query.limit // 2)
        gathered = await self.ask(lambda db: gather(db, question, scope, most, query))
        if not gathered.candidates:
            return Hits()
        said = await self.read([doc.place for doc in gathered.candidates])
        weights = await asyncio.to_thread(_weights, question, gathered, said)
        around = await self.around([*weights], 1, scope)
        echo = question.words >= _ECHOING and not query.every and scope.plain
        order = ranked(gathered.terms, weights, around, echo=echo)[: query.limit]
        said |= await self.read([each.place for each in order if each.place not in said])
        return Hits(await self._hits(order, said, gathered, query.neighbours, scope))

    async def _hits(
        self,
        order: Sequence[Scored],
        said: dict[Place, Said],
        gathered: Gathered,
        reach: int,
        scope: Scope,
    ) -> list[Hit]:
        around = await self.around([each.place for each in order], reach, scope)
        patterns = [needle_pattern(each.term.needle) for each in gathered.terms]
        return [
            said[place].hit(score, excerpt(said[place].text, patterns), around.get(place, ()))
            for place, score in order
            if place in said
        ]

    async def read(self, places: Sequence[Place]) -> dict[Place, Said]:
        """The entries at these places, in this order, as far as they can be read."""
        names = await self.ask(lambda db: _names(db, {place.number for place in places}))
        wanted: dict[str, dict[int, Place]] = defaultdict(dict)
        for place in places:
            thread = self.name(names.get(place.number, ""), place.seq)
            if thread is not None:
                wanted[thread][place.seq] = place
        read = await asyncio.gather(*map(self._entries, wanted, wanted.values()))
        found: dict[Place, Said] = {}
        for (thread, asked), entries in zip(wanted.items(), read, strict=True):
            for entry in entries:
                what = spoken(entry)
                found[asked[entry.seq]] = Said(thread, entry, what.text, what.role)
        return {place: found[place] for place in places if place in found}

    async def _entries(self, thread: str, wanted: Iterable[int]) -> list[Entry]:
        try:
            return await self.store.read_ranges(thread, [(seq, seq) for seq in sorted(wanted)])
        except NotFound:  # deleted meanwhile
            return []

    async def around(
        self, places: Sequence[Place], reach: int, scope: Scope
    ) -> dict[Place, list[int]]:
        """The entries beside these that say something and are in the scope."""
        if not reach:
            return {}

        def look(db: sqlite3.Connection) -> dict[Place, list[int]]:
            found = {place: beside(db, place, reach) for place in places}
            return {
                place: [seq for seq in seqs if scope.holds(place.number, seq)]
                for place, seqs in found.items()
            }

        return await self.ask(look)


def _weights(
    question: Question, gathered: Gathered, said: dict[Place, Said]
) -> dict[Place, Weight]:
    readings = {
        doc.place: Reading(said[doc.place].text, doc.length, doc.known)
        for doc in gathered.candidates
        if doc.place in said
    }
    weights = weigh(question, gathered.terms, gathered.average, [*readings.values()])
    return dict(zip(readings, weights, strict=True))


def _names(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    """The threads behind these numbers."""
    found = (
        connection.execute("SELECT number, id FROM threads WHERE number = ?", (number,)).fetchone()
        for number in numbers
    )
    return dict(filter(None, found))
