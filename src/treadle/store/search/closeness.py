"""Closeness: which texts of a scope mean what a question means, as far as vectors tell.

Owns how vectors are compared: roughly with all that are looked at, exactly with the best of
them and with what words found. Closeness is told against what is usual in the scope, in
standard deviations, so that it means the same in every home. Invariant: no more than
`MOST_COMPARED` vectors are looked at, the newest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..rows import MAX_SEQ, row_id
from .scope import Scope
from .vector_model import CODE_BYTES
from .vectors import VectorBlock, find_blocks, newest_blocks

__all__ = ["MOST_COMPARED", "Closeness", "Floats"]

MOST_COMPARED = 250_000
_MOST_THREADS = 500
"""Threads that may be named in a query of the database; of more the newest are taken."""
_FEWEST = 16
"""With fewer vectors nobody can tell what is usual."""
_SAMPLE = 2_048
_FINALISTS = 4
"""How many times the places that are asked for are compared exactly."""

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"
_Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
_Places: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

_SIGNS: Floats = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) * np.float32(2) - 1
"""What the bits of each byte stand for."""


class Closeness:
    """How close the texts of a scope are to a question."""

    def __init__(self, connection: sqlite3.Connection, question: Floats, scope: Scope) -> None:
        self._connection, self._scope = connection, scope
        self._table = question.reshape(CODE_BYTES, 8) @ _SIGNS.T
        self._question = np.packbits(question > 0)
        self._places, self._codes = _load(connection, scope)
        step = max(1, len(self._places) // _SAMPLE)
        usual = self._compare(self._codes[::step])
        self._tells = len(usual) >= _FEWEST
        self._mean = float(usual.mean()) if self._tells else 0.0
        self._deviation = float(usual.std()) or 1.0 if self._tells else 1.0

    def best(self, most: int) -> dict[tuple[int, int], float]:
        """Return the closest places by number and entry, and how close they are."""
        if not self._tells:
            return {}
        differing = np.bitwise_count(
            self._codes.view(np.uint64) ^ self._question.view(np.uint64)
        ).sum(axis=1, dtype=np.uint16)
        count = min(most * _FINALISTS, len(differing))
        rough = np.argpartition(differing, count - 1)[:count]
        found = self._by_place(self._places[rough], self._codes[rough])
        kept = sorted(found, key=lambda place: -found[place])[:most]
        return {place: found[place] for place in kept}

    def of(self, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], float]:
        """Return how close these places are; those without a vector are left out."""
        if not self._tells:
            return {}
        wanted = [(number, row_id(number, seq)) for number, seq in places]
        blocks = list(find_blocks(self._connection, wanted))
        if not blocks:
            return {}
        kept, codes = _joined(blocks)
        among = np.isin(kept, np.array([place for _, place in wanted], dtype=np.int64))
        return self._by_place(kept[among], codes[among])

    def _by_place(self, places: _Places, codes: _Bytes) -> dict[tuple[int, int], float]:
        """Return the best closeness of each place: a long text has several vectors."""
        found: dict[tuple[int, int], float] = {}
        against = (self._compare(codes) - self._mean) / self._deviation
        for place, close in zip(places.tolist(), against.tolist(), strict=True):
            key = place >> 32, place & MAX_SEQ
            if close > found.get(key, 0.0) and self._scope.contains(*key):
                found[key] = close
        return found

    def _compare(self, codes: _Bytes) -> Floats:
        """Return the product of the question with each vector."""
        products: Floats = self._table[np.arange(CODE_BYTES), codes].sum(axis=1)
        return products


def _load(connection: sqlite3.Connection, scope: Scope) -> tuple[_Places, _Bytes]:
    numbers: Iterable[int] | None = None
    if scope.ranges is not None:
        numbers = sorted({each.number for each in scope.ranges})[-_MOST_THREADS:]
    return _joined(list(newest_blocks(connection, numbers, MOST_COMPARED)))


def _joined(blocks: Sequence[VectorBlock]) -> tuple[_Places, _Bytes]:
    places = np.frombuffer(b"".join(each.places for each in blocks), dtype=np.int64)
    codes = np.frombuffer(b"".join(each.codes for each in blocks), dtype=np.uint8)
    return places, codes.reshape(-1, CODE_BYTES)
