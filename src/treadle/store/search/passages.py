"""Passages: the part of a text that answers a query best.

Owns where a term is found in a folded text, and the stretch in which the terms that weigh
most stand together. Invariant: a passage of a short text is the whole of it, and one of a
long text is never longer than `PASSAGE_CHARS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["PASSAGE_CHARS", "PASSAGE_WORDS", "Passage", "best_passage", "find_needle"]

PASSAGE_CHARS = 480
PASSAGE_WORDS = 80
"""About how many words that is."""
_MOST_PLACES = 40
"""How many places of each term are compared with others."""
_NEAR = 32
"""Characters between the beginnings of two words that belong together."""
_LEAD = 60
"""Characters of a passage before its first term."""


class Passage(NamedTuple):
    """A stretch of a folded text, and how often each term stands in it."""

    start: int
    end: int
    counts: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    """Where each term stands in it."""

    def are_near(self, one: int, other: int) -> bool:
        """Return whether two terms stand close together."""
        return any(
            abs(a - b) <= _NEAR for a in self.places[one] for b in self.places[other] if a != b
        )


def find_needle(folded: str, needle: str, most: int = _MOST_PLACES) -> list[int]:
    """Return where `needle` begins a word of a folded text."""
    found: list[int] = []
    at = folded.find(needle) if needle else -1
    while at >= 0 and len(found) < most:
        if at == 0 or not _is_word_char(folded[at - 1]):
            found.append(at)
        at = folded.find(needle, at + 1)
    return found


def _is_word_char(char: str) -> bool:
    return "a" <= char <= "z" or "0" <= char <= "9"


def best_passage(folded: str, needles: Sequence[str], weights: Sequence[float]) -> Passage:
    """Return the stretch whose distinct needles weigh most; the first among equals."""
    places = [find_needle(folded, needle) for needle in needles]
    if len(folded) <= PASSAGE_CHARS:
        return _passage(0, len(folded), places)
    listed = sorted((place, at) for at, found in enumerate(places) for place in found)
    if not listed:
        return _passage(0, PASSAGE_CHARS, places)
    width = PASSAGE_CHARS - _LEAD
    best, at_best, total = -1.0, 0, 0.0
    inside: Counter[int] = Counter()
    end = 0
    for number, (place, term) in enumerate(listed):
        while end < len(listed) and listed[end][0] < place + width:
            entering = listed[end][1]
            total += 0.0 if inside[entering] else weights[entering]
            inside[entering] += 1
            end += 1
        if total > best + 1e-9:
            best, at_best = total, number
        inside[term] -= 1
        total -= 0.0 if inside[term] else weights[term]
    start = max(0, listed[at_best][0] - _LEAD)
    stop = min(len(folded), start + PASSAGE_CHARS)
    return _passage(start, stop, places)


def _passage(start: int, end: int, places: Sequence[Sequence[int]]) -> Passage:
    inside = tuple(tuple(at for at in found if start <= at < end) for found in places)
    return Passage(start, end, tuple(map(len, inside)), inside)
