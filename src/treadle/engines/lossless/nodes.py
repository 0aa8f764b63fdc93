"""Nodes: summaries over ranges of a log, and how they are named.

Owns the value and its keys. Invariant: the key of a range depends on its entries and what
they say and on nothing else, so that forks, restarts and rebuilt files find the same node,
and what is said twice has a node for each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...core.items import Message, text_of
from ...prompt.history import parse_history
from ..values import ContextItem, Covered

__all__ = [
    "SHAPE",
    "SummaryNode",
    "join_spans",
    "node_from_log",
    "node_id",
    "node_key",
    "summary_names",
]

SHAPE = "1"
"""Changes when nodes of older versions should no longer be used."""


class SummaryNode(Struct, frozen=True, kw_only=True):
    """A summary that stands for a range of entries, and can be opened again."""

    id: str
    key: str
    """What it summarises; a better summary of the same has the same key."""
    thread: str
    """The thread it was made in."""
    first: int
    last: int
    spans: tuple[tuple[int, int], ...] = ()
    """The entries it covers, exactly."""
    depth: int = 0
    text: str
    body: bytes
    """The item that shows it."""
    tokens: int = 0
    source_tokens: int = 0
    children: tuple[str, ...] = ()
    """For a condensed node: the nodes it stands for."""
    model: str = ""
    prompt: str = ""
    degraded: bool = False
    missing: tuple[str, ...] = ()
    """Facts of the range that can only be found by opening it."""
    created: int = 0

    def item(self) -> ContextItem:
        """The node as a part of a conversation."""
        covers = Covered(self.first, self.last)
        return ContextItem(body=self.body, tokens=self.tokens, covers=covers, name=self.id)


def node_key(items: Iterable[ContextItem], depth: int) -> str:
    """The key of the summary of `items`."""
    digest = hashlib.sha256(f"{SHAPE}.{depth}".encode())
    for item in items:
        digest.update(f".{item.seq}.".encode() + hashlib.sha256(item.body).digest())
    return digest.hexdigest()


def node_id(key: str, prompt: str) -> str:
    """The name of the summary of a range by one prompt; models and people read it."""
    return f"sum_{hashlib.sha256(f'{key}.{prompt}'.encode()).hexdigest()[:16]}"


def join_spans(given: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ascending stretches of entries, with those that touch made one."""
    spans: list[tuple[int, int]] = []
    for first, last in given:
        if spans and spans[-1][1] == first - 1:
            spans[-1] = spans[-1][0], last
        else:
            spans.append((first, last))
    return tuple(spans)


def node_from_log(thread: str, item: ContextItem, past: Sequence[ContextItem] = ()) -> SummaryNode:
    """The node that `item` shows, as far as that and the conversation it covers tell it."""
    assert item.covers is not None
    assert item.name is not None
    message = item.item
    shown = parse_history(text_of(message.content) if isinstance(message, Message) else "")
    first, last = item.covers.first, item.covers.last
    spans = join_spans((one.seq, one.seq) for one in past if one.seq is not None)
    return SummaryNode(
        id=item.name,
        key=f"lost:{item.name}" if shown.depth or not past else node_key(past, 0),
        thread=thread,
        first=first,
        last=last,
        spans=spans or ((first, last),),
        depth=shown.depth,
        text=shown.text,
        body=item.body,
        tokens=item.tokens,
        source_tokens=sum(one.tokens for one in past),
        degraded=shown.degraded,
    )


def summary_names(items: Sequence[ContextItem]) -> list[str]:
    """The names of the summaries among `items`."""
    return [item.name for item in items if item.name is not None]
