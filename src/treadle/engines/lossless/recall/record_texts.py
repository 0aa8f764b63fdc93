"""Records: entries of the past as text that carries the id of each entry.

Owns how an entry reads in a result. Invariants: volatile items are not among the records,
a record is one entry, and its id opens it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec import Struct

from ....context.tokens import estimate_text
from ....core.items import (
    AgentMessage,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    LocalShellCall,
    Message,
    Reasoning,
    WebSearchCall,
    item_type,
    text_of,
)
from ....core.wire import json_bytes
from ...values import Conversation

__all__ = ["Record", "entry_id", "format_time", "records_of"]

_RECALL_RESULT = r"(?:\[thr_[\w-]+:\d+\] |\[sum_[0-9a-f]+\] |sum_[0-9a-f]+ stands for |recall_)"


class Record(Struct, frozen=True, kw_only=True):
    """One entry of a conversation."""

    thread: str
    seq: int
    turn: int = 0
    role: str
    text: str
    origin: str = ""
    """Where it comes from, if that is another thread: when it was said there."""

    @property
    def id(self) -> str:
        """The id that opens the entry again."""
        return entry_id(self.thread, self.seq)

    @property
    def block(self) -> str:
        """The whole text under its id."""
        return f"[{self.id}] {self.role}, turn {self.turn}:\n{self.text}"

    @property
    def is_echo(self) -> bool:
        """Whether it only repeats what was recalled: a call of a recall tool, or its result."""
        if self.role.startswith("call of recall_"):
            return True
        return self.role == "result" and re.match(_RECALL_RESULT, self.text) is not None

    @property
    def tokens(self) -> int:
        """How many tokens the block takes in a result."""
        return estimate_text(self.block)


def entry_id(thread: str, seq: int) -> str:
    """Return the id of an entry."""
    return f"{thread}:{seq}"


def format_time(time: int | None) -> str:
    """Return a time as people and models write it."""
    if not time:
        return "at an unknown time"
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def records_of(thread: str, conversation: Conversation) -> Iterator[Record]:
    """Return the records of a conversation, in order, without volatile and empty items."""
    for item, persist in zip(conversation.items, conversation.persist, strict=True):
        if persist and item.seq is not None:
            role, text = _role_and_text(item.item)
            if text.strip():
                yield Record(
                    thread=thread, seq=item.seq, turn=item.turn, role=role, text=text.strip()
                )


def _role_and_text(item: Item) -> tuple[str, str]:
    match item:
        case Message():
            return item.role, text_of(item.content)
        case AgentMessage():
            return "agent", text_of(item.content)
        case Reasoning():
            return "thinking", text_of((*item.summary, *(item.content or ())))
        case FunctionCall(name=name, arguments=text) | CustomToolCall(name=name, input=text):
            return f"call of {name}", text or "(no arguments)"
        case FunctionCallOutput() | CustomToolCallOutput():
            return "result", text_of(item.output)
        case LocalShellCall() | WebSearchCall():
            return "call", json_bytes(item).decode()
        case _:
            return item_type(item), ""
