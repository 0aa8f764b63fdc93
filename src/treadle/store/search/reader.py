"""Reading hits: from places in the index to entries, their neighbours and snippets.

Owns how found entries are read from the log, and how a snippet is cut. Invariants: every
hit can be read under the thread it names; a snippet is one line.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ...core.entries import Entry
from ...core.errors import NotFound
from ..contract import Store
from .candidates import WordPlace, neighbour_seqs
from .documents import entry_text
from .passages import find_needle
from .query import Hit, HitReasons
from .scope import Scope
from .tables import RunJob
from .terms import fold

__all__ = ["SNIPPET_WIDTH", "EntryReader", "FoundEntry", "best_snippet", "snippet_at"]

ReadableThread: TypeAlias = Callable[[str, int], str | None]
"""Returns the thread under which an entry of a writer can be read; None for no thread."""

SNIPPET_WIDTH = 200
"""Characters of a text that are shown."""

_MOST_CHARACTERS = 200_000
_MOST_PLACES = 40
"""How many places of each pattern are compared with others."""
_SPACE = re.compile(r"\s+")


class FoundEntry(NamedTuple):
    """An entry, the thread it can be read under, and its text."""

    thread: str
    entry: Entry
    text: str
    role: str

    def hit(
        self,
        score: float,
        snippet: str,
        neighbours: Iterable[int] = (),
        why: HitReasons | None = None,
    ) -> Hit:
        """Return the entry as a hit."""
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
            why=why,
        )


@dataclass(frozen=True, slots=True)
class EntryReader:
    """Reads found entries from the log and finds their neighbours in the index."""

    read_index: RunJob
    store: Store
    readable_thread: ReadableThread

    async def read(self, places: Sequence[WordPlace]) -> dict[WordPlace, FoundEntry]:
        """Read the entries at these places, in this order; leave out what was deleted."""
        writers = await self.read_index(lambda db: _writers(db, {each.number for each in places}))
        wanted: dict[str, dict[int, WordPlace]] = defaultdict(dict)
        for place in places:
            thread = self.readable_thread(writers.get(place.number, ""), place.seq)
            if thread is not None:
                wanted[thread][place.seq] = place
        read = await asyncio.gather(*map(self._entries, wanted, wanted.values()))
        found: dict[WordPlace, FoundEntry] = {}
        for (thread, by_seq), entries in zip(wanted.items(), read, strict=True):
            for entry in entries:
                text = entry_text(entry)
                found[by_seq[entry.seq]] = FoundEntry(thread, entry, text.text, text.role)
        return {place: found[place] for place in places if place in found}

    async def _entries(self, thread: str, wanted: Iterable[int]) -> list[Entry]:
        try:
            return await self.store.read_ranges(thread, [(seq, seq) for seq in sorted(wanted)])
        except NotFound:  # deleted meanwhile
            return []

    async def neighbours(
        self, places: Sequence[WordPlace], distance: int, scope: Scope
    ) -> dict[WordPlace, list[int]]:
        """Return the entries with text around each place that are in the scope's threads."""
        if not distance:
            return {}

        def look_up(db: sqlite3.Connection) -> dict[WordPlace, list[int]]:
            found = {place: neighbour_seqs(db, place, distance) for place in places}
            return {
                place: [seq for seq in seqs if scope.contains(place.number, seq)]
                for place, seqs in found.items()
            }

        return await self.read_index(look_up)


def _writers(connection: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, str]:
    """Return the thread ids of these numbers."""
    found = (
        connection.execute("SELECT number, id FROM threads WHERE number = ?", (number,)).fetchone()
        for number in numbers
    )
    return dict(filter(None, found))


def best_snippet(text: str, needles: Sequence[str], width: int = SNIPPET_WIDTH) -> str:
    """Return the piece of `text` in which most of the needles begin words."""
    folded = fold(text[:_MOST_CHARACTERS])
    places = sorted(
        (place, at)
        for at, needle in enumerate(needles)
        for place in find_needle(folded, needle, _MOST_PLACES)
    )
    reach = width * 3 // 4
    best, start = 0, places[0][0] if places else 0
    for place, _ in places:
        distinct = len({at for other, at in places if place <= other < place + reach})
        if distinct > best:
            best, start = distinct, place
    # Folding can change lengths; the place is then near enough.
    return snippet_at(text, start * len(text[:_MOST_CHARACTERS]) // max(len(folded), 1), width)


def snippet_at(text: str, place: int, width: int = SNIPPET_WIDTH) -> str:
    """Return the piece of `text` around a place, on one line, cut between words."""
    first = max(0, place - width // 4)
    if len(text) <= width + width // 4:
        first = 0
    last = first + width + (width // 4 if first == 0 else 0)
    piece = text[first:last]
    if first:
        space = _SPACE.search(piece, 0, width // 8)
        piece = "…" + (piece[space.end() :] if space else piece)
    if last < len(text):
        shorter, found, _ = piece.rpartition(" ")
        fits = found and len(shorter) > len(piece) - width // 8
        piece = (shorter if fits else piece) + "…"
    return _SPACE.sub(" ", piece).strip()
