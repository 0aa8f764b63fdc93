"""Scopes: which documents a search may find.

Owns how threads, roles, tools and times narrow a question. Threads, roles and tools
are terms of each document, so that the full-text table meets them by itself; only cuts
of forks and times are looked up. Invariant: what a scope leaves out is never a hit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..ancestry import MAX_SEQ
from ..rows import place
from .question import quoted
from .tables import mark

__all__ = ["ANYWHERE", "Scope", "Stretch", "matching"]

_FOREVER = 1 << 62


class Stretch(NamedTuple):
    """Entries `first` to `last` of the thread stored under `number`."""

    number: int
    first: int
    last: int
    cut: bool = False
    """Whether the thread goes on after `last` with what is not meant."""


class Scope(NamedTuple):
    """Where to look. None and empty leave everything in."""

    stretches: tuple[Stretch, ...] | None = None
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    low: int = 0
    """The first document that can be in it; `resolved` knows."""
    high: int = _FOREVER

    @property
    def size(self) -> int:
        """The most documents that can be in it."""
        if self.stretches is None:
            return _FOREVER
        return sum(each.last - each.first + 1 for each in self.stretches)

    @property
    def timed(self) -> bool:
        """Whether times matter."""
        return self.since is not None or self.until is not None

    @property
    def plain(self) -> bool:
        """Whether it is about threads only, not about who spoke and when."""
        return not (self.roles or self.tools or self.timed)

    def holds(self, number: int, seq: int) -> bool:
        """Whether an entry lies in its threads."""
        return self.stretches is None or any(
            number == each.number and each.first <= seq and (seq <= each.last or not each.cut)
            for each in self.stretches
        )

    def narrowed(self, expression: str) -> str:
        """The expression, with the terms that a document of this scope has."""
        return " AND ".join([f"({expression})", *self._marks()]) if expression else self.marks()

    def marks(self) -> str:
        """The terms alone; empty where there are none."""
        return " AND ".join(self._marks())

    def _marks(self) -> Iterator[str]:
        numbers = [] if self.stretches is None else sorted({each[0] for each in self.stretches})
        for kind, names in (("thread", numbers), ("role", self.roles), ("tool", self.tools)):
            if names:
                yield f"({' OR '.join(quoted(mark(kind, name)) for name in names)})"

    def resolved(self, connection: sqlite3.Connection) -> Scope:
        """The scope with the documents between which its times lie."""
        if not self.timed:
            return self
        low, high = connection.execute(
            "SELECT min(id), max(id) FROM documents WHERE time BETWEEN ? AND ?", self._times()
        ).fetchone()
        return self._replace(low=1, high=0) if low is None else self._replace(low=low, high=high)

    def conditions(self) -> tuple[str, list[int]]:
        """What a row `d` of documents must fulfil besides, and the values for it."""
        said: list[str] = []
        values: list[int] = []
        if self.timed:
            said.append("d.time BETWEEN ? AND ?")
            values += self._times()
        if any(each.cut for each in self.stretches or ()):
            parts = self.stretches or ()
            said.append(f"({' OR '.join(['d.place BETWEEN ? AND ?'] * len(parts))})")
            for number, first, last, cut in parts:
                values += (place(number, first), place(number, last if cut else MAX_SEQ))
        return " AND ".join(said), values

    def _times(self) -> tuple[int, int]:
        since = -_FOREVER if self.since is None else self.since
        return since, _FOREVER if self.until is None else self.until


ANYWHERE = Scope()
"""All documents."""


def matching(
    connection: sqlite3.Connection,
    expression: str,
    scope: Scope,
    *,
    newest: int | None = None,
    before: int = _FOREVER,
) -> list[int]:
    """The documents that match; with `newest` only so many, the latest first.

    An empty expression stands for all documents.
    """
    if scope.stretches == ():
        return []
    bounds = scope.low, min(scope.high, before - 1)
    match = scope.narrowed(expression)
    source, values = _source(match, scope)
    order = "" if newest is None else f"ORDER BY {source.key} DESC LIMIT {int(newest)}"
    rows = connection.execute(f"{source.select} {order}", (*source.match, *bounds, *values))
    return [at for (at,) in rows]


class _Source(NamedTuple):
    select: str
    key: str
    match: Sequence[str]


def _source(match: str, scope: Scope) -> tuple[_Source, list[int]]:
    """Where to select documents from, in which order of joining."""
    condition, values = scope.conditions()
    also = f" AND {condition}" if condition else ""
    if not match:
        select = f"SELECT d.id FROM documents d WHERE d.id BETWEEN ? AND ?{also}"
        return _Source(select, "d.id", ()), values
    # CROSS JOIN keeps the full-text table in front.
    joined = " CROSS JOIN documents d ON d.id = words.rowid" if condition else ""
    select = (
        f"SELECT words.rowid FROM words{joined} "
        f"WHERE words MATCH ? AND words.rowid BETWEEN ? AND ?{also}"
    )
    return _Source(select, "words.rowid", (match,)), values
