"""Word search: the entries that hold the words of a query, best first.

Owns the score: bm25 of the terms that a text or, for less, a neighbour holds; more for all
of them, for quoted phrases and for the wording of the query. Invariant: ranking is pure;
the same texts and terms always come in the same order.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .candidates import WeightedTerm, WordCandidates, WordPlace, find_candidates
from .query import Hits, Search
from .reader import EntryReader, FoundEntry, best_snippet
from .scope import Scope
from .terms import WordQuery, fold, fold_spaces, parse_query

__all__ = ["search_words"]

_FEWEST_READ = 60
"""Candidates whose text is read, at least."""
_LONG_QUERY = 3
"""A query of so many words also finds the neighbours of good hits."""
_SATURATION = 1.2
_LENGTH_PENALTY = 0.5
"""How much the length of a text lowers the score of its terms."""
_ALL_TERMS = 1.25
_PHRASE = 2.0
_SENTENCE = 1.5
_NEIGHBOUR = 0.4
"""The share of a term's score that counts when only a neighbour holds the term."""
_MOST_CHARACTERS = 20_000
"""How much of a text is scored."""


class _TextScore(NamedTuple):
    """The score of each term in a text, and the factor for its wording."""

    shares: tuple[float, ...]
    factor: float = 1.0


class _Scored(NamedTuple):
    """An entry and its score."""

    place: WordPlace
    score: float


async def search_words(reader: EntryReader, query: Search, scope: Scope) -> Hits:
    """Find the entries that hold words of `query`, best first."""
    words = parse_query(query.text)
    if not words.terms:
        return Hits()
    most = max(_FEWEST_READ, query.limit + query.limit // 2)
    candidates = await reader.read_index(lambda db: find_candidates(db, words, scope, most, query))
    if not candidates.candidates:
        return Hits()
    found = await reader.read([each.place for each in candidates.candidates])
    scores = await asyncio.to_thread(_score_texts, words, candidates, found)
    beside = await reader.neighbours([*scores], 1, scope)
    adds_neighbours = (
        words.word_count >= _LONG_QUERY and not query.all_words and scope.is_threads_only
    )
    order = _rank(candidates.terms, scores, beside, adds_neighbours=adds_neighbours)[: query.limit]
    found |= await reader.read([each.place for each in order if each.place not in found])
    named = await reader.neighbours([each.place for each in order], query.neighbours, scope)
    patterns = [_needle_pattern(each.term.needle) for each in candidates.terms]
    return Hits(
        found[place].hit(score, best_snippet(found[place].text, patterns), named.get(place, ()))
        for place, score in order
        if place in found
    )


def _needle_pattern(needle: str) -> re.Pattern[str]:
    """Return a pattern that finds a needle at the beginning of words in folded text."""
    return re.compile(rf"(?<![a-z0-9]){re.escape(needle)}")


def _score_texts(
    words: WordQuery, candidates: WordCandidates, found: Mapping[WordPlace, FoundEntry]
) -> dict[WordPlace, _TextScore]:
    """Score each text by itself."""
    terms = candidates.terms
    patterns = [_needle_pattern(each.term.needle) for each in terms]
    scores: dict[WordPlace, _TextScore] = {}
    for candidate in candidates.candidates:
        if candidate.place in found:
            folded = fold(found[candidate.place].text[:_MOST_CHARACTERS])
            counts = [
                max(len(pattern.findall(folded)), candidate.known_terms >> at & 1)
                for at, pattern in enumerate(patterns)
            ]
            length = candidate.length / candidates.average_length
            scores[candidate.place] = _score_text(words, terms, counts, length, folded)
    return scores


def _score_text(
    words: WordQuery,
    terms: Sequence[WeightedTerm],
    counts: Sequence[int],
    length: float,
    folded: str,
) -> _TextScore:
    """Score a text that holds each term so often; `length` is relative to the average."""
    norm = _SATURATION * (1 - _LENGTH_PENALTY + _LENGTH_PENALTY * length)
    shares = tuple(
        each.weight * count * (_SATURATION + 1) / (count + norm) if count else 0.0
        for each, count in zip(terms, counts, strict=True)
    )
    wholes = [share for share, each in zip(shares, terms, strict=True) if each.term.is_whole]
    premium = _ALL_TERMS if len(wholes) > 1 and all(wholes) else 1.0
    return _TextScore(shares, premium * _wording_factor(words, folded))


def _wording_factor(words: WordQuery, folded: str) -> float:
    """Return how much the order of the words counts."""
    if not words.phrases and not words.sentence:
        return 1.0
    spaced = fold_spaces(folded)
    factor = _SENTENCE if words.sentence and words.sentence in spaced else 1.0
    for phrase in words.phrases:
        factor *= _PHRASE if phrase in spaced else 1.0
    return factor


def _rank(
    terms: Sequence[WeightedTerm],
    scores: Mapping[WordPlace, _TextScore],
    neighbours: Mapping[WordPlace, Sequence[int]],
    *,
    adds_neighbours: bool,
) -> list[_Scored]:
    """Return the entries in order, best first.

    With `adds_neighbours` an entry that holds none of the words but stands beside one that
    does is found, too.
    """
    nothing = _TextScore((0.0,) * len(terms))
    beside = {
        place: [scores.get(WordPlace(place.number, seq), nothing) for seq in seqs]
        for place, seqs in neighbours.items()
    }
    if adds_neighbours:
        for place, seqs in neighbours.items():
            for seq in seqs:
                if (other := WordPlace(place.number, seq)) not in scores:
                    beside.setdefault(other, []).append(scores[place])
    found = [
        _Scored(place, _total(terms, scores.get(place, nothing), beside.get(place, ())))
        for place in dict.fromkeys((*scores, *beside))
    ]
    return sorted(found, key=lambda each: (-each.score, each.place.number, -each.place.seq))


def _total(terms: Sequence[WeightedTerm], own: _TextScore, beside: Sequence[_TextScore]) -> float:
    """Return the score of a text among its neighbours: the more of the query, the better."""
    lent = (
        _NEIGHBOUR * max(shares) for shares in zip(*(each.shares for each in beside), strict=True)
    )
    shares = list(map(max, own.shares, lent)) if beside else own.shares
    whole = sum(each.weight for each in terms) or 1.0
    covered = sum(each.weight for each, share in zip(terms, shares, strict=True) if share)
    return sum(shares) * (0.6 + 0.4 * covered / whole) * own.factor
