"""Records: what was said, as lines that carry the ids of their entries.

Owns how an entry of the past reads in a result. Invariants: what is volatile is not among
them, a record is one entry, and its id opens it again.
"""

from __future__ import annotations

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
from ....core.patterns import regex
from ....core.wire import json_bytes
from ...values import Conversation

_ECHO = regex(r"(?:\[thr_[\w-]+:\d+\] |\[sum_[0-9a-f]+\] |sum_[0-9a-f]+ stands for |recall_)")

__all__ = ["Record", "entry_id", "records_of", "when"]


class Record(Struct, frozen=True, kw_only=True):
    """One entry of a conversation."""

    thread: str
    seq: int
    turn: int = 0
    role: str
    text: str

    @property
    def id(self) -> str:
        """The name under which it is found again."""
        return entry_id(self.thread, self.seq)

    @property
    def block(self) -> str:
        """The whole of it, under its name."""
        return f"[{self.id}] {self.role}, turn {self.turn}:\n{self.text}"

    @property
    def echo(self) -> bool:
        """Whether it only repeats what was recalled: a call of these tools, or its result."""
        if self.role.startswith("call of recall_"):
            return True
        return self.role == "result" and _ECHO.match(self.text) is not None

    @property
    def tokens(self) -> int:
        """What it takes in a result."""
        return estimate_text(self.block)


def entry_id(thread: str, seq: int) -> str:
    """The name of an entry."""
    return f"{thread}:{seq}"


def when(time: int | None) -> str:
    """A time as people and models write it."""
    if not time:
        return "at an unknown time"
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def records_of(thread: str, said: Conversation) -> Iterator[Record]:
    """What was said, in order; what is volatile or says nothing is left out."""
    for item, persist in zip(said.items, said.persist, strict=True):
        if persist and item.seq is not None:
            role, text = _said(item.item)
            if text.strip():
                yield Record(
                    thread=thread, seq=item.seq, turn=item.turn, role=role, text=text.strip()
                )


def _said(item: Item) -> tuple[str, str]:
    match item:
        case Message():
            return item.role, text_of(item.content)
        case AgentMessage():
            return "agent", text_of(item.content)
        case Reasoning():
            return "thinking", text_of((*item.summary, *(item.content or ())))
        case FunctionCall(name=name, arguments=given) | CustomToolCall(name=name, input=given):
            return f"call of {name}", given or "(no arguments)"
        case FunctionCallOutput() | CustomToolCallOutput():
            return "result", text_of(item.output)
        case LocalShellCall() | WebSearchCall():
            return "call", json_bytes(item).decode()
        case _:
            return item_type(item), ""
