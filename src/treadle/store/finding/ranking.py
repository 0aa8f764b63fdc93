"""Ranking: the order of candidates once their texts are read.

Owns the score: bm25 of the terms that a text or, for less, one beside it holds; more for
all of them, for quoted phrases and for the question's own wording. Invariant: pure; the
same texts and terms always come in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .candidates import Place, Weighed
from .question import Question, one_spaced
from .terms import fold

__all__ = ["Reading", "Scored", "Weight", "needle_pattern", "ranked", "weigh"]

_SATURATION = 1.2
_LENGTH = 0.5
"""How much a long text is held against its terms."""
_ALL_TERMS = 1.25
_PHRASE = 2.0
_SENTENCE = 1.5
_BESIDE = 0.4
"""What a term counts that only a neighbour holds."""
_READ = 20_000
"""How much of a text is read."""


class Reading(NamedTuple):
    """A candidate's text, its length in words and the terms it is known to hold."""

    text: str
    length: int
    known: int


class Weight(NamedTuple):
    """What each term counts in a text, and the factor for their wording."""

    shares: tuple[float, ...]
    factor: float = 1.0


class Scored(NamedTuple):
    """An entry and what it scores."""

    place: Place
    score: float


def needle_pattern(needle: str) -> re.Pattern[str]:
    """Finds a needle at the beginning of words in folded text."""
    return re.compile(rf"(?<![a-z0-9]){re.escape(needle)}")


def weigh(
    question: Question, terms: Sequence[Weighed], average: float, readings: Sequence[Reading]
) -> list[Weight]:
    """The weight of each text by itself."""
    patterns = [needle_pattern(each.term.needle) for each in terms]
    return [_weight(question, terms, patterns, average, reading) for reading in readings]


def _weight(
    question: Question,
    terms: Sequence[Weighed],
    patterns: Sequence[re.Pattern[str]],
    average: float,
    reading: Reading,
) -> Weight:
    folded = fold(reading.text[:_READ])
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * reading.length / average)
    shares: list[float] = []
    for at, (each, pattern) in enumerate(zip(terms, patterns, strict=True)):
        count = max(len(pattern.findall(folded)), reading.known >> at & 1)
        shares.append(each.weight * count * (_SATURATION + 1) / (count + norm) if count else 0.0)
    held = [share for share, each in zip(shares, terms, strict=True) if each.term.whole]
    premium = _ALL_TERMS if len(held) > 1 and all(held) else 1.0
    return Weight(tuple(shares), premium * _wording(question, folded))


def _wording(question: Question, folded: str) -> float:
    """How much the words in their order count."""
    if not question.phrases and not question.sentence:
        return 1.0
    spaced = one_spaced(folded)
    factor = _SENTENCE if question.sentence and question.sentence in spaced else 1.0
    for phrase in question.phrases:
        factor *= _PHRASE if phrase in spaced else 1.0
    return factor


def ranked(
    terms: Sequence[Weighed],
    weights: Mapping[Place, Weight],
    neighbours: Mapping[Place, Sequence[int]],
    *,
    echo: bool,
) -> list[Scored]:
    """The entries in order, best first.

    With `echo` an entry that holds none of the words but stands beside one that does
    is found, too.
    """
    nothing = Weight((0.0,) * len(terms))
    beside = {
        place: [weights.get(Place(place.number, seq), nothing) for seq in seqs]
        for place, seqs in neighbours.items()
    }
    if echo:
        for place, seqs in neighbours.items():
            for seq in seqs:
                if (other := Place(place.number, seq)) not in weights:
                    beside.setdefault(other, []).append(weights[place])
    found = [
        Scored(place, _score(terms, weights.get(place, nothing), beside.get(place, ())))
        for place in dict.fromkeys((*weights, *beside))
    ]
    return sorted(found, key=lambda each: (-each.score, each.place.number, -each.place.seq))


def _score(terms: Sequence[Weighed], own: Weight, beside: Sequence[Weight]) -> float:
    """What a text scores among its neighbours: the more of the question, the better."""
    lent = (_BESIDE * max(shares) for shares in zip(*(each.shares for each in beside), strict=True))
    shares = list(map(max, own.shares, lent)) if beside else own.shares
    whole = sum(each.weight for each in terms) or 1.0
    held = sum(each.weight for each, share in zip(terms, shares, strict=True) if share)
    return sum(shares) * (0.6 + 0.4 * held / whole) * own.factor
