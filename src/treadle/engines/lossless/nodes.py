"""Nodes: summaries of ranges of a log, and their keys and ids.

Owns the value and how it is named. Invariant: the key of a range depends only on its
entries and their content, so that forks, restarts and rebuilt files find the same node,
and text that appears twice has a node for each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...core.items import Message, decode_item, text_of
from ...prompt.engine_fragments import History, parse_history
from ..values import ContextItem, EntryRange

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
    """A summary of a range of entries, which can be opened again."""

    id: str
    key: str
    """Names the range; a better summary of the same range has the same key."""
    thread: str
    """The thread in which it was made."""
    first: int
    last: int
    spans: tuple[tuple[int, int], ...] = ()
    """Exactly the entries that it covers."""
    depth: int = 0
    text: str
    body: bytes
    """The item that shows it in a view."""
    tokens: int = 0
    source_tokens: int = 0
    children: tuple[str, ...] = ()
    """For a condensed node: the nodes below it."""
    model: str = ""
    prompt: str = ""
    degraded: bool = False
    missing: tuple[str, ...] = ()
    """Facts of the range that can only be found by opening it."""
    created: int = 0

    @property
    def turns(self) -> tuple[int, ...]:
        """The first and the last turn that it stands for, as far as its item says."""
        return tuple(int(turn) for turn in _shown(self.body).turns.split("-") if turn)

    def item(self) -> ContextItem:
        """Return the item that shows the node in a conversation."""
        covers = EntryRange(self.first, self.last)
        return ContextItem(body=self.body, tokens=self.tokens, covers=covers, name=self.id)


def node_key(items: Iterable[ContextItem], depth: int) -> str:
    """Return the key of a summary of `items`."""
    digest = hashlib.sha256(f"{SHAPE}.{depth}".encode())
    for item in items:
        digest.update(f".{item.seq}.".encode() + hashlib.sha256(item.body).digest())
    return digest.hexdigest()


def node_id(key: str, prompt: str) -> str:
    """Return the id of a summary of a range by one prompt; models and people read it."""
    return f"sum_{hashlib.sha256(f'{key}.{prompt}'.encode()).hexdigest()[:16]}"


def join_spans(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ascending ranges of entries, with neighbours joined."""
    spans: list[tuple[int, int]] = []
    for first, last in ranges:
        if spans and spans[-1][1] == first - 1:
            spans[-1] = spans[-1][0], last
        else:
            spans.append((first, last))
    return tuple(spans)


def node_from_log(
    thread: str, item: ContextItem, entries: Sequence[ContextItem] = ()
) -> SummaryNode:
    """Return the node that `item` shows, as far as it and the entries it covers tell."""
    assert item.covers is not None
    assert item.name is not None
    shown = _shown(item.body)
    first, last = item.covers.first, item.covers.last
    spans = join_spans((one.seq, one.seq) for one in entries if one.seq is not None)
    return SummaryNode(
        id=item.name,
        key=f"lost:{item.name}" if shown.depth or not entries else node_key(entries, 0),
        thread=thread,
        first=first,
        last=last,
        spans=spans or ((first, last),),
        depth=shown.depth,
        text=shown.text,
        body=item.body,
        tokens=item.tokens,
        source_tokens=sum(one.tokens for one in entries),
        degraded=shown.degraded,
    )


def summary_names(items: Sequence[ContextItem]) -> list[str]:
    """Return the ids of the summaries among `items`."""
    return [item.name for item in items if item.name is not None]


def _shown(body: bytes) -> History:
    """Return the summary that the item of a node shows."""
    message = decode_item(body)
    return parse_history(text_of(message.content) if isinstance(message, Message) else "")
