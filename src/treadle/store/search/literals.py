"""Literals: text that every match of a substring or regular expression must contain.

Owns what such a search asks of the index before any text is read. Invariant: the index
may let through too much, never too little.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .terms import PIECE_OVERLAP, fold, is_unspaced, quote_term, stem

__all__ = ["index_expression", "regex_literals"]

_MOST_SPELLINGS = 300
"""With more spellings than this a piece is of no use."""
_MOST_PIECES = 12
_WORD = re.compile(r"\w+")

_TOKEN = re.compile(
    r"""
      \\Q (?P<quoted> .*?) (?: \\E | \Z )
    | (?P<edge> \\[AbBz] | [\^$] )
    | \\ (?P<escaped> [^\w\s] )
    | (?P<other> \\[pP]\{[^}]*\} | \\[pP]. | \\x\{[^}]*\} | \\x.. | \\[0-7]{1,3} | \\. | \.
        | \[ \^? \]? (?: \[:[^\]]*:\] | \\. | [^\]] )* \] )
    | (?P<flags> \(\?[a-zA-Z-]+\) )
    | (?P<open> \( (?: \?P?<\w+> | \?[a-zA-Z-]*: )? )
    | (?P<close> \) )
    | (?P<either> \| )
    | (?P<repeat> (?: [*+?] | \{ (?P<low> \d+ ) (?: ,\d* )? \} ) \?? )
    | (?P<letter> . )
    """,
    re.VERBOSE | re.DOTALL,
)
"""One token of RE2's syntax, in a pattern that RE2 accepts."""


class _Piece(NamedTuple):
    """Letters of a literal, and where the word they stand in may go on."""

    text: str
    opens: bool
    """Whether the word may begin before the piece."""
    ends: bool
    """Whether the word may end after the piece."""


@dataclass(slots=True)
class _Group:
    """The literals of a group, as far as it was read."""

    literals: list[str] = field(default_factory=list)
    run: str = ""
    """The literal that is not finished yet."""
    last: list[str] = field(default_factory=list)
    """The literals of the group that ended just now; a repeat may drop them."""
    has_choice: bool = False

    def finish_run(self) -> None:
        self.literals += [*self.last, *filter(None, (self.run,))]
        self.last, self.run = [], ""

    def add(self, text: str) -> None:
        if self.last:
            self.finish_run()
        self.run += text

    def repeat(self, at_least: int) -> None:
        """Repeat what came last so many times or more."""
        if not at_least:
            self.last, self.run = [], self.run if self.last else self.run[:-1]
        self.finish_run()

    def close(self) -> list[str]:
        self.finish_run()
        return [] if self.has_choice else self.literals


def regex_literals(pattern: str) -> list[str]:
    """Return texts that stand in everything that a pattern of RE2's syntax matches."""
    groups = [_Group()]
    for token in _TOKEN.finditer(pattern):
        group = groups[-1]
        match token.lastgroup:
            case "letter" | "escaped" | "quoted":
                group.add(token[token.lastgroup])
            case "edge" | "flags":
                pass
            case "repeat" | "low":
                group.repeat(int(token["low"] or token["repeat"][0] == "+"))
            case "open":
                group.finish_run()
                groups.append(_Group())
            case "close" if len(groups) > 1:
                groups.pop()
                groups[-1].last = group.close()
            case "either":
                group.has_choice = True
                group.finish_run()
            case _:
                group.finish_run()
    return groups[0].close()


def index_expression(connection: sqlite3.Connection, literals: Iterable[str]) -> str | None:
    """Return what the full-text table must match for documents with all these literals.

    Return an empty expression when the table cannot help, None when there can be no such
    document.
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
    for word in _WORD.finditer(folded):
        opens, ends = word.start() == 0, word.end() == len(folded)
        runs = list(_runs(word[0]))
        for at, run in enumerate(runs):
            text = run.strip("_")
            if text:
                yield _Piece(text, opens and at == 0, ends and at == len(runs) - 1)


def _runs(word: str) -> Iterator[str]:
    """Yield the word, split where a script without spaces begins or ends."""
    start = 0
    for at in range(1, len(word) + 1):
        if at == len(word) or is_unspaced(word[at]) != is_unspaced(word[start]):
            yield word[start:at]
            start = at


def _terms(connection: sqlite3.Connection, piece: _Piece) -> list[str] | None:
    """Return terms of which a document with the piece holds one; None when they are unknown."""
    text = piece.text
    if is_unspaced(text[0]):
        pairs = [text[n : n + 2] for n in range(len(text) - 1)]
        return [" AND ".join(map(quote_term, pairs)) if pairs else f"{quote_term(text)}*"]
    if len(text) > PIECE_OVERLAP:
        piece = _Piece(text[:PIECE_OVERLAP], opens=True, ends=True)
    if not piece.opens and not piece.ends:
        return [quote_term(term) for term in {text, stem(text)}]
    words = _spellings(connection, piece)
    if len(words) > _MOST_SPELLINGS:
        return None
    return [
        quote_term(term) for term in sorted({form for word in words for form in (word, stem(word))})
    ]


def _spellings(connection: sqlite3.Connection, piece: _Piece) -> list[str]:
    """Return the words that hold the piece, at most one more than is useful."""
    text = piece.text
    if not piece.opens:
        rows = connection.execute(
            "SELECT word FROM spellings WHERE word >= ? AND word < ? LIMIT ?",
            (text, f"{text}\U0010ffff", _MOST_SPELLINGS + 1),
        )
        return [word for (word,) in rows]
    # The words end with the piece, or hold it anywhere.
    holds = "instr(s.word, :text) > 0" if piece.ends else "substr(s.word, -length(:text)) = :text"
    source, trigrams = "spellings s WHERE :trigrams IS NULL AND", None
    if len(text) >= 3:
        source = (
            "spelt CROSS JOIN spellings s ON s.id = spelt.rowid WHERE spelt MATCH :trigrams AND"
        )
        trigrams = " AND ".join(quote_term(text[n : n + 3]) for n in range(len(text) - 2))
    rows = connection.execute(
        f"SELECT s.word FROM {source} {holds} LIMIT :most",
        {"trigrams": trigrams, "text": text, "most": _MOST_SPELLINGS + 1},
    )
    return [word for (word,) in rows]
