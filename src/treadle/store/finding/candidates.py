"""Candidates: the documents that are worth reading for a question.

Owns how much of the index a question touches. Rare terms are looked up; common ones only
tell apart what the rare ones found; where all are common, the newest documents stand for
the rest. Invariant: the work is bounded whatever the size of the index.
"""

from __future__ import annotations

import heapq
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from ..ancestry import MAX_SEQ
from ..hits import Search
from ..rows import place
from .question import Question, Term
from .scope import Scope, matching
from .tables import Totals, totals

__all__ = ["Candidate", "Gathered", "Place", "Weighed", "beside", "gather", "located"]

_READ = 20_000
"""How many places of terms are read; a term with more is too common to be looked up."""
_COUNTED = 100_000
"""More places than this are not counted."""
_EVERYWHERE = 5_000
"""A term with more places tells nothing, for those who look for what tells."""
_TELLING = 2
"""Common terms that may tell candidates apart."""
_SHARE = 20
"""A term in more than one of so many documents tells nothing apart."""
_PAIRED = 3
"""Terms that are looked for two by two where all are common."""
_DEPTH = 400
"""Candidates whose length is looked at."""


class Weighed(NamedTuple):
    """A term and what it counts."""

    term: Term
    documents: int
    weight: float


class Place(NamedTuple):
    """An entry: the number of the thread that wrote it, and its place there."""

    number: int
    seq: int


class Candidate(NamedTuple):
    """A document that may be a hit."""

    id: int
    place: Place
    length: int
    known: int = 0
    """One bit for each term that it is known to hold."""


class Gathered(NamedTuple):
    """What a question found in the index."""

    terms: tuple[Weighed, ...]
    candidates: list[Candidate]
    average: float


def gather(
    connection: sqlite3.Connection, question: Question, scope: Scope, most: int, query: Search
) -> Gathered:
    """The best `most` candidates, as far as the index can tell them."""
    known, scope = totals(connection), scope.resolved(connection)
    sought = question.terms
    if query.telling:
        sought = tuple(term for term in sought if not _is_everywhere(connection, term))
    terms = tuple(_weighed(connection, sought, known))
    if query.every:
        held = _with_every(connection, terms, scope, max(most, _DEPTH))
    else:
        held = _held(connection, terms, scope, known, max(most, _DEPTH))
    best = _best(held, terms, max(most, _DEPTH))
    found = [doc._replace(known=held[doc.id]) for doc in located(connection, best)]
    found.sort(key=lambda doc: (-_estimate(doc, terms, known.average), -doc.id))
    return Gathered(terms, found[:most], known.average)


def _is_everywhere(connection: sqlite3.Connection, term: Term) -> bool:
    """Whether a term is in so many documents that it says nothing of any."""
    found = connection.execute(
        "SELECT 1 FROM words WHERE words MATCH ? LIMIT 1 OFFSET ?", (term.match, _EVERYWHERE)
    )
    return found.fetchone() is not None


def _weighed(
    connection: sqlite3.Connection, terms: Iterable[Term], known: Totals
) -> Iterable[Weighed]:
    """The terms and what they weigh, the rarest first; parts only of names nobody used."""
    counted = {term: min(_documents(connection, term), known.documents) for term in terms}
    names = {term.text for term, documents in counted.items() if term.whole and documents}
    for term, documents in sorted(counted.items(), key=lambda each: each[1]):
        if term.whole or (documents and term.part_of not in names):
            odds = (known.documents - documents + 0.5) / (documents + 0.5)
            yield Weighed(term, documents, term.weight * math.log1p(odds))


def _documents(connection: sqlite3.Connection, term: Term) -> int:
    """In how many documents a term occurs; of a very common one only that it does."""
    (documents,) = connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)",
        (term.match, _COUNTED),
    ).fetchone()
    return int(documents)


def _with_every(
    connection: sqlite3.Connection, terms: Sequence[Weighed], scope: Scope, most: int
) -> dict[int, int]:
    """Documents that hold every word of the question, the newest."""
    wholes = [each.term.match for each in terms if each.term.whole]
    if not wholes:
        return {}
    found = matching(connection, " AND ".join(wholes), scope, newest=most)
    bits = sum(1 << at for at, each in enumerate(terms) if each.term.whole)
    return dict.fromkeys(found, bits)


def _held(
    connection: sqlite3.Connection,
    terms: Sequence[Weighed],
    scope: Scope,
    known: Totals,
    most: int,
) -> dict[int, int]:
    """The terms, as bits, that documents are known to hold."""
    occurring = [(at, each) for at, each in enumerate(terms) if each.documents]
    rare = _affordable(occurring, scope)
    if not rare or len(occurring) == 1:
        return _newest(connection, occurring, scope, most)
    held: dict[int, int] = {}
    for at, each in rare:
        found, bit = matching(connection, each.term.match, scope), 1 << at
        both = {document: held[document] | bit for document in held.keys() & set(found)}
        held.update(dict.fromkeys(found, bit))
        held.update(both)
    among = " OR ".join(each.term.match for _, each in rare)
    telling = [each for each in occurring if each not in rare and _tells(each[1], known)]
    for at, each in telling[:_TELLING]:
        for document in matching(connection, f"{each.term.match} AND ({among})", scope):
            if document in held:
                held[document] |= 1 << at
    return held


def _affordable(terms: Sequence[tuple[int, Weighed]], scope: Scope) -> list[tuple[int, Weighed]]:
    """The rarest terms, as many as may be looked up."""
    rare: list[tuple[int, Weighed]] = []
    cost = 0
    for at, each in terms:
        cost += min(each.documents, scope.size)
        if cost > _READ:
            break
        rare.append((at, each))
    return rare


def _tells(each: Weighed, known: Totals) -> bool:
    return each.documents * _SHARE <= known.documents


def _newest(
    connection: sqlite3.Connection,
    terms: Sequence[tuple[int, Weighed]],
    scope: Scope,
    most: int,
) -> dict[int, int]:
    """The newest documents with all of the terms, and with one and two of the rarest."""
    rarest = terms[:_PAIRED]
    held: dict[int, int] = {}
    for chosen in {tuple(terms), *combinations(rarest, 1), *combinations(rarest, 2)} - {()}:
        expression = " AND ".join(each.term.match for _, each in chosen)
        bits = sum(1 << at for at, _ in chosen)
        for document in matching(connection, expression, scope, newest=most):
            held[document] = held.get(document, 0) | bits
    return held


def _best(held: dict[int, int], terms: Sequence[Weighed], most: int) -> list[int]:
    """The documents whose terms weigh most; the newest among equals."""
    alike: dict[int, list[int]] = defaultdict(list)
    for document, bits in held.items():
        alike[bits].append(document)
    best: list[int] = []
    for bits in sorted(alike, key=lambda bits: -_weight(bits, terms)):
        best += heapq.nlargest(most - len(best), alike[bits])
        if len(best) >= most:
            break
    return best


def _weight(bits: int, terms: Sequence[Weighed]) -> float:
    return sum(each.weight for at, each in enumerate(terms) if bits >> at & 1)


def _estimate(doc: Candidate, terms: Sequence[Weighed], average: float) -> float:
    """What a document will roughly score: the longer it is, the less its terms say."""
    return _weight(doc.known, terms) / (1.0 + 0.5 * doc.length / average)


def located(connection: sqlite3.Connection, ids: Sequence[int]) -> list[Candidate]:
    """The documents that still exist, in the order given."""
    found: dict[int, Candidate] = {}
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        rows = connection.execute(
            f"SELECT id, place, length FROM documents WHERE id IN ({', '.join('?' * len(some))})",
            some,
        )
        for at, where, length in rows:
            found[at] = Candidate(at, Place(where >> 32, where & MAX_SEQ), length)
    return [found[at] for at in ids if at in found]


def beside(connection: sqlite3.Connection, entry: Place, reach: int) -> list[int]:
    """The entries of a thread that say something just before and after one of them."""
    at = place(*entry)
    before = connection.execute(
        "SELECT place FROM documents WHERE place >= ? AND place < ? ORDER BY place DESC LIMIT ?",
        (place(entry.number, 0), at, reach),
    ).fetchall()
    after = connection.execute(
        "SELECT place FROM documents WHERE place > ? AND place <= ? ORDER BY place LIMIT ?",
        (at, place(entry.number, MAX_SEQ), reach),
    ).fetchall()
    return [where & MAX_SEQ for (where,) in (*before[::-1], *after)]
