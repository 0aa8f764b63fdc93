"""Scope totals: how much text a scope holds, and in how many of its documents a term stands.

Owns what "rare" means: a word is weighed by the threads that are asked, never by what else
is in the home. Invariant: the work is bounded; what is too much to count is estimated from
the newest documents.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from ..rows import MAX_SEQ, row_id
from .scope import Scope, ScopeRange
from .tables import read_totals

__all__ = ["MOST_COUNTED", "ScopeTotals", "count_documents", "measure_scope"]

MOST_COUNTED = 100_000
"""More occurrences than this are not counted."""
_SAMPLE = 1_000
"""Documents of a thread whose lengths are read."""
_SAMPLED_THREADS = 12
"""Threads whose documents are read; the others are taken to be like them."""


class ScopeTotals(NamedTuple):
    """How many documents a scope has, and their average number of words."""

    documents: int
    average_length: float


def measure_scope(connection: sqlite3.Connection, scope: Scope) -> ScopeTotals:
    """Return the totals of a scope's threads; exact for the home and for short threads."""
    if scope.ranges is None:
        totals = read_totals(connection)
        return ScopeTotals(totals.documents, totals.average_length)
    entries = found = span = length = 0
    for each in scope.ranges:
        entries += each.last - each.first + 1
    for each in _spread(scope.ranges):
        count, oldest, words = _measure_newest(connection, each)
        span += each.last - (oldest if count == _SAMPLE else each.first) + 1
        found += count
        length += words
    documents = round(found * max(1.0, entries / span)) if span > 0 else 0
    return ScopeTotals(max(1, documents), length / found if length else 1.0)


def _spread(ranges: Sequence[ScopeRange]) -> Sequence[ScopeRange]:
    """Return some of the ranges, spread over all of them."""
    step = max(1, len(ranges) // _SAMPLED_THREADS)
    return ranges[::step][:_SAMPLED_THREADS]


def _measure_newest(connection: sqlite3.Connection, where: ScopeRange) -> tuple[int, int, int]:
    """Return how many of the newest documents of a range were read, the oldest, their length."""
    last = where.last if where.cut else MAX_SEQ
    count, oldest, length = connection.execute(
        "SELECT count(*), coalesce(min(place), 0), coalesce(sum(length), 0) FROM ("
        "SELECT place, length FROM documents WHERE place BETWEEN ? AND ?"
        " ORDER BY place DESC LIMIT ?)",
        (row_id(where.number, where.first), row_id(where.number, last), _SAMPLE),
    ).fetchone()
    return count, oldest & MAX_SEQ, length


def count_documents(connection: sqlite3.Connection, match: str, scope: Scope, most: int) -> int:
    """Return in how many documents of a scope's threads an expression matches, at most `most`."""
    if scope.ranges == ():
        return 0
    (documents,) = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)",
        (Scope(ranges=scope.ranges).restrict(match), most),
    ).fetchone()
    return int(documents)
