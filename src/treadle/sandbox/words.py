"""Words: closed lists of names, written as running text."""

from __future__ import annotations

__all__ = ["words"]


def words(text: str) -> frozenset[str]:
    """The words of `text`, as a set."""
    return frozenset(text.split())
