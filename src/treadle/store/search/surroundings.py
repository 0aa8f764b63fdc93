"""Surroundings: what stands around the candidates of a query, as far as the index knows.

Owns the scores of a turn's neighbourhood: the few turns around it, and the stretch of the
talk it belongs to. An answer often repeats none of the words of its question; they stand a
few turns before. Invariant: nothing is read but the index, and no more than a bounded
stretch around each candidate.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..rows import MAX_SEQ, row_id
from .scope import Scope

__all__ = ["IndexedTurn", "Lending", "Nearby", "find_nearby", "load_runs"]

_REACH = 16
"""Entries before and after a candidate that are looked at."""
_BLOCK = 8
"""Turns of a block; a turn's stretch is its block and the two beside it."""
_PAUSE = 3_600_000
"""Milliseconds of silence that end a stretch."""
_LENT_BEFORE = (1.0, 0.75, 0.4, 0.2)
"""What the turns before it lend to a turn, the nearest first …"""
_LENT_AFTER = (0.5, 0.3)
"""… and those after it: what a turn is about is more often said before."""
_LENT = (
    (0, 1.0),
    *((-distance, share) for distance, share in enumerate(_LENT_BEFORE, 1)),
    *((distance, share) for distance, share in enumerate(_LENT_AFTER, 1)),
)
_ALL_LENT = sum(share for _, share in _LENT) - 1.0
_SATURATION = 1.2


class IndexedTurn(NamedTuple):
    """A document of the index."""

    id: int
    number: int
    seq: int
    length: int
    time: int


class Lending(NamedTuple):
    """What each term of the query may lend, and how long a document usually is."""

    weights: Sequence[float]
    average_length: float


class Nearby(NamedTuple):
    """What the surroundings of a turn say about the query."""

    turn: IndexedTurn
    terms: int
    """One bit for each term that the turn itself is known to hold."""
    around: int
    """The same for the turns around it."""
    window: float
    stretch: float
    before: tuple[int, ...]
    """The turns just before it, the nearest first."""


def load_runs(
    connection: sqlite3.Connection, places: Iterable[tuple[int, int]], scope: Scope
) -> list[list[IndexedTurn]]:
    """Return the stretches of threads around these places, each in log order."""
    return [run for each in _merged(places) if (run := _load_run(connection, *each, scope))]


def _merged(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield the number of a thread and the first and last entry of each stretch of it."""
    threads: dict[int, list[int]] = defaultdict(list)
    for number, seq in places:
        threads[number].append(seq)
    for number, seqs in threads.items():
        seqs.sort()
        first = last = seqs[0]
        for seq in seqs:
            if seq - last > 2 * _REACH:
                yield number, first - _REACH, last + _REACH
                first = seq
            last = seq
        yield number, first - _REACH, last + _REACH


def _load_run(
    connection: sqlite3.Connection, number: int, first: int, last: int, scope: Scope
) -> list[IndexedTurn]:
    rows = connection.execute(
        "SELECT id, place, length, time FROM documents WHERE place BETWEEN ? AND ? ORDER BY place",
        (row_id(number, max(0, first)), row_id(number, min(last, MAX_SEQ))),
    )
    return [
        IndexedTurn(id_, number, place & MAX_SEQ, length, time)
        for id_, place, length, time in rows
        if scope.ranges is None or scope.contains(number, place & MAX_SEQ)
    ]


def find_nearby(
    run: Sequence[IndexedTurn], known: Mapping[int, int], lending: Lending
) -> list[Nearby]:
    """Return the turns of a run that hold terms, or stand near turns that do."""
    bits = [known.get(turn.id, 0) for turn in run]
    if not any(bits):
        return []
    scored = _ScoredRun(run, bits, {each: _terms_of(each) for each in set(bits)}, lending)
    stretches, found = scored.stretches(), list[Nearby]()
    for at in _near_holders(bits):
        around = _union(bits[max(0, at - len(_LENT_BEFORE)) : at + len(_LENT_AFTER) + 1])
        before = tuple(each.seq for each in run[max(0, at - 2) : at][::-1])
        found.append(Nearby(run[at], bits[at], around, scored.window(at), stretches[at], before))
    return found


def _near_holders(bits: Sequence[int]) -> list[int]:
    """Return the positions that hold terms, and those to which such positions lend."""
    reach = range(-len(_LENT_AFTER), len(_LENT_BEFORE) + 1)
    near = {at + offset for at, held in enumerate(bits) if held for offset in reach}
    return sorted(at for at in near if 0 <= at < len(bits))


def _union(bits: Iterable[int]) -> int:
    together = 0
    for each in bits:
        together |= each
    return together


def _terms_of(bits: int) -> tuple[int, ...]:
    return tuple(at for at in range(bits.bit_length()) if bits >> at & 1)


@dataclass(frozen=True, slots=True)
class _ScoredRun:
    """A run of turns, the terms they hold, and what these lend."""

    run: Sequence[IndexedTurn]
    bits: Sequence[int]
    terms: Mapping[int, Sequence[int]]
    lending: Lending

    def window(self, at: int) -> float:
        """Return the score of the few turns around a turn, as one text."""
        run, bits, terms = self.run, self.bits, self.terms
        average = self.lending.average_length
        lent: dict[int, float] = {}
        length = 0.0
        for offset, share in _LENT:
            other = at + offset
            if 0 <= other < len(run):
                words = run[other].length
                length += share * min(words, 4 * average)
                if held := terms[bits[other]]:
                    # That a word stands somewhere in a long text says little.
                    lends = share / (0.5 + 0.5 * max(1.0, words / average))
                    for term in held:
                        lent[term] = lent.get(term, 0.0) + lends
        return self._saturated(lent, length / (_ALL_LENT * average))

    def stretches(self) -> list[float]:
        """Return for each turn the score of the stretch of the talk around it."""
        scores = [0.0] * len(self.run)
        for first, last in _talks(self.run):
            starts = range(first, last, _BLOCK)
            blocks = [self._counts(range(start, min(start + _BLOCK, last))) for start in starts]
            for number, start in enumerate(starts):
                counts, length = dict[int, float](), 0
                for held, words in blocks[max(0, number - 1) : number + 2]:
                    length += words
                    for term, count in held.items():
                        counts[term] = counts.get(term, 0.0) + count
                usual = 3 * _BLOCK * self.lending.average_length
                end = min(start + _BLOCK, last)
                scores[start:end] = [self._saturated(counts, length / usual)] * (end - start)
        return scores

    def _counts(self, turns: range) -> tuple[Counter[int], int]:
        """Return in how many of the turns each term stands, and how long they are together."""
        counts = Counter(term for at in turns for term in self.terms[self.bits[at]])
        return counts, sum(self.run[at].length for at in turns)

    def _saturated(self, counts: Mapping[int, float], length: float) -> float:
        """Return bm25 of terms that occur so often in a text of this relative length."""
        norm, score = _SATURATION * (0.5 + 0.5 * length), 0.0
        for term, count in counts.items():
            score += self.lending.weights[term] * count / (count + norm)
        return score * (_SATURATION + 1)


def _talks(run: Sequence[IndexedTurn]) -> Iterator[tuple[int, int]]:
    """Yield the first position of each stretch without a pause, and the one after its last."""
    first = 0
    for at in range(1, len(run) + 1):
        if at == len(run) or run[at].time - run[at - 1].time > _PAUSE:
            yield first, at
            first = at
