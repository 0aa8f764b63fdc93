"""Closed lists of names, written as running text."""

from __future__ import annotations

__all__ = ["word_set"]


def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`, as a set."""
    return frozenset(text.split())
