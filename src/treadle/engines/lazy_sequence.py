"""Lazy sequences: one value for each row of a conversation, made when somebody reads it.

Owns the sequences that an engine is given. Invariants: one reads like the tuple it stands for
and never changes, although the view behind it grows; handing it on costs nothing; and a value
belongs to its reader, so that nobody else sees it change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar, overload

__all__ = ["LazySequence", "starts_with"]

T_co = TypeVar("T_co", covariant=True)


class _Cache(Generic[T_co]):
    """The values of the first rows. Replaced whole: its readers may be threads."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: tuple[T_co, ...] = ()


class LazySequence(Sequence[T_co]):
    """One value for each row of a conversation, in order."""

    __slots__ = ("_cache", "_count", "_make", "_more", "_positions", "_whole")

    def __init__(
        self,
        positions: list[int],
        make: Callable[[int], T_co],
        count: int | None = None,
        more: tuple[T_co, ...] = (),
        cache: _Cache[T_co] | None = None,
    ) -> None:
        self._positions = positions
        """The positions of the rows; others may append to it."""
        self._make = make
        self._count = len(positions) if count is None else count
        self._more = more
        self._cache: _Cache[T_co] = _Cache() if cache is None else cache
        """Shared with the sequences that its reader cuts from this one."""
        self._whole: tuple[T_co, ...] | None = None

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
        if not isinstance(other, LazySequence | tuple):
            return NotImplemented
        return self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def is_prefix_of(self, other: LazySequence[Any]) -> bool:
        """Whether `other` is of the same view and has these rows first. Reads none of them."""
        return (
            self._positions is other._positions
            and self._make is other._make
            and self._count <= other._count
            and not self._more
        )

    def _at(self, index: int) -> T_co:
        if index >= self._count:
            return self._more[index - self._count]
        if index < len(made := self._cache.values):
            return made[index]
        return self._make(self._positions[index])

    def _cut(self, wanted: range) -> Sequence[T_co]:
        if wanted == range(len(self)):
            return self
        if wanted.step == 1 and wanted.start == 0 and wanted.stop <= self._count:
            return LazySequence(self._positions, self._make, len(wanted), cache=self._cache)
        return tuple(map(self._at, wanted))

    def _all(self) -> tuple[T_co, ...]:
        if self._whole is None:
            made = self._cache.values
            if len(made) < self._count:
                missing = islice(self._positions, len(made), self._count)
                self._cache.values = made = (*made, *map(self._make, missing))
            self._whole = (*made[: self._count], *self._more)
        return self._whole


def starts_with(items: Sequence[T_co], earlier: Sequence[T_co]) -> bool:
    """Whether `items` begin with all of `earlier`; within one view, without reading them."""
    if (
        isinstance(items, LazySequence)
        and isinstance(earlier, LazySequence)
        and earlier.is_prefix_of(items)
    ):
        return True
    return len(earlier) <= len(items) and tuple(items[: len(earlier)]) == tuple(earlier)
