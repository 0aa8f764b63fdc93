"""Literals: text that everything a search wants must contain.

Owns what a substring or a pattern asks of the index before any text is read. Invariant:
the index may let through too much, never too little.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...core.patterns import regex
from .pattern import Chars, Choice, Edge, Node, Repeat, Row
from .question import quoted
from .stem import stem
from .terms import OVERLAP, fold, is_unspaced

__all__ = ["literals_of", "required"]

_MOST_SPELLINGS = 300
"""More spellings than this and a piece says nothing."""
_MOST_PIECES = 12
_PIECE = regex(r"\w+")


class _Piece(NamedTuple):
    """Letters of a literal; where it is open, the word may go on."""

    text: str
    opens: bool
    """Whether the word may have begun before it."""
    ends: bool
    """Whether the word may end after it."""


def literals_of(node: Node) -> list[str]:
    """The texts that stand in everything the pattern matches."""
    found: list[str] = []
    run = ""
    for part in node.parts if isinstance(node, Row) else (node,):
        letter = part.literal if isinstance(part, Chars) else None
        if letter is not None:
            run += letter
            continue
        if isinstance(part, Edge):
            continue
        found.append(run)
        run = ""
        if isinstance(part, Row) or (isinstance(part, Repeat) and part.low):
            found += literals_of(part.part if isinstance(part, Repeat) else part)
        elif isinstance(part, Choice) and len(part.options) == 1:
            found += literals_of(part.options[0])
    return [literal for literal in (*found, run) if literal]


def required(connection: sqlite3.Connection, literals: Iterable[str]) -> str | None:
    """What the full-text table must hold of documents with these literals.

    Empty when it cannot tell; None when there can be no such document.
    """
    groups: list[str] = []
    pieces = [piece for literal in literals for piece in _pieces(literal)]
    for piece in sorted(pieces, key=lambda each: -len(each.text))[:_MOST_PIECES]:
        if groups and len(piece.text) < 3 and not is_unspaced(piece.text[0]):
            continue
        terms = _terms(connection, piece)
        if terms == []:
            return None
        if terms is not None:
            groups.append(f"({' OR '.join(terms)})")
    return " AND ".join(groups)


def _pieces(literal: str) -> Iterator[_Piece]:
    folded = fold(literal)
    for word in _PIECE.finditer(folded):
        opens, ends = word.start() == 0, word.end() == len(folded)
        runs = list(_runs(word[0]))
        for at, run in enumerate(runs):
            text = run.strip("_")
            if text:
                yield _Piece(text, opens and at == 0, ends and at == len(runs) - 1)


def _runs(word: str) -> Iterator[str]:
    """The word, parted where a script without spaces begins or ends."""
    start = 0
    for at in range(1, len(word) + 1):
        if at == len(word) or is_unspaced(word[at]) != is_unspaced(word[start]):
            yield word[start:at]
            start = at


def _terms(connection: sqlite3.Connection, piece: _Piece) -> list[str] | None:
    """The terms one of which a document with the piece holds; None when that is unknown."""
    text = piece.text
    if is_unspaced(text[0]):
        pairs = [text[n : n + 2] for n in range(len(text) - 1)]
        return [" AND ".join(map(quoted, pairs)) if pairs else f"{quoted(text)}*"]
    if len(text) > OVERLAP:
        piece = _Piece(text[:OVERLAP], opens=True, ends=True)
    if not piece.opens and not piece.ends:
        return [quoted(term) for term in {text, stem(text)}]
    words = _spellings(connection, piece)
    if len(words) > _MOST_SPELLINGS:
        return None
    return [
        quoted(term) for term in sorted({form for word in words for form in (word, stem(word))})
    ]


def _spellings(connection: sqlite3.Connection, piece: _Piece) -> list[str]:
    """The words that hold the piece, one more than enough at most."""
    text = piece.text
    if not piece.opens:
        rows = connection.execute(
            "SELECT word FROM spellings WHERE word >= ? AND word < ? LIMIT ?",
            (text, f"{text}\U0010ffff", _MOST_SPELLINGS + 1),
        )
        return [word for (word,) in rows]
    # The words end with the piece, or hold it anywhere.
    holds = "instr(s.word, ?2) > 0" if piece.ends else "substr(s.word, -length(?2)) = ?2"
    source, trigrams = "spellings s WHERE ?1 IS NULL AND", None
    if len(text) >= 3:
        source = "spelt CROSS JOIN spellings s ON s.id = spelt.rowid WHERE spelt MATCH ?1 AND"
        trigrams = " AND ".join(quoted(text[n : n + 3]) for n in range(len(text) - 2))
    rows = connection.execute(
        f"SELECT s.word FROM {source} {holds} LIMIT ?3", (trigrams, text, _MOST_SPELLINGS + 1)
    )
    return [word for (word,) in rows]
