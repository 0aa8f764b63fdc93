"""Searches and what they find.

Owns the values of `Index.search`. Invariant: a search is a plain value; the same one
over the same log finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["Hit", "Hits", "Search", "SearchMode"]

SearchMode: TypeAlias = Literal["words", "substring", "regex"]


class Search(Struct, frozen=True, omit_defaults=True):
    """What to look for, and where.

    ``words`` ranks what holds any of the words, in whatever form, best first; a "quoted
    phrase" counts more. ``substring`` finds the text as it stands, case aside, and
    ``regex`` what a regular expression matches; both newest first.
    """

    text: str
    mode: SearchMode = "words"
    threads: tuple[str, ...] | None = None
    """Only in these; None for all."""
    roles: tuple[str, ...] = ()
    """``user``, ``assistant``, ``tool``, ``thinking`` …; any when there is none."""
    tools: tuple[str, ...] = ()
    """Only calls of these tools and what they put out."""
    since: int | None = None
    """Milliseconds since 1970, included."""
    until: int | None = None
    limit: int = 20
    neighbours: int = 0
    """How many entries before and after each hit to name."""
    every: bool = False
    """Only what holds every word."""
    telling: bool = False
    """Only by words that tell entries apart: those that stand in thousands are left out."""
    indexed: int | None = None
    """Up to which entry its threads must be indexed before it answers; None for all of them."""


class Hit(Struct, frozen=True):
    """One entry that a search found."""

    thread: str
    seq: int
    score: float
    snippet: str
    time: int = 0
    role: str = ""
    turn: int = 0
    source_id: str | None = None
    """The id it had where it was imported from."""
    neighbours: tuple[int, ...] = ()
    """The entries around it that say something, in log order."""


class Hits(list[Hit]):
    """What a search found, in order."""

    def __init__(self, hits: Iterable[Hit] = (), note: str = "") -> None:
        super().__init__(hits)
        self.note = note
        """What was not looked at, and how to reach it; empty when everything was."""
