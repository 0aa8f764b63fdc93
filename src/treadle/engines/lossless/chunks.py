"""Plan which chunks of a view become summaries, and put summaries in their place.

Owns thresholds, cuts and the step from high to low water; pure. Invariants: a chunk is
cut between steps and never separates a call from its output; the fresh tail and the input
of the live turn are in no chunk; chunks are counted from the oldest item on, so that later
items move no cut; nodes replace chunks from the oldest on.
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
from .nodes import SummaryNode, node_key

__all__ = [
    "ItemChunk",
    "ReducedItems",
    "Thresholds",
    "chunk_to_condense",
    "chunk_to_merge",
    "chunks_to_squeeze",
    "leaf_chunks",
    "replace_chunks",
    "tail_start",
    "token_count",
]

_BETWEEN_PARTS = 8
"""Items between summaries get one of their own only from this part of a leaf on …"""
_BETWEEN_TOKENS = 256
"""… and from these tokens on."""
_LEAST_TOKENS = 128
"""Fewer tokens are not worth a summary even where room is short."""


class Thresholds(Struct, frozen=True, kw_only=True):
    """When summaries are prepared and published, and how large they are; parts of the budget."""

    prepare: float = 0.4
    """From here on summaries are written ahead."""
    high: float = 0.75
    """Above it they are published …"""
    low: float = 0.5
    """… until the view is down to this."""
    hard: float = 0.9
    """Above it no model is waited for."""
    summaries: float = 0.2
    """How much summaries may take before the oldest are condensed."""
    leaf_tokens: int = 20_000
    leaf_target: int = 2_400
    condensed_target: int = 2_000
    leaf_fan_in: int = 8
    """How many leaves are condensed into one node …"""
    fan_in: int = 4
    """… and how many condensed ones."""
    tail_tokens: int = 24_000
    """How many tokens of the newest items are never summarised, at most."""

    def for_budget(self, budget: int) -> Thresholds:
        """Return the same for a budget that may be small."""
        leaf = max(64, min(self.leaf_tokens, budget // 8))
        return msgspec.structs.replace(
            self,
            leaf_tokens=leaf,
            leaf_target=max(32, min(self.leaf_target, leaf // 4)),
            condensed_target=max(32, min(self.condensed_target, leaf // 4)),
            tail_tokens=min(self.tail_tokens, budget // 5),
        )


class ItemChunk(Struct, frozen=True, kw_only=True):
    """Neighbouring items that one summary may replace."""

    start: int
    end: int
    """Positions in the conversation; `end` is not part of it."""
    items: tuple[ContextItem, ...]
    depth: int = 0
    merged: bool = False
    """Whether the items are extracts; the entries below them are then summarised."""
    key: str
    tokens: int


def tail_start(items: Sequence[ContextItem], thresholds: Thresholds) -> int:
    """Return where the fresh tail begins: the newest step, and what fits before it."""
    spare, start = thresholds.tail_tokens, len(items)
    while start > 0 and spare >= items[start - 1].tokens:
        start -= 1
        spare -= items[start].tokens
    return min(start, _newest_step(items))


def _newest_step(items: Sequence[ContextItem]) -> int:
    """Return where the newest step begins."""
    at = len(items)
    while at > 0 and (items[at - 1].turn, items[at - 1].step) == (
        items[-1].turn,
        items[-1].step,
    ):
        at -= 1
    return at


def leaf_chunks(
    items: Sequence[ContextItem],
    live: int,
    thresholds: Thresholds,
    *,
    upto: int | None = None,
    unfinished: bool = False,
) -> list[ItemChunk]:
    """Return the chunks that leaves may be made of, oldest first.

    `live` is where the current turn begins: its input is never part of a chunk. The last
    chunk may still grow and is left out unless `unfinished` ones count. A few items between
    summaries stay until the summaries around them are condensed.
    """
    end = tail_start(items, thresholds) if upto is None else upto
    # Whether a cut is legal depends on the items before it, and on the one after it.
    cuts, most = _legal_cuts(items[: end + 1]), thresholds.leaf_tokens
    sums = list(accumulate((item.tokens for item in items[:end]), initial=0))
    found: list[ItemChunk] = []
    for start, stop in _raw_runs(items, live, end):
        borders = [cut for cut in cuts if start <= cut <= stop]
        closed = stop < end and items[stop].seq is None
        # A chunk that is exactly full may still be cut at an earlier turn by what follows.
        growing = _LEAST_TOKENS if unfinished else most + 1
        least = _least_tokens(thresholds) if closed else growing
        found += _split(items, borders, sums, most, least)
    return found


def chunk_to_condense(
    items: Sequence[ContextItem], depths: Mapping[str, int], live: int, thresholds: Thresholds
) -> ItemChunk | None:
    """Return the oldest neighbouring summaries of one depth that are enough to condense.

    `depths` are those of the summaries that may be condensed, by name; low depths go first.
    A few items between them are condensed too, except the input of the turn at `live`.
    """
    for depth in sorted(set(depths.values())):
        fan_in = thresholds.leaf_fan_in if depth == 0 else thresholds.fan_in
        names = {name for name, each in depths.items() if each == depth}
        if (run := _first_run(items, names, fan_in, live, thresholds)) is not None:
            return _chunk(items, *run, depth + 1)
    return None


def chunk_to_merge(
    items: Sequence[ContextItem], extracts: AbstractSet[str], live: int, thresholds: Thresholds
) -> ItemChunk | None:
    """Return the oldest neighbouring extracts that are enough to become one.

    Extracts are never condensed: the entries below them are extracted again, as one.
    """
    run = _first_run(items, extracts, thresholds.leaf_fan_in, live, thresholds)
    if run is None:
        return None
    return msgspec.structs.replace(_chunk(items, *run), merged=True)


def chunks_to_squeeze(
    items: Sequence[ContextItem], live: int, thresholds: Thresholds
) -> list[ItemChunk]:
    """Return the neighbouring summaries of any kind that become one each, oldest first."""
    names = {item.name for item in items if item.name is not None}
    for length in (thresholds.leaf_fan_in, thresholds.fan_in, 2):
        found: list[ItemChunk] = []
        at = 0
        while (run := _first_run(items[at:], names, length, live - at, thresholds)) is not None:
            chunk = _chunk(items, at + run[0], at + run[1])
            found.append(msgspec.structs.replace(chunk, merged=True))
            at = chunk.end
        if found:
            return found
    return []


def _first_run(
    items: Sequence[ContextItem],
    names: AbstractSet[str],
    length: int,
    live: int,
    thresholds: Thresholds,
) -> tuple[int, int] | None:
    """Return the first run of `length` items with one of `names`, with few items between them."""
    start = run = between = 0
    for at, item in enumerate(items):
        if item.name is not None and item.name in names:
            start = start if run else at
            run, between = run + 1, 0
        elif run and item.seq is not None and not _is_live_input(items, at, live):
            between += item.tokens
            run = run if between < _least_tokens(thresholds) else 0
        else:
            run = between = 0
        if run == length:
            return start, at + 1
    return None


def _least_tokens(thresholds: Thresholds) -> int:
    """Return how many tokens are worth a summary between two others."""
    return max(thresholds.leaf_tokens // _BETWEEN_PARTS, _BETWEEN_TOKENS)


def _is_live_input(items: Sequence[ContextItem], at: int, live: int) -> bool:
    """Return whether an item is input of the live turn."""
    return at >= live and shape_of(items[at].body).role == "user"


def _raw_runs(items: Sequence[ContextItem], live: int, end: int) -> Iterator[tuple[int, int]]:
    """Return the runs of raw items before `end`, without the input of the live turn."""
    start = None
    for at in range(end + 1):
        raw = at < end and items[at].seq is not None and not _is_live_input(items, at, live)
        if raw and start is None:
            start = at
        elif not raw and start is not None:
            yield start, at
            start = None


def _split(
    items: Sequence[ContextItem], borders: Sequence[int], sums: Sequence[int], most: int, least: int
) -> Iterator[ItemChunk]:
    """Return chunks of at most `most` tokens, the last of at least `least`; a step may be larger.

    `sums` are the tokens before each item.
    """
    if len(borders) < 2:
        return
    start = borders[0]
    for left, right in pairwise(borders):
        while left > start and sums[right] - sums[start] > most:
            inner = borders[bisect_right(borders, start) : bisect_right(borders, left)]
            cut = _cut_at_turn(items, inner, sums, start, most)
            yield _chunk(items, start, cut)
            start = cut
    if start < borders[-1] and sums[borders[-1]] - sums[start] >= least:
        yield _chunk(items, start, borders[-1])


def _cut_at_turn(
    items: Sequence[ContextItem], borders: Sequence[int], sums: Sequence[int], start: int, most: int
) -> int:
    """Return the last start of a turn in the later half of a chunk, else the last of `borders`."""
    for cut in reversed(borders):
        begins = cut == len(items) or items[cut].turn != items[cut - 1].turn
        if begins and sums[cut] - sums[start] >= most // 2:
            return cut
    return borders[-1]


def _chunk(items: Sequence[ContextItem], start: int, end: int, depth: int = 0) -> ItemChunk:
    part = tuple(items[start:end])
    key, tokens = node_key(part, depth), sum(item.tokens for item in part)
    return ItemChunk(start=start, end=end, items=part, depth=depth, key=key, tokens=tokens)


def _legal_cuts(items: Sequence[ContextItem]) -> list[int]:
    rows = [
        Row(body=item.body, shape=shape_of(item.body), turn=item.turn, step=item.step)
        for item in items
    ]
    return legal_cuts(rows)


class ReducedItems(Struct, frozen=True, kw_only=True):
    """A conversation with nodes in place of chunks."""

    items: tuple[ContextItem, ...]
    tokens: int
    missing: tuple[ItemChunk, ...] = ()
    """Chunks that stayed because they have no node yet."""
    replaced: int = 0
    """How many chunks were replaced."""


def token_count(items: Sequence[ContextItem]) -> int:
    """Return the tokens of a conversation."""
    return sum(item.tokens for item in items)


def replace_chunks(
    items: Sequence[ContextItem],
    chunks: Sequence[ItemChunk],
    nodes: Mapping[str, SummaryNode],
    target: int,
) -> ReducedItems:
    """Replace chunks by their nodes, oldest first, until `items` take `target` tokens."""
    tokens = token_count(items)
    replaced: dict[int, tuple[int, SummaryNode]] = {}
    missing: list[ItemChunk] = []
    for chunk in chunks:
        if tokens <= target:
            break
        node = nodes.get(chunk.key)
        if node is None:
            missing.append(chunk)
        elif node.tokens < chunk.tokens:
            replaced[chunk.start] = chunk.end, node
            tokens += node.tokens - chunk.tokens
    return ReducedItems(
        items=_with_nodes(items, replaced),
        tokens=tokens,
        missing=tuple(missing),
        replaced=len(replaced),
    )


def _with_nodes(
    items: Sequence[ContextItem], replaced: Mapping[int, tuple[int, SummaryNode]]
) -> tuple[ContextItem, ...]:
    result: list[ContextItem] = []
    at = 0
    while at < len(items):
        if at in replaced:
            at, node = replaced[at]
            result.append(node.item())
        else:
            result.append(items[at])
            at += 1
    return tuple(result)
