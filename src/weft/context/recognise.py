"""Recognising: which imported messages are the runtime's words.

Owns the reading of markers in text that others recorded. For our own entries the
stored flag decides, so nothing here ever looks at what a person typed to us.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..items import Item, Message
from ..prompt.registry import Registry

__all__ = ["is_contextual", "told_states"]


def is_contextual(item: Item, registry: Registry) -> bool:
    """Whether any part of a message is a fragment; one makes the whole message context."""
    return any(True for _ in _fragments(item, registry))


def told_states(item: Item, registry: Registry) -> Iterator[str]:
    """The states that a message's text tells."""
    for fragment in _fragments(item, registry):
        state = registry.state_of(fragment)
        if state is not None:
            yield state


def _fragments(item: Item, registry: Registry) -> Iterator[str]:
    if not isinstance(item, Message):
        return
    for part in item.content:
        found = registry.recognise(item.role, getattr(part, "text", ""))
        if found is not None:
            yield found
