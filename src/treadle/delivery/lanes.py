"""Lanes: the replies that wait for one channel, in the order in which they were said.

Invariant: only the first of a lane is ever due; those behind it wait with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..store.contract import OutboxRow
from .outbox import Owed, OwedTurn, read_row

__all__ = ["Lane", "Sorted", "sort_rows"]


class Lane(Struct, frozen=True):
    """What one channel is owed by one thread."""

    channel: str
    owed: tuple[tuple[OutboxRow, Owed], ...]

    @property
    def first(self) -> OutboxRow:
        """The row whose turn it is."""
        return self.owed[0][0]


class Sorted(Struct, frozen=True):
    """The rows of a thread by what is to be done with them."""

    lanes: tuple[Lane, ...]
    turns: tuple[tuple[OutboxRow, OwedTurn], ...]
    """Turns whose replies are not known yet."""
    unreadable: tuple[OutboxRow, ...]


def sort_rows(rows: Sequence[OutboxRow]) -> Sorted:
    """The rows that wait, without those put aside."""
    waiting = [(row, read_row(row)) for row in rows if row.state != "blocked"]
    replies = [(row, owed) for row, owed in waiting if isinstance(owed, Owed)]
    # A turn's rows may be younger than those of the turn after it.
    replies.sort(key=lambda each: (each[1].turn, each[1].position))
    names = dict.fromkeys(owed.channel for _, owed in replies)
    return Sorted(
        tuple(
            Lane(name, tuple(each for each in replies if each[1].channel == name)) for name in names
        ),
        tuple((row, owed) for row, owed in waiting if isinstance(owed, OwedTurn)),
        tuple(row for row, owed in waiting if owed is None),
    )
