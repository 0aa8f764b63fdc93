"""Ranking: the order of candidates once their texts are read.

Owns the score: bm25 of the terms that a text holds, more for all of them, for quoted
phrases and for the question's own wording, and something for what a neighbour holds.
Invariant: pure; the same texts and terms always come in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .candidates import Place, Weighed
from .question import Question, one_spaced
from .terms import fold

__all__ = ["Reading", "Scored", "needle_pattern", "scored", "with_neighbours"]

_SATURATION = 1.2
_LENGTH = 0.5
"""How much a long text is held against its terms."""
_ALL_TERMS = 1.25
_PHRASE = 2.0
_SENTENCE = 1.5
_BESIDE = 0.25
"""What a neighbour's score counts."""
_ECHO = 0.3
"""What a text without any of the words scores for standing beside one with them."""
_READ = 20_000
"""How much of a text is read."""


class Reading(NamedTuple):
    """A candidate's text, its length in words and the terms it is known to hold."""

    text: str
    length: int
    known: int


class Scored(NamedTuple):
    """An entry and what it scores."""

    place: Place
    score: float


def needle_pattern(needle: str) -> re.Pattern[str]:
    """Finds a needle at the beginning of words in folded text."""
    return re.compile(rf"(?<![a-z0-9]){re.escape(needle)}")


def scored(
    question: Question, terms: Sequence[Weighed], average: float, readings: Sequence[Reading]
) -> list[float]:
    """The score of each text by itself."""
    patterns = [needle_pattern(each.term.needle) for each in terms]
    return [_score(question, terms, patterns, average, reading) for reading in readings]


def _score(
    question: Question,
    terms: Sequence[Weighed],
    patterns: Sequence[re.Pattern[str]],
    average: float,
    reading: Reading,
) -> float:
    folded = fold(reading.text[:_READ])
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * reading.length / average)
    score = held = 0.0
    missing = False
    for at, (each, pattern) in enumerate(zip(terms, patterns, strict=True)):
        count = max(len(pattern.findall(folded)), reading.known >> at & 1)
        if count:
            score += each.weight * count * (_SATURATION + 1) / (count + norm)
            held += each.weight
        missing = missing or not (count or not each.term.whole)
    whole = sum(each.weight for each in terms) or 1.0
    score *= 0.6 + 0.4 * held / whole
    if question.words > 1 and not missing:
        score *= _ALL_TERMS
    return score * _wording(question, folded)


def _wording(question: Question, folded: str) -> float:
    """How much the words in their order count."""
    if not question.phrases and not question.sentence:
        return 1.0
    spaced = one_spaced(folded)
    factor = _SENTENCE if question.sentence and question.sentence in spaced else 1.0
    for phrase in question.phrases:
        factor *= _PHRASE if phrase in spaced else 1.0
    return factor


def with_neighbours(
    scores: Mapping[Place, float], neighbours: Mapping[Place, Sequence[int]], *, echo: bool
) -> list[Scored]:
    """The entries in order, each with something of its neighbours' scores.

    With `echo` an entry that holds none of the words but stands beside one that does
    is found, too.
    """
    found: dict[Place, float] = {}
    for place, score in scores.items():
        around = [Place(place.number, seq) for seq in neighbours.get(place, ())]
        best = max((scores.get(other, 0.0) for other in around), default=0.0)
        found[place] = score + _BESIDE * best
        for other in around if echo else ():
            if other not in scores:
                found[other] = max(found.get(other, 0.0), _ECHO * score)
    order = sorted(found.items(), key=lambda each: (-each[1], each[0].number, -each[0].seq))
    return [Scored(place, score) for place, score in order]
