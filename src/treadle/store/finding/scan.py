"""Scans: text as it stands, and regular expressions, newest first.

Owns how far such a search goes. The index leaves only documents that hold the literal
parts; the texts of those are read until enough was found or the work is spent.
Invariant: a search that did not look at everything says so.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..hits import Hit, Hits, Search
from .automaton import Automaton, Work, WorkSpent
from .candidates import Candidate, Place, located
from .excerpt import excerpt_at
from .finder import Finder, Said
from .literals import literals_of, required
from .pattern import parsed
from .scope import Scope, matching
from .terms import fold

__all__ = ["Scanner"]

_BATCH = 200
_MOST_ROWS = 20_000
"""Entries that one search may read."""
_MOST_WORK = 10_000_000
"""Characters that one search may look at."""
_END = 1 << 62


class _Wanted(NamedTuple):
    """What a text must hold: its literal parts, and a test that tells where."""

    literals: Sequence[str]
    where: Callable[[str, Work], int | None]


@dataclass(slots=True)
class Scanner:
    """Answers searches for substrings and regular expressions."""

    finder: Finder
    _work: Work = field(default_factory=lambda: Work(_MOST_WORK), init=False)

    async def find(self, query: Search, scope: Scope) -> Hits:
        """What matches, newest first. Raises `SearchRefused`."""
        wanted = _regex(query.text) if query.mode == "regex" else _substring(query.text)
        if not query.text:
            return Hits()
        expression, scope = await self.finder.ask(
            lambda db: (required(db, wanted.literals), scope.resolved(db))
        )
        if expression is None:
            return Hits()
        found: dict[Place, tuple[Said, int]] = {}
        note = await self._scan(expression, scope, wanted, query.limit, found)
        around = await self.finder.around([*found], query.neighbours, scope)
        return Hits(_hits(found, around), note)

    async def _scan(
        self,
        expression: str,
        scope: Scope,
        wanted: _Wanted,
        limit: int,
        found: dict[Place, tuple[Said, int]],
    ) -> str:
        """Fill `found`; the answer says why it ended early."""
        before, rows = _END, 0
        while len(found) < limit and rows < _MOST_ROWS:
            ids, docs = await self.finder.ask(_batch(expression, scope, before))
            if not ids:
                return ""
            before, rows = ids[-1], rows + len(ids)
            said = await self.finder.read([doc.place for doc in docs])
            try:
                await asyncio.to_thread(self._look, said, wanted, limit, found)
            except WorkSpent:
                break
        return "" if len(found) >= limit else _ended(rows)

    def _look(
        self,
        said: dict[Place, Said],
        wanted: _Wanted,
        limit: int,
        found: dict[Place, tuple[Said, int]],
    ) -> None:
        for place, each in said.items():
            if len(found) < limit and (at := wanted.where(each.text, self._work)) is not None:
                found[place] = each, at


def _batch(
    expression: str, scope: Scope, before: int
) -> Callable[[sqlite3.Connection], tuple[list[int], list[Candidate]]]:
    def look(db: sqlite3.Connection) -> tuple[list[int], list[Candidate]]:
        ids = matching(db, expression, scope, newest=_BATCH, before=before)
        return ids, located(db, ids)

    return look


def _hits(found: dict[Place, tuple[Said, int]], around: dict[Place, list[int]]) -> list[Hit]:
    return [
        each.hit(1 / rank, excerpt_at(each.text, at), around.get(place, ()))
        for rank, (place, (each, at)) in enumerate(found.items(), 1)
    ]


def _ended(rows: int) -> str:
    return (
        f"only the newest {rows:,} entries that could match were looked at; "
        "narrow the search by thread, role or time, or give it a longer plain text"
    )


def _substring(text: str) -> _Wanted:
    needle = fold(text)

    def where(said: str, work: Work) -> int | None:
        work.spend(len(said) // 10)
        at = fold(said).find(needle)
        return None if at < 0 else at

    return _Wanted([text], where)


def _regex(text: str) -> _Wanted:
    pattern = parsed(text)
    automaton, literals = Automaton(pattern), literals_of(pattern.tree)
    plain = [] if pattern.ignores_case else literals

    def where(said: str, work: Work) -> int | None:
        work.spend(len(said) // 10)
        if any(literal not in said for literal in plain):
            return None
        return automaton.search(said, work)

    return _Wanted(literals, where)
