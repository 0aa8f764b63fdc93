"""Closed lists of names, written as running text.

Owns one function, in a module of its own: what checks commands needs it, also where nothing
else of ours is. Invariant: imports nothing.
"""

from __future__ import annotations

__all__ = ["word_set"]


def word_set(text: str) -> frozenset[str]:
    """Return the words of `text`, as a set."""
    return frozenset(text.split())
