"""Choosing: which ready nodes bring a view down to where it should be.

Owns the step from high to low water; pure. Invariant: nodes are taken from the oldest
stretch on, and older summaries keep their place unless they are condensed themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ..values import ContextItem
from .nodes import SummaryNode
from .plan import Stretch

__all__ = ["Chosen", "choose", "token_count"]


class Chosen(Struct, frozen=True, kw_only=True):
    """A smaller conversation, or how far one could be made."""

    items: tuple[ContextItem, ...]
    tokens: int
    lacking: tuple[Stretch, ...] = ()
    """Stretches that had to stay because nothing stands for them yet."""
    used: int = 0
    """How many stretches were replaced."""


def token_count(items: Sequence[ContextItem]) -> int:
    """The size of a conversation in tokens."""
    return sum(item.tokens for item in items)


def choose(
    items: Sequence[ContextItem],
    stretches: Sequence[Stretch],
    nodes: Mapping[str, SummaryNode],
    target: int,
) -> Chosen:
    """Replace stretches by their nodes, oldest first, until `items` take `target` tokens."""
    tokens = token_count(items)
    replaced: dict[int, tuple[int, SummaryNode]] = {}
    lacking: list[Stretch] = []
    for stretch in stretches:
        if tokens <= target:
            break
        node = nodes.get(stretch.key)
        if node is None:
            lacking.append(stretch)
        elif node.tokens < stretch.tokens:
            replaced[stretch.start] = stretch.end, node
            tokens += node.tokens - stretch.tokens
    return Chosen(
        items=_with(items, replaced), tokens=tokens, lacking=tuple(lacking), used=len(replaced)
    )


def _with(
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
