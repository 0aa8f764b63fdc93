"""Which threads' rows make up a thread's log.

Owns the arithmetic of forks. A fork holds only what came after its cut; the rest
is read from its ancestors. Invariant: row ranges are disjoint, ordered, and cover
the log from the first entry on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

__all__ = ["MAX_SEQ", "Link", "RowRange", "clip_ranges", "row_ranges"]

MAX_SEQ = (1 << 32) - 1
"""The highest sequence or turn number a thread can reach."""


class Link(Struct, frozen=True):
    """A thread's place in its family."""

    number: int
    id: str
    parent: int | None
    cut: int
    turn_cut: int


class RowRange(Struct, frozen=True):
    """The rows of one thread that belong to a log; bounds are included."""

    number: int
    id: str
    first: int
    last: int
    first_turn: int
    last_turn: int


def row_ranges(line: Iterable[Link]) -> list[RowRange]:
    """Return the row ranges of the first thread of `line`, oldest first.

    `line` goes from that thread over its parent up to the root. A cut inside a
    prefix that the parent itself shares reaches through to the grandparent.
    """
    found: list[RowRange] = []
    seq = turn = MAX_SEQ
    for link in line:
        found.append(RowRange(link.number, link.id, link.cut + 1, seq, link.turn_cut + 1, turn))
        seq, turn = min(seq, link.cut), min(turn, link.turn_cut)
    found.reverse()
    return [s for s in found if s.first <= s.last or s.first_turn <= s.last_turn]


def clip_ranges(ranges: Iterable[RowRange], first: int, last: int | None) -> Iterator[RowRange]:
    """Yield the parts of the ranges that hold entries `first` to `last`."""
    end = MAX_SEQ if last is None else last
    for part in ranges:
        low, high = max(part.first, first), min(part.last, end)
        if low <= high:
            yield replace(part, first=low, last=high)
