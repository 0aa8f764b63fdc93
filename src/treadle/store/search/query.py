"""Search queries and their results.

Owns the values of `Index.search`. Invariant: a query is a plain value; the same query
over the same log finds the same entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from msgspec import Struct

from .weights import RankWeights

__all__ = ["Hit", "HitReasons", "Hits", "Search", "SearchMode"]

SearchMode: TypeAlias = Literal["words", "substring", "regex"]


class Search(Struct, frozen=True, omit_defaults=True):
    """What to look for, and where.

    ``words`` ranks the entries that hold any of the words, in whatever form, best first;
    a "quoted phrase" counts more. ``substring`` finds the text as it stands, in upper or
    lower case, and ``regex`` what a regular expression matches; both newest first.
    """

    text: str
    mode: SearchMode = "words"
    threads: tuple[str, ...] | None = None
    """Search only these threads; None for all."""
    roles: tuple[str, ...] = ()
    """``user``, ``assistant``, ``tool``, ``thinking`` …; empty for all."""
    tools: tuple[str, ...] = ()
    """Search only calls of these tools and their outputs."""
    since: int | None = None
    """Milliseconds since 1970, included."""
    until: int | None = None
    limit: int = 20
    neighbours: int = 0
    """How many entries before and after each hit to name."""
    all_words: bool = False
    """Find only entries that hold every word."""
    skip_common: bool = False
    """Ignore words that stand everywhere in the threads that are searched."""
    distinct: bool = False
    """Leave out a hit that stands among the neighbours of a better one."""
    snippet: int = 200
    """About how many characters of a hit's text to show."""
    explain: bool = False
    """Say of each hit why it was found; only for words."""
    weights: RankWeights = RankWeights()
    wait_for_vectors: bool = False
    """Load the model of the extra `semantic` first, which takes a second; else vectors count
    from the next search on."""
    index_most: int | None = None
    """How many new entries are indexed before the search answers; None for the usual bound."""
    indexed_upto: int | None = None
    """The last entry that must be indexed before the search answers; None for all entries."""


class HitReasons(Struct, frozen=True):
    """Why a hit stands where it stands: its score is the sum, times the factors."""

    words: dict[str, float]
    """What each word of the query adds that stands in the passage."""
    pairs: float = 0.0
    """What words add that stand together, as in the query."""
    meaning: float = 0.0
    """What it adds that the passage means the same, by the vectors of the extra `semantic`."""
    reply: float = 0.0
    """What it adds that it follows a question with words of the query."""
    window: float = 0.0
    """What the few turns around it add …"""
    stretch: float = 0.0
    """… and the stretch of the talk that it belongs to."""
    factors: dict[str, float] = {}


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
    """The id that the entry had where it was imported from."""
    neighbours: tuple[int, ...] = ()
    """The entries with text around it, in log order."""
    why: HitReasons | None = None


class Hits(list[Hit]):
    """The hits of a search, in order."""

    def __init__(self, hits: Iterable[Hit] = (), note: str = "") -> None:
        super().__init__(hits)
        self.note = note
        """What was not searched, and how to reach it; empty when everything was searched."""
        self.left = 0
        """About how many entries were not indexed in time."""
