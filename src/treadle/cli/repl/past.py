"""The past of a thread: what a user sees of it when they come back, or want to go back.

Invariant: only what the model still sees is shown; what was rolled back is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from msgspec import Struct

from ...context.visible import visible_backwards
from ...core.entries import Entry, Flags, own_parts
from ...core.errors import StoreError
from ...core.items import CustomToolCall, FunctionCall, Item, Message, text_of
from ...prompt.mentioned_files import mentioned_path
from ...store.contract import Store
from ..activity import call_line
from .screen import Screen

__all__ = ["ShownTurn", "past_turns", "show_past"]

_UNSHOWN = Flags.CONTEXTUAL | Flags.VOLATILE | Flags.HIDDEN
_MOST_CALLS = 5
"""Calls of a turn that are listed one by one."""


class ShownTurn(Struct):
    """A turn: what the user said, and what came of it."""

    number: int
    said: list[str]
    items: list[Item]
    """Answers and calls."""

    @property
    def answer(self) -> str:
        """Return the last words of the model."""
        texts = (text_of(each.content) for each in self.items if isinstance(each, Message))
        return next(filter(None, reversed(list(texts))), "")


async def past_turns(store: Store, thread: str, most: int) -> list[ShownTurn]:
    """Return the newest turns that a user began, the oldest of them first."""
    found: list[ShownTurn] = []
    async with aclosing(visible_backwards(store, thread)) as entries:
        async for entry in entries:
            if entry.kind != "item" or not entry.turn or entry.flags & _UNSHOWN:
                continue
            if not found or found[-1].number != entry.turn:
                if sum(bool(turn.said) for turn in found) == most:
                    break
                found.append(ShownTurn(entry.turn, [], []))
            _add(found[-1], entry)
    for turn in found:
        turn.said.reverse()
        turn.items.reverse()
    return [turn for turn in reversed(found) if turn.said]


def _add(turn: ShownTurn, entry: Entry) -> None:
    try:
        item = entry.item
    except StoreError:
        return
    if isinstance(item, Message) and item.role == "user":
        if words := _own_words(item, entry):
            turn.said.append(words)
    elif isinstance(item, Message | FunctionCall | CustomToolCall):
        turn.items.append(item)


def _own_words(message: Message, entry: Entry) -> str:
    """Return what the user typed, without the files that they named and the images."""
    parts = own_parts(message.content, entry.fragments)
    texts = (getattr(part, "text", "") for part in parts)
    return "\n".join(text for text in texts if text and mentioned_path(text) is None).strip()


def show_past(screen: Screen, turns: Sequence[ShownTurn]) -> None:
    """Print turns as they looked when they happened, in short."""
    for turn in turns:
        for words in turn.said:
            screen.show_input(words)
        calls = [item for item in turn.items if not isinstance(item, Message)]
        left = len(calls) - _MOST_CALLS
        if left > 0:
            screen.quiet(f"• {left} earlier calls")
        shown = {id(item) for item in calls[-_MOST_CALLS:]}
        for item in turn.items:
            if isinstance(item, Message):
                screen.markdown(text_of(item.content))
            elif id(item) in shown and isinstance(item, FunctionCall):
                screen.quiet(f"• {call_line(item.name, item.arguments)}")
            elif id(item) in shown and isinstance(item, CustomToolCall):
                screen.quiet(f"• {call_line(item.name, item.input)}")
