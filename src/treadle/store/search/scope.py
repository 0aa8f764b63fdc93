"""Scopes: which documents a search may find.

Owns how threads, roles, tools and times restrict a search. Threads, roles and tools are
terms of each document, so that the full-text table checks them by itself; only the cuts of
forks and times need a join. Invariant: a document outside the scope is never a hit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from ..rows import MAX_SEQ, row_id
from .tables import label_term
from .terms import quote_term

__all__ = ["Scope", "ScopeRange", "match_documents"]

_FOREVER = 1 << 62


class ScopeRange(NamedTuple):
    """Entries `first` to `last` of the thread stored under `number`."""

    number: int
    first: int
    last: int
    cut: bool = False
    """Whether entries of the thread after `last` are outside the range."""


class Scope(NamedTuple):
    """Where to look. None and empty mean no restriction."""

    ranges: tuple[ScopeRange, ...] | None = None
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    low: int = 0
    """The first document that can be in scope; `with_bounds` finds it."""
    high: int = _FOREVER

    @property
    def size(self) -> int:
        """The most documents that can be in scope."""
        if self.ranges is None:
            return _FOREVER
        return sum(each.last - each.first + 1 for each in self.ranges)

    @property
    def has_times(self) -> bool:
        """Whether it restricts times."""
        return self.since is not None or self.until is not None

    @property
    def is_threads_only(self) -> bool:
        """Whether it restricts nothing but threads."""
        return not (self.roles or self.tools or self.has_times)

    def contains(self, number: int, seq: int) -> bool:
        """Return whether an entry lies in its threads."""
        return self.ranges is None or any(
            number == each.number and each.first <= seq and (seq <= each.last or not each.cut)
            for each in self.ranges
        )

    def restrict(self, expression: str) -> str:
        """Add the labels of this scope to a full-text expression, which may be empty."""
        return " AND ".join(filter(None, (expression and f"({expression})", *self._labels())))

    def _labels(self) -> Iterator[str]:
        numbers = [] if self.ranges is None else sorted({each.number for each in self.ranges})
        for kind, names in (("thread", numbers), ("role", self.roles), ("tool", self.tools)):
            if names:
                yield f"({' OR '.join(quote_term(label_term(kind, name)) for name in names)})"

    def with_bounds(self, connection: sqlite3.Connection) -> Scope:
        """Return the scope with the first and last document of its times."""
        if not self.has_times:
            return self
        low, high = connection.execute(
            "SELECT min(id), max(id) FROM documents WHERE time BETWEEN ? AND ?", self._times()
        ).fetchone()
        return self._replace(low=1, high=0) if low is None else self._replace(low=low, high=high)

    def conditions(self) -> tuple[str, list[int]]:
        """Return the SQL condition on a row `d` of documents, and its values."""
        clauses: list[str] = []
        values: list[int] = []
        if self.has_times:
            clauses.append("d.time BETWEEN ? AND ?")
            values += self._times()
        ranges = self.ranges or ()
        if any(each.cut for each in ranges):
            clauses.append(f"({' OR '.join(['d.place BETWEEN ? AND ?'] * len(ranges))})")
            for number, first, last, cut in ranges:
                values += (row_id(number, first), row_id(number, last if cut else MAX_SEQ))
        return " AND ".join(clauses), values

    def _times(self) -> tuple[int, int]:
        since = -_FOREVER if self.since is None else self.since
        return since, _FOREVER if self.until is None else self.until


def match_documents(
    connection: sqlite3.Connection,
    expression: str,
    scope: Scope,
    *,
    newest: int | None = None,
    before: int = _FOREVER,
) -> list[int]:
    """Return the documents that match; with `newest` only so many, the latest first.

    An empty expression matches all documents.
    """
    if scope.ranges == ():
        return []
    match = scope.restrict(expression)
    condition, values = scope.conditions()
    also = f" AND {condition}" if condition else ""
    if match:
        # CROSS JOIN makes SQLite read the full-text table first.
        join = " CROSS JOIN documents d ON d.id = words.rowid" if condition else ""
        key, source = "words.rowid", f"words{join} WHERE words MATCH ? AND"
    else:
        key, source = "d.id", "documents d WHERE"
    order = "" if newest is None else f" ORDER BY {key} DESC LIMIT {int(newest)}"
    rows = connection.execute(
        f"SELECT {key} FROM {source} {key} BETWEEN ? AND ?{also}{order}",
        (*([match] if match else []), scope.low, min(scope.high, before - 1), *values),
    )
    return [document for (document,) in rows]
