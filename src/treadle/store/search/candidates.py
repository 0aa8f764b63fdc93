"""Candidates: the documents that are worth reading for a query.

Owns how much of the index a query touches. Rare terms are looked up; common terms only
order what the rare ones found; where all terms are common, the newest documents stand for
the rest. What is rare, the threads that are asked decide. Invariant: the work is bounded
whatever the size of the index.
"""

from __future__ import annotations

import heapq
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from ..rows import MAX_SEQ, row_id
from .query import Search
from .scope import Scope, match_documents
from .scope_totals import MOST_COUNTED, ScopeTotals, count_documents, measure_scope
from .surroundings import Lending, Nearby, find_nearby, load_runs
from .terms import Term, WordQuery

if TYPE_CHECKING:
    from .closeness import Closeness

__all__ = [
    "SearchCandidate",
    "WeightedTerm",
    "WordCandidates",
    "WordPlace",
    "find_candidates",
    "load_candidates",
    "neighbour_seqs",
]

_MOST_OCCURRENCES = 20_000
"""How many occurrences of terms are read; a term with more is too common to be looked up."""
_COMMON = 5_000
"""A term with more occurrences is ignored by a query that skips common words …"""
_SHARE = 20
"""… if it stands in more than one of so many documents, or in more than are ever looked up."""
_MOST_COMMON_TERMS = 2
"""Common terms that may order candidates."""
_PAIRED_TERMS = 3
"""Terms that are looked up two by two where all are common."""
_DEPTH = 400
"""Candidates whose length is read."""
_EXPLORED = 60
"""Candidates whose surroundings are read."""
_CLOSEST = 40
"""Documents that are candidates for their vectors alone."""
_DOCUMENT_AT = "SELECT id FROM documents WHERE place = ?"
_LONG_QUERY = 3
"""A query of so many words also finds turns without any of them, beside good ones."""


class WeightedTerm(NamedTuple):
    """A term and its weight."""

    term: Term
    documents: int
    weight: float


class WordPlace(NamedTuple):
    """An entry: the number of the thread that wrote it, and its sequence number."""

    number: int
    seq: int


class SearchCandidate(NamedTuple):
    """A document that may be a hit."""

    id: int
    place: WordPlace
    length: int
    known_terms: int = 0
    """One bit for each term that it is known to hold."""
    terms_around: int = 0
    """The same for the turns around it."""
    window: float = 0.0
    """The score of the few turns around it …"""
    stretch: float = 0.0
    """… and of the stretch of the talk that it belongs to."""
    before: tuple[int, ...] = ()
    """The turns just before it, the nearest first."""
    closeness: float = 0.0
    """How close its vector is to that of the query, in standard deviations."""


class WordCandidates(NamedTuple):
    """The candidates of a query for words, and the weights of its terms."""

    terms: tuple[WeightedTerm, ...]
    candidates: list[SearchCandidate]
    average_length: float


def find_candidates(
    connection: sqlite3.Connection,
    words: WordQuery,
    scope: Scope,
    most: int,
    query: Search,
    *,
    closeness: Closeness | None = None,
) -> WordCandidates:
    """Return the best `most` candidates, as far as the index can order them."""
    totals, scope = measure_scope(connection, scope), scope.with_bounds(connection)
    commonest = min(max(_COMMON, totals.documents // _SHARE), _MOST_OCCURRENCES)
    # A word that is too common to count for anything need not be counted to its end.
    counted = min(MOST_COUNTED, commonest + 1) if query.skip_common else MOST_COUNTED
    terms = tuple(_weigh_terms(connection, words.terms, scope, totals, counted))
    if query.skip_common:
        terms = tuple(each for each in terms if each.documents <= commonest)
    depth = max(most, _DEPTH)
    if query.all_words:
        bits = _match_all_words(connection, terms, scope, depth)
    else:
        bits = _match_any_term(connection, terms, scope, totals, depth)
    best = _heaviest(bits, terms, depth)
    found = [
        candidate._replace(known_terms=bits[candidate.id])
        for candidate in load_candidates(connection, best)
    ]
    found.sort(key=lambda each: (-_estimate(each, terms, totals.average_length), -each.id))
    close = _close_candidates(connection, bits, scope, closeness)
    adds = words.word_count >= _LONG_QUERY and not query.all_words and scope.is_threads_only
    lending = _lending(terms, totals)
    if not any(lending.weights) and closeness is None:
        return WordCandidates(terms, found[:most], totals.average_length)
    explored = (each.place for each in (*found[:_EXPLORED], *close))
    chosen = [
        _with_surroundings(near)
        for run in load_runs(connection, explored, scope)
        for near in find_nearby(run, bits, lending)
        if adds or near.terms
    ]
    chosen += (*found[_EXPLORED:], *close)
    chosen = list({each.id: each for each in reversed(chosen)}.values())
    if closeness is not None:
        chosen = _with_closeness(chosen, closeness)
    chosen.sort(key=lambda each: (-_rough_score(each, terms, totals, query), -each.id))
    return WordCandidates(terms, chosen[:most], totals.average_length)


def _weigh_terms(
    connection: sqlite3.Connection,
    terms: Iterable[Term],
    scope: Scope,
    totals: ScopeTotals,
    most: int,
) -> Iterable[WeightedTerm]:
    """Yield the terms and their weights, the rarest first; no more than `most` are counted.

    The parts of an identifier are left out where a document holds the identifier itself.
    """
    counted = {
        term: min(count_documents(connection, term.match, scope, most), totals.documents)
        for term in terms
    }
    known = {term.text for term, documents in counted.items() if term.is_whole and documents}
    for term, documents in sorted(counted.items(), key=lambda each: each[1]):
        if term.is_whole or (documents and term.part_of not in known):
            odds = (totals.documents - documents + 0.5) / (documents + 0.5)
            yield WeightedTerm(term, documents, term.weight * math.log1p(odds))


def _lending(terms: Sequence[WeightedTerm], totals: ScopeTotals) -> Lending:
    """Return what terms lend to turns near them.

    A word that stands in most turns, or that is the only one, says nothing of a neighbourhood.
    """
    weights = [
        each.weight if len(terms) > 1 and 2 * each.documents < totals.documents else 0.0
        for each in terms
    ]
    return Lending(weights, totals.average_length)


def _close_candidates(
    connection: sqlite3.Connection,
    bits: dict[int, int],
    scope: Scope,
    closeness: Closeness | None,
) -> list[SearchCandidate]:
    """Return the documents that are closest to the query by their vectors, whatever their words.

    Vectors know threads only; where more is asked for they order what words found.
    """
    if closeness is None or not scope.is_threads_only:
        return []
    ids = [
        row[0]
        for place in closeness.best(_CLOSEST)
        if (row := connection.execute(_DOCUMENT_AT, (row_id(*place),)).fetchone()) is not None
    ]
    return [
        each._replace(known_terms=bits.get(each.id, 0)) for each in load_candidates(connection, ids)
    ]


def _with_closeness(
    candidates: Sequence[SearchCandidate], closeness: Closeness
) -> list[SearchCandidate]:
    found = closeness.of([each.place for each in candidates])
    return [each._replace(closeness=found.get(each.place, 0.0)) for each in candidates]


def _with_surroundings(near: Nearby) -> SearchCandidate:
    turn = near.turn
    return SearchCandidate(
        turn.id,
        WordPlace(turn.number, turn.seq),
        turn.length,
        near.terms,
        near.around,
        near.window,
        near.stretch,
        near.before,
    )


def _rough_score(
    candidate: SearchCandidate,
    terms: Sequence[WeightedTerm],
    totals: ScopeTotals,
    query: Search,
) -> float:
    """Return the score of a candidate as far as it can be told without its text."""
    own = _estimate(candidate, terms, totals.average_length)
    weights = query.weights
    own += weights.meaning * candidate.closeness * sum(each.weight for each in terms)
    return own + weights.window * candidate.window + weights.stretch * candidate.stretch


def _match_all_words(
    connection: sqlite3.Connection, terms: Sequence[WeightedTerm], scope: Scope, most: int
) -> dict[int, int]:
    """Return the newest documents that hold every word of the query."""
    wholes = [each.term.match for each in terms if each.term.is_whole]
    if not wholes:
        return {}
    found = match_documents(connection, " AND ".join(wholes), scope, newest=most)
    return dict.fromkeys(found, sum(1 << at for at, each in enumerate(terms) if each.term.is_whole))


def _match_any_term(
    connection: sqlite3.Connection,
    terms: Sequence[WeightedTerm],
    scope: Scope,
    totals: ScopeTotals,
    most: int,
) -> dict[int, int]:
    """Return documents and the terms, as bits, that they are known to hold."""
    occurring = [(at, each) for at, each in enumerate(terms) if each.documents]
    rare = _affordable_terms(occurring)
    if not rare or len(occurring) == 1:
        return _match_newest(connection, occurring, scope, most)
    bits: dict[int, int] = {}
    for at, each in rare:
        found, bit = match_documents(connection, each.term.match, scope), 1 << at
        both = {document: bits[document] | bit for document in bits.keys() & set(found)}
        bits.update(dict.fromkeys(found, bit))
        bits.update(both)
    among = " OR ".join(each.term.match for _, each in rare)
    useful = [
        (at, each)
        for at, each in occurring
        if (at, each) not in rare and each.documents * _SHARE <= totals.documents
    ]
    for at, each in useful[:_MOST_COMMON_TERMS]:
        for document in match_documents(connection, f"{each.term.match} AND ({among})", scope):
            if document in bits:
                bits[document] |= 1 << at
    return bits


def _affordable_terms(
    terms: Sequence[tuple[int, WeightedTerm]],
) -> list[tuple[int, WeightedTerm]]:
    """Return the rarest terms, as many as may be looked up."""
    rare: list[tuple[int, WeightedTerm]] = []
    cost = 0
    for at, each in terms:
        cost += each.documents
        if cost > _MOST_OCCURRENCES:
            break
        rare.append((at, each))
    return rare


def _match_newest(
    connection: sqlite3.Connection,
    terms: Sequence[tuple[int, WeightedTerm]],
    scope: Scope,
    most: int,
) -> dict[int, int]:
    """Return the newest documents with all of the terms, and with one or two of the rarest."""
    rarest = terms[:_PAIRED_TERMS]
    found: dict[int, int] = {}
    for chosen in {tuple(terms), *combinations(rarest, 1), *combinations(rarest, 2)} - {()}:
        expression = " AND ".join(each.term.match for _, each in chosen)
        bits = sum(1 << at for at, _ in chosen)
        for document in match_documents(connection, expression, scope, newest=most):
            found[document] = found.get(document, 0) | bits
    return found


def _heaviest(bits: dict[int, int], terms: Sequence[WeightedTerm], most: int) -> list[int]:
    """Return the documents whose terms weigh most; the newest among equals."""
    alike: dict[int, list[int]] = defaultdict(list)
    for document, known in bits.items():
        alike[known].append(document)
    best: list[int] = []
    for known in sorted(alike, key=lambda known: -_weight(known, terms)):
        best += heapq.nlargest(most - len(best), alike[known])
        if len(best) >= most:
            break
    return best


def _weight(bits: int, terms: Sequence[WeightedTerm]) -> float:
    return sum(each.weight for at, each in enumerate(terms) if bits >> at & 1)


def _estimate(
    candidate: SearchCandidate, terms: Sequence[WeightedTerm], average_length: float
) -> float:
    """Return the rough score of a document: the longer it is, the less its terms count."""
    penalty = 1.0 + 0.5 * candidate.length / average_length
    return _weight(candidate.known_terms, terms) / penalty


def load_candidates(connection: sqlite3.Connection, ids: Sequence[int]) -> list[SearchCandidate]:
    """Load the documents that still exist, in the order given."""
    found: dict[int, SearchCandidate] = {}
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        rows = connection.execute(
            f"SELECT id, place, length FROM documents WHERE id IN ({', '.join('?' * len(some))})",
            some,
        )
        for at, where, length in rows:
            found[at] = SearchCandidate(at, WordPlace(where >> 32, where & MAX_SEQ), length)
    return [found[at] for at in ids if at in found]


def neighbour_seqs(connection: sqlite3.Connection, entry: WordPlace, distance: int) -> list[int]:
    """Return the nearest `distance` entries with text before and after an entry of a thread."""
    at = row_id(*entry)
    before = connection.execute(
        "SELECT place FROM documents WHERE place >= ? AND place < ? ORDER BY place DESC LIMIT ?",
        (row_id(entry.number, 0), at, distance),
    ).fetchall()
    after = connection.execute(
        "SELECT place FROM documents WHERE place > ? AND place <= ? ORDER BY place LIMIT ?",
        (at, row_id(entry.number, MAX_SEQ), distance),
    ).fetchall()
    return [where & MAX_SEQ for (where,) in (*before[::-1], *after)]
