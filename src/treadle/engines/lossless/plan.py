"""The plan: which stretches of a view may become summaries, and which should.

Owns water marks, sizes and cuts; pure. Invariants: a stretch is cut between steps and
never parts a call from its output; what is fresh or was said to the live turn is in none;
and stretches are counted from the oldest item on, so that what is appended later moves
no border.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, pairwise

import msgspec
from msgspec import Struct

from ...context.row import Row, shape_of
from ...context.rules import legal_cuts
from ..values import ContextItem
from .nodes import node_key

__all__ = ["Measures", "Stretch", "condensable", "fresh_from", "mergeable", "stretches"]

_SCRAP = 8
"""What is left between summaries is a scrap where it is not even such a part of a leaf …"""
_SCRAP_TOKENS = 256
"""… or hardly more than any summary takes."""
_LEAST_TOKENS = 128
"""Less than this is not worth a summary even where room is short."""


class Measures(Struct, frozen=True, kw_only=True):
    """When summaries are prepared and published, and how large things are."""

    prepare: float = 0.4
    """From this part of the budget on, summaries are made ready."""
    high: float = 0.75
    """Above it they are published …"""
    low: float = 0.5
    """… until the view is down to this."""
    hard: float = 0.9
    """Above it nothing is waited for."""
    summaries: float = 0.2
    """How much of the budget summaries may take before the oldest are condensed."""
    leaf_tokens: int = 20_000
    leaf_target: int = 2_400
    condensed_target: int = 2_000
    leaf_fan_in: int = 8
    """How many leaves are condensed into one node …"""
    fan_in: int = 4
    """… and how many condensed ones."""
    tail_tokens: int = 24_000
    """How much of the newest items is never summarised, at most."""

    def within(self, budget: int) -> Measures:
        """The same for a window that may be small."""
        leaf = max(64, min(self.leaf_tokens, budget // 8))
        return msgspec.structs.replace(
            self,
            leaf_tokens=leaf,
            leaf_target=max(32, min(self.leaf_target, leaf // 4)),
            condensed_target=max(32, min(self.condensed_target, leaf // 4)),
            tail_tokens=min(self.tail_tokens, budget // 5),
        )


class Stretch(Struct, frozen=True, kw_only=True):
    """Neighbouring items that one summary may stand for."""

    start: int
    end: int
    """Positions in the conversation; `end` is not part of it."""
    items: tuple[ContextItem, ...]
    depth: int = 0
    merged: bool = False
    """The items are extracts; what is summarised are the entries behind them."""
    key: str
    tokens: int


def fresh_from(items: Sequence[ContextItem], measures: Measures) -> int:
    """Where the fresh items begin: the newest step, and before it as many as are cheap."""
    spare, start = measures.tail_tokens, len(items)
    while start > 0 and spare >= items[start - 1].tokens:
        start -= 1
        spare -= items[start].tokens
    return min(start, _newest_step(items))


def _newest_step(items: Sequence[ContextItem]) -> int:
    """Where the newest step begins."""
    at = len(items)
    while at > 0 and (items[at - 1].turn, items[at - 1].step) == (
        items[-1].turn,
        items[-1].step,
    ):
        at -= 1
    return at


def stretches(
    items: Sequence[ContextItem],
    live: int,
    measures: Measures,
    *,
    upto: int | None = None,
    unfinished: bool = False,
) -> list[Stretch]:
    """What leaves may be made of, oldest first.

    `live` is where the current turn begins: what was said to it is never part of one. The
    last stretch may still grow and is left out unless `unfinished` ones count. Scraps between
    summaries are left to those who condense them.
    """
    end = fresh_from(items, measures) if upto is None else upto
    # Where a list may be cut depends on what stands before it, and on the item after the cut.
    cuts, most, sizes = _cuts(items[: end + 1]), measures.leaf_tokens, _Sizes(items[:end])
    found: list[Stretch] = []
    for start, stop in _runs(items, live, end):
        borders = [cut for cut in cuts if start <= cut <= stop]
        closed = stop < end and items[stop].seq is None
        growing = _LEAST_TOKENS if unfinished else most
        least = _scrap(measures) if closed else growing
        found += _chunks(items, borders, sizes, most, least)
    return found


def condensable(
    items: Sequence[ContextItem], depths: Mapping[str, int], live: int, measures: Measures
) -> Stretch | None:
    """The oldest neighbouring summaries of one depth that are many enough, shallowest first.

    `depths` are those of the summaries that may be condensed, by name. Scraps between them
    are taken along, unless they were said to the turn that begins at `live`.
    """
    for depth in sorted(set(depths.values())):
        fan_in = measures.leaf_fan_in if depth == 0 else measures.fan_in
        names = {name for name, each in depths.items() if each == depth}
        if (run := _first_run(items, names, fan_in, live, measures)) is not None:
            return _stretch(items, *run, depth + 1)
    return None


def mergeable(
    items: Sequence[ContextItem], extracts: AbstractSet[str], live: int, measures: Measures
) -> Stretch | None:
    """The oldest neighbouring extracts that are many enough to become one.

    Extracts are never condensed: the entries behind them are extracted anew, as one.
    """
    run = _first_run(items, extracts, measures.leaf_fan_in, live, measures)
    if run is None:
        return None
    return msgspec.structs.replace(_stretch(items, *run), merged=True)


def _first_run(
    items: Sequence[ContextItem],
    names: AbstractSet[str],
    length: int,
    live: int,
    measures: Measures,
) -> tuple[int, int] | None:
    """Where `length` items stand that have one of `names`, with only scraps between them."""
    start = run = scraps = 0
    for at, item in enumerate(items):
        if item.name is not None and item.name in names:
            start = start if run else at
            run, scraps = run + 1, 0
        elif run and item.seq is not None and not _said(items, at, live):
            scraps += item.tokens
            run = run if scraps < _scrap(measures) else 0
        else:
            run = scraps = 0
        if run == length:
            return start, at + 1
    return None


def _scrap(measures: Measures) -> int:
    """From how many tokens on it is worth a summary of its own."""
    return max(measures.leaf_tokens // _SCRAP, _SCRAP_TOKENS)


def _said(items: Sequence[ContextItem], at: int, live: int) -> bool:
    """Whether an item was said to the live turn."""
    return at >= live and shape_of(items[at].body).role == "user"


def _runs(items: Sequence[ContextItem], live: int, end: int) -> Iterator[tuple[int, int]]:
    """Neighbouring raw items before `end`, without what was said to the live turn."""
    start = None
    for at in range(end + 1):
        raw = at < end and items[at].seq is not None and not _said(items, at, live)
        if raw and start is None:
            start = at
        elif not raw and start is not None:
            yield start, at
            start = None


class _Sizes:
    """The tokens of any neighbouring items, added up once."""

    def __init__(self, items: Sequence[ContextItem]) -> None:
        self._before = list(accumulate((item.tokens for item in items), initial=0))

    def between(self, start: int, end: int) -> int:
        return self._before[end] - self._before[start]


def _chunks(
    items: Sequence[ContextItem], borders: Sequence[int], sizes: _Sizes, most: int, least: int
) -> Iterator[Stretch]:
    """Stretches of at most `most` tokens, the last of at least `least`; a step may be larger."""
    if len(borders) < 2:
        return
    start = borders[0]
    for left, right in pairwise(borders):
        while left > start and sizes.between(start, right) > most:
            inner = borders[bisect_right(borders, start) : bisect_right(borders, left)]
            cut = _turn_border(items, inner, sizes, start, most)
            yield _stretch(items, start, cut)
            start = cut
    if start < borders[-1] and sizes.between(start, borders[-1]) >= least:
        yield _stretch(items, start, borders[-1])


def _turn_border(
    items: Sequence[ContextItem], borders: Sequence[int], sizes: _Sizes, start: int, most: int
) -> int:
    """Where a turn begins in the later half of a stretch, else at the last of `borders`."""
    for cut in reversed(borders):
        begins = cut == len(items) or items[cut].turn != items[cut - 1].turn
        if begins and sizes.between(start, cut) >= most // 2:
            return cut
    return borders[-1]


def _stretch(items: Sequence[ContextItem], start: int, end: int, depth: int = 0) -> Stretch:
    part = tuple(items[start:end])
    key, tokens = node_key(part, depth), sum(item.tokens for item in part)
    return Stretch(start=start, end=end, items=part, depth=depth, key=key, tokens=tokens)


def _cuts(items: Sequence[ContextItem]) -> list[int]:
    rows = [
        Row(body=item.body, shape=shape_of(item.body), turn=item.turn, step=item.step)
        for item in items
    ]
    return legal_cuts(rows)
