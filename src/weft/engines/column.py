"""Columns: what is known of each row of a conversation, made where somebody looks.

Owns the sequences that an engine is given. Invariants: a column reads like the tuple it
stands for and never changes, although the view behind it grows; handing one on costs
nothing; and what is made of a row is its reader's own, so that nobody else sees it change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeVar, overload

__all__ = ["Column", "begins"]

T_co = TypeVar("T_co", covariant=True)


class Column(Sequence[T_co]):
    """One value for each row of a conversation, in order."""

    __slots__ = ("_count", "_made", "_make", "_more", "_positions")

    def __init__(
        self,
        positions: list[int],
        make: Callable[[int], T_co],
        count: int | None = None,
        more: tuple[T_co, ...] = (),
    ) -> None:
        self._positions = positions
        """Where the rows stand; others may append to it."""
        self._make = make
        self._count = len(positions) if count is None else count
        self._more = more
        self._made: tuple[T_co, ...] | None = None

    def __len__(self) -> int:
        return self._count + len(self._more)

    def __iter__(self) -> Iterator[T_co]:
        return iter(self._all())

    @overload
    def __getitem__(self, at: int) -> T_co: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T_co]: ...

    def __getitem__(self, at: int | slice) -> T_co | Sequence[T_co]:
        if isinstance(at, slice):
            return self._cut(range(len(self))[at])
        return self._at(range(len(self))[at])

    def __add__(self, other: Sequence[Any]) -> tuple[Any, ...]:
        return (*self._all(), *other)

    def __radd__(self, other: Sequence[Any]) -> tuple[Any, ...]:
        return (*other, *self._all())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Column | tuple):
            return NotImplemented
        return self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def begins(self, other: Column[Any]) -> bool:
        """Whether `other` is of the same view and shows these rows first. Reads none of them."""
        return (
            self._positions is other._positions
            and self._make is other._make
            and self._count <= other._count
            and not self._more
        )

    def _at(self, index: int) -> T_co:
        if self._made is not None:
            return self._made[index]
        if index < self._count:
            return self._make(self._positions[index])
        return self._more[index - self._count]

    def _cut(self, wanted: range) -> Sequence[T_co]:
        if wanted == range(len(self)):
            return self
        if wanted.step == 1 and wanted.start == 0 and wanted.stop <= self._count:
            return Column(self._positions, self._make, len(wanted))
        return tuple(map(self._at, wanted))

    def _all(self) -> tuple[T_co, ...]:
        if self._made is None:
            rows = islice(self._positions, self._count)
            self._made = tuple(chain(map(self._make, rows), self._more))
        return self._made


def begins(items: Sequence[T_co], earlier: Sequence[T_co]) -> bool:
    """Whether `items` begin with all of `earlier`; of one and the same view, at no cost."""
    if isinstance(items, Column) and isinstance(earlier, Column) and earlier.begins(items):
        return True
    return len(earlier) <= len(items) and tuple(items[: len(earlier)]) == tuple(earlier)
