"""Sources and summaries: what goes into a summary, and what comes out.

Owns both values and the last line that every summary ends with. Invariant: a summary
says who wrote it and what it lost.
"""

from __future__ import annotations

from msgspec import Struct

from ....context.tokens import estimate_item, estimate_text
from ...values import ContextItem

__all__ = ["EXPAND", "Source", "Summary", "source_tokens"]

EXPAND = "Expand for details about:"
"""Begins the last line of a summary: what it names can be found by opening it."""


class Source(Struct, frozen=True, kw_only=True):
    """What a summary is made of: items for a leaf, the texts of nodes for a node over them."""

    items: tuple[ContextItem, ...] = ()
    children: tuple[str, ...] = ()
    depth: int = 0
    """0 for a leaf."""
    previous: str = ""
    """The summary right before, to read on from; nothing of it has to be kept."""


class Summary(Struct, frozen=True, kw_only=True):
    """A summary, and how it came about."""

    text: str
    """Ends with the expand line."""
    model: str = ""
    """Who wrote it; ``""`` for excerpts."""
    prompt: str = ""
    """The version of the prompt that made it."""
    degraded: bool = False
    """No model wrote it; it should be written again."""
    missing: tuple[str, ...] = ()
    """Facts of the source that are neither in the text nor in its expand line."""
    calls: int = 0
    """How often a model was asked."""


def source_tokens(source: Source) -> int:
    """What the source takes in a view."""
    items = (one.tokens or estimate_item(one.item, len(one.body)) for one in source.items)
    return sum(items) + sum(map(estimate_text, source.children))
