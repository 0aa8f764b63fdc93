"""The order APIs demand around calls: nothing stands between them and their outputs.

Owns the holding back of items that come while calls wait for their outputs. Invariant:
what was handed on is never taken back, and everything is handed on once the last
open call has been answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ...core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    LocalShellCall,
    Message,
    Reasoning,
    ToolSearchCall,
    ToolSearchOutput,
    Unknown,
)

__all__ = ["Call", "CallOutput", "StepOrder", "answered_call_id", "call_id_of"]

Call: TypeAlias = FunctionCall | CustomToolCall | LocalShellCall | ToolSearchCall
CallOutput: TypeAlias = FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput


def call_id_of(item: Item) -> str | None:
    """The id by which `item` wants to be answered; None for what is no call."""
    match item:
        case FunctionCall() | CustomToolCall():
            return item.call_id
        case LocalShellCall() | ToolSearchCall():
            return item.call_id or item.id
        case _:
            return None


def answered_call_id(item: Item) -> str | None:
    """The id of the call that `item` answers; None for what answers none."""
    if isinstance(item, FunctionCallOutput | CustomToolCallOutput | ToolSearchOutput):
        return item.call_id
    return None


@dataclass(slots=True)
class StepOrder:
    """Puts items into an order in which outputs follow their calls at once.

    `talk` says whether the model's own words may stand after its calls.
    """

    talk: bool
    _open: set[str] = field(default_factory=set)
    _answering: bool = False
    _held: list[Item] = field(default_factory=list)

    def put(self, item: Item) -> list[Item]:
        """The items that may be written now that `item` has come."""
        if (answered := answered_call_id(item)) is not None:
            return self._answer(item, answered)
        if not self._open:
            return self._begin(item)
        if self._answering or not self._joins(item):
            self._held.append(item)
            return []
        return self._begin(item)

    def copy(self) -> StepOrder:
        """An order that goes on on its own."""
        return StepOrder(self.talk, set(self._open), self._answering, list(self._held))

    def _begin(self, item: Item) -> list[Item]:
        if (call := call_id_of(item)) is not None:
            self._open.add(call)
        return [item]

    def _joins(self, item: Item) -> bool:
        """Whether `item` belongs to the same words of the model as the open calls."""
        if call_id_of(item) is not None:
            return True
        says = isinstance(item, Reasoning | Unknown) or (
            isinstance(item, Message) and item.role == "assistant"
        )
        return self.talk and says

    def _answer(self, item: Item, answered: str) -> list[Item]:
        if answered not in self._open:
            self._hold_for_a_held_call(item, answered)
            return []
        self._open.discard(answered)
        self._answering = bool(self._open)
        return [item] if self._open else [item, *self._release()]

    def _hold_for_a_held_call(self, item: Item, answered: str) -> None:
        if any(call_id_of(held) == answered for held in self._held):
            self._held.append(item)

    def _release(self) -> list[Item]:
        held, self._held = self._held, []
        return [released for item in held for released in self.put(item)]
