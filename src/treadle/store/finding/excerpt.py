"""Excerpts: the piece of a text that shows why it was found.

Owns its length and how it is cut. Invariant: one line, and never more of a text than
is shown is held beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from ...core.patterns import regex
from .terms import fold

__all__ = ["WIDTH", "excerpt", "excerpt_at"]

WIDTH = 200
"""Characters of a text that are shown."""

_READ = 200_000
_PLACES = 8
"""How many places of each pattern are weighed against others."""
_SPACE = regex(r"\s+")


def excerpt(text: str, patterns: Sequence[re.Pattern[str]]) -> str:
    """The piece of `text` in which most of the patterns are found."""
    folded = fold(text[:_READ])
    places = sorted(
        (found.start(), at)
        for at, pattern in enumerate(patterns)
        for found in islice(pattern.finditer(folded), _PLACES)
    )
    best, start = 0, places[0][0] if places else 0
    for place, _ in places:
        distinct = len({at for other, at in places if place <= other < place + WIDTH * 3 // 4})
        if distinct > best:
            best, start = distinct, place
    # Folding can change lengths; the place is then near enough.
    return excerpt_at(text, start * len(text[:_READ]) // max(len(folded), 1))


def excerpt_at(text: str, place: int) -> str:
    """The piece of `text` around a place, on one line, cut between words."""
    first = max(0, place - WIDTH // 4)
    if len(text) <= WIDTH + WIDTH // 4:
        first = 0
    last = first + WIDTH + (WIDTH // 4 if first == 0 else 0)
    piece = text[first:last]
    if first:
        piece = "…" + _after_break(piece)
    if last < len(text):
        piece = _before_break(piece) + "…"
    return _SPACE.sub(" ", piece).strip()


def _after_break(piece: str) -> str:
    found = _SPACE.search(piece, 0, WIDTH // 8)
    return piece[found.end() :] if found else piece


def _before_break(piece: str) -> str:
    shorter, space, _ = piece.rpartition(" ")
    return shorter if space and len(shorter) > len(piece) - WIDTH // 8 else piece
