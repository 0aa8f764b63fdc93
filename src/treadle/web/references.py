"""Results that nothing refers to again: what a window could do without.

Owns what counts as a reference. Invariant: a result is only called unused where the model has
said something since, and nothing of it has a word that the result brought into the window.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..context.row import Row
from .entry_views import item_text

__all__ = ["find_unreferred"]

_WORD = re.compile(r"[\w][\w./:-]{2,60}")
_MOST_CHARACTERS = 200_000
"""Of one text; who quotes only what comes behind them is not found."""
_SMALLEST = 64
"""Tokens; less is not worth telling."""
_MODEL = frozenset({"reasoning", "function_call", "custom_tool_call", "local_shell_call"})


def find_unreferred(rows: Sequence[Row]) -> list[Row]:
    """Return the results of calls to which nothing refers that the model said later."""
    known: set[str] = set()
    waiting: dict[int, set[str]] = {}
    """The words that each result was the first to say, by its place."""
    spoke = -1
    for at, row in enumerate(rows):
        words = _words(row)
        if _by_model(row):
            spoke = at
            for place in [each for each, own in waiting.items() if not own.isdisjoint(words)]:
                del waiting[place]
        elif row.shape.type.endswith("_output") and row.tokens >= _SMALLEST:
            waiting[at] = words - known
        known |= words
    return [rows[at] for at in waiting if at < spoke]


def _by_model(row: Row) -> bool:
    return row.shape.role == "assistant" or row.shape.type in _MODEL


def _words(row: Row) -> set[str]:
    text = item_text(row.item, row.body)[:_MOST_CHARACTERS]
    return set(_stems(_WORD.findall(text.lower())))


def _stems(words: Iterable[str]) -> Iterable[str]:
    """Yield words, and of paths and dotted names their last part."""
    for word in words:
        plain = word.strip("./:-")
        yield plain
        for mark in "/.:":
            if mark in plain:
                yield plain.rpartition(mark)[2]
