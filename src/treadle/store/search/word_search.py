"""Word search: the entries that hold the words of a query, best first.

Owns the score: bm25 of the terms in the best passage of a text, what the turns around it
and the stretch of its talk add, and factors for its wording and for what the question asks
for. Invariant: ranking is pure; the same texts and terms always come in the same order.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from .candidates import (
    SearchCandidate,
    WeightedTerm,
    WordCandidates,
    WordPlace,
    find_candidates,
)
from .clues import Clues, asks_something, only_asks, parse_clues
from .meanings import measure_closeness, question_vector
from .passages import PASSAGE_WORDS, Passage, best_passage
from .query import Hit, HitReasons, Hits, Search
from .reader import EntryReader, FoundEntry, best_snippet
from .scope import Scope
from .terms import WordQuery, fold, fold_spaces, parse_query

__all__ = ["search_words"]

_FEWEST_READ = 100
"""Candidates whose text is read, at least."""
_SATURATION = 1.2
_LENGTH_PENALTY = 0.5
"""How much the length of a passage lowers the score of its terms."""
_ALL_TERMS = 1.25
_PHRASE = 2.0
_SENTENCE = 1.5
_MOST_CHARACTERS = 20_000
"""How much of a text is scored."""
_MOST_COMPARED = 5
"""How many times the hits that are asked for are looked through for distinct ones."""


class _ScoredEntry(NamedTuple):
    """An entry, its score, and what the score is made of."""

    place: WordPlace
    score: float
    why: HitReasons


async def search_words(reader: EntryReader, query: Search, scope: Scope) -> Hits:
    """Find the entries that hold words of `query`, best first."""
    words = parse_query(query.text)
    if not words.terms:
        return Hits()
    most = max(_FEWEST_READ, query.limit + query.limit // 2)
    question = await question_vector(reader.read_index, words, query)

    def find(db: sqlite3.Connection) -> WordCandidates:
        closeness = None if question is None else measure_closeness(db, question, scope)
        return find_candidates(db, words, scope, most, query, closeness=closeness)

    candidates = await reader.read_index(find)
    if not candidates.candidates:
        return Hits()
    found = await reader.read([each.place for each in candidates.candidates])
    order = await asyncio.to_thread(_rank, words, candidates, found, query)
    order = _repeated_last(order, found)
    named = await _neighbours(reader, order, query, scope)
    chosen = _distinct(order, named) if query.distinct and named else order
    needles = [each.term.needle for each in candidates.terms]
    return Hits(
        _hit(found[each.place], each, needles, named, query) for each in chosen[: query.limit]
    )


async def _neighbours(
    reader: EntryReader, order: Sequence[_ScoredEntry], query: Search, scope: Scope
) -> dict[WordPlace, list[int]]:
    """Return the neighbours of the hits, and of those that may take their place."""
    compared = query.limit * (_MOST_COMPARED if query.distinct else 1)
    return await reader.neighbours(
        [each.place for each in order[:compared]], query.neighbours, scope
    )


def _distinct(
    order: Sequence[_ScoredEntry], named: Mapping[WordPlace, Sequence[int]]
) -> list[_ScoredEntry]:
    """Leave out what stands among the neighbours of something better."""
    seen: set[WordPlace] = set()
    kept: list[_ScoredEntry] = []
    for each in order:
        if each.place in named and each.place not in seen:
            kept.append(each)
            seen.update(WordPlace(each.place.number, seq) for seq in named[each.place])
    return kept


def _repeated_last(
    order: Sequence[_ScoredEntry], found: Mapping[WordPlace, FoundEntry]
) -> list[_ScoredEntry]:
    """Put what only repeats the text of something better after everything else.

    What replies to different questions is not the same, whatever its text.
    """
    seen: set[tuple[str, str]] = set()
    kept: list[_ScoredEntry] = []
    repeated: list[_ScoredEntry] = []
    for each in order:
        said = found[each.place].role, found[each.place].text
        (repeated if said in seen and not each.why.reply else kept).append(each)
        seen.add(said)
    return kept + repeated


def _hit(
    found: FoundEntry,
    scored: _ScoredEntry,
    needles: Sequence[str],
    named: Mapping[WordPlace, Sequence[int]],
    query: Search,
) -> Hit:
    snippet = best_snippet(found.text, needles, query.snippet)
    why = scored.why if query.explain else None
    return found.hit(scored.score, snippet, named.get(scored.place, ()), why)


def _rank(
    words: WordQuery,
    candidates: WordCandidates,
    found: Mapping[WordPlace, FoundEntry],
    query: Search,
) -> list[_ScoredEntry]:
    """Return the entries in order, best first."""
    ranking = _Ranking(words, candidates, parse_clues(fold(query.text)), query)
    listed = [each for each in candidates.candidates if each.place in found]
    texts = {each.place: ranking.read(each, found[each.place]) for each in listed}
    scored = [ranking.score(each, texts) for each in listed]
    return sorted(scored, key=lambda each: (-each.score, each.place.number, -each.place.seq))


class _ReadText(NamedTuple):
    """What a text by itself says about the query."""

    shares: tuple[float, ...]
    pairs: float
    meaning: float
    wording: dict[str, float]
    clues: dict[str, float]
    asks: bool
    asks_something: bool
    asks_the_same: bool
    is_said: bool
    """Whether somebody said it; calls and outputs stand between a question and its answer."""

    @property
    def own(self) -> float:
        """The score of the text by itself."""
        return (sum(self.shares) + self.pairs + self.meaning) * math.prod(self.wording.values())


def _asked_before(before: Iterable[_ReadText | None]) -> _ReadText | None:
    """Return the best question that a turn may reply to, also if it was asked back."""
    best: _ReadText | None = None
    for each in before:
        if each is None or (each.is_said and not each.asks_something):
            break
        if each.asks_something and (best is None or each.own > best.own):
            best = each
    return best


class _Ranking:
    """Scores the texts of one query."""

    def __init__(
        self, words: WordQuery, candidates: WordCandidates, clues: Clues, query: Search
    ) -> None:
        self._words, self._clues, self._rank = words, clues, query.weights
        self._terms: Sequence[WeightedTerm] = candidates.terms
        self._needles = [each.term.needle for each in self._terms]
        self._weights = [each.weight for each in self._terms]
        self._whole = sum(self._weights) or 1.0
        self._usual_words = min(max(candidates.average_length, 1.0), PASSAGE_WORDS)
        order = {term.text: at for at, term in enumerate(words.terms)}
        asked = sorted(range(len(self._terms)), key=lambda at: order[self._terms[at].term.text])
        self._pairs = list(pairwise(at for at in asked if self._terms[at].term.is_whole))

    def read(self, candidate: SearchCandidate, found: FoundEntry) -> _ReadText:
        """Read a text: its best passage, its wording, and what it has of what is asked for."""
        folded = fold(found.text[:_MOST_CHARACTERS])
        passage = best_passage(folded, self._needles, self._weights)
        shares = self._shares(passage, candidate)
        near = sum(
            min(shares[one], shares[other])
            for one, other in self._pairs
            if passage.are_near(one, other)
        )
        inside, asks = folded[passage.start : passage.end], only_asks(found.text)
        return _ReadText(
            tuple(shares),
            self._rank.pair * near,
            self._rank.meaning * candidate.closeness * self._whole,
            self._wording(shares, folded, repeats=self._clues.is_question and asks),
            self._clues.factors(found.role, found.text, inside, self._rank),
            asks,
            asks_something(found.text),
            self._clues.asks_the_same(found.text),
            found.role in {"user", "assistant"},
        )

    def score(
        self, candidate: SearchCandidate, texts: Mapping[WordPlace, _ReadText]
    ) -> _ScoredEntry:
        """Score an entry by its text and its surroundings."""
        text, rank = texts[candidate.place], self._rank
        before = (texts.get(WordPlace(candidate.place.number, seq)) for seq in candidate.before)
        asked = None if text.asks else _asked_before(before)
        reply = self._reply(asked)
        window, stretch = rank.window * candidate.window, rank.stretch * candidate.stretch
        coverage = self._coverage(text, candidate.known_terms | candidate.terms_around)
        factors = text.clues | {"coverage": coverage}
        if asked is not None and self._have_all_words(text, asked):
            factors["all words"] = _ALL_TERMS
        role = factors.get("role", 1.0)
        total = (text.own + reply) * role + window + stretch
        total *= math.prod(factors.values()) / role
        spelt = zip((each.term.text for each in self._terms), text.shares, strict=True)
        why = HitReasons(
            words={word: round(share, 2) for word, share in spelt if share},
            pairs=round(text.pairs, 2),
            meaning=round(text.meaning, 2),
            reply=round(reply, 2),
            window=round(window, 2),
            stretch=round(stretch, 2),
            factors={name: round(each, 2) for name, each in (text.wording | factors).items()},
        )
        return _ScoredEntry(candidate.place, total, why)

    def _reply(self, asked: _ReadText | None) -> float:
        """Return what the question adds that a turn may reply to."""
        if asked is None:
            return 0.0
        return (
            self._rank.reply * asked.own * (self._rank.same_question if asked.asks_the_same else 1)
        )

    def _have_all_words(self, text: _ReadText, asked: _ReadText) -> bool:
        """Return whether a turn and the question before it have all words only together."""
        together = [
            own or other
            for own, other, each in zip(text.shares, asked.shares, self._terms, strict=True)
            if each.term.is_whole
        ]
        alone = text.wording.keys() | asked.wording.keys()
        return len(together) > 1 and all(together) and "all words" not in alone

    def _shares(self, passage: Passage, candidate: SearchCandidate) -> list[float]:
        """Return what each term adds; a long text counts as long as a passage."""
        known = candidate.known_terms
        counts = [max(count, known >> at & 1) for at, count in enumerate(passage.counts)]
        relative = min(candidate.length, PASSAGE_WORDS) / self._usual_words
        norm = _SATURATION * (1 - _LENGTH_PENALTY + _LENGTH_PENALTY * relative)
        return [
            weight * count * (_SATURATION + 1) / (count + norm) if count else 0.0
            for weight, count in zip(self._weights, counts, strict=True)
        ]

    def _wording(self, shares: Sequence[float], folded: str, *, repeats: bool) -> dict[str, float]:
        """Return the factors for all words, for phrases and for the order of the words.

        A question that `repeats` the one that is asked is no better for it.
        """
        found: dict[str, float] = {}
        wholes = [
            share for share, each in zip(shares, self._terms, strict=True) if each.term.is_whole
        ]
        if len(wholes) > 1 and all(wholes):
            found["all words"] = _ALL_TERMS
        if self._words.phrases or self._words.sentence:
            spaced = fold_spaces(folded)
            if self._words.sentence and not repeats and self._words.sentence in spaced:
                found["sentence"] = _SENTENCE
            if phrases := sum(phrase in spaced for phrase in self._words.phrases):
                found["phrase"] = _PHRASE**phrases
        return found

    def _coverage(self, text: _ReadText, around: int) -> float:
        """Return the factor for how much of the query the text and its neighbours hold."""
        covered = sum(
            weight
            for at, (weight, share) in enumerate(zip(self._weights, text.shares, strict=True))
            if share or around >> at & 1
        )
        return 0.6 + 0.4 * min(1.0, (covered + text.meaning) / self._whole)
