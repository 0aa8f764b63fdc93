"""Fitting: text within a number of columns.

Invariant: what is cut ends in an ellipsis, and wide characters count as two columns.
"""

from __future__ import annotations

from prompt_toolkit.utils import get_cwidth

__all__ = ["fit"]


def fit(text: str, columns: int, *, pad: bool = False) -> str:
    """Return one line of text that takes at most `columns`, or exactly that many."""
    taken = get_cwidth(text)
    if taken > columns:
        text, taken = _cut(text, columns)
    return text + " " * (columns - taken) if pad else text


def _cut(text: str, columns: int) -> tuple[str, int]:
    if columns < 1:
        return "", 0
    taken = 0
    for position, character in enumerate(text):
        width = get_cwidth(character)
        if taken + width > columns - 1:
            return text[:position] + "…", taken + 1
        taken += width
    return text, taken
