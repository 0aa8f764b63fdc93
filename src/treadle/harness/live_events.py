"""Live events: what a stream tells besides text and items, for hosts that look on.

Owns how signals of a stream become events: pieces of a call that is still being written, the
limits and the model that the server names, and the gaps between paragraphs of reasoning.
Invariant: nothing here is logged or decides anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..core.items import CustomToolCall, FunctionCall
from ..core.stream import (
    OutputItemAdded,
    RateLimits,
    RateLimitsEvent,
    ReasoningSummaryDelta,
    ReasoningTextDelta,
    ServerModel,
    ToolInputDelta,
)
from ..models.contract import ModelEvent
from .events import Event, ModelReported, RateLimitsReported, ReasoningDelta, ToolInput

__all__ = ["PARAGRAPH", "LiveEvents"]

PARAGRAPH = "\n\n"
"""Stands between two parts of reasoning."""

_Place: TypeAlias = tuple[str | None, int]


class LiveEvents:
    """The signals of one answer; `asked` is the model that was asked."""

    def __init__(self, emit: Callable[[Event], None], asked: str) -> None:
        self._emit, self._asked = emit, asked
        self._place: _Place | None = None
        """The part of reasoning that was heard last."""
        self._calls: dict[str, tuple[str, str]] = {}
        """The id and the name of calls that have begun, by the id of their item."""

    def take(self, event: ModelEvent) -> None:
        """Emit what an event tells, if it tells something."""
        match event:
            case (
                ReasoningSummaryDelta(summary_index=index) | ReasoningTextDelta(content_index=index)
            ):
                self._reason((event.item_id, index), event.delta)
            case ToolInputDelta():
                self._write_call(event)
            case OutputItemAdded():
                self._begin_call(event)
            case RateLimits() | RateLimitsEvent():
                self._emit(RateLimitsReported(event.snapshot))
            case ServerModel(model=model) if model != self._asked:
                self._emit(ModelReported(model=model))

    def _reason(self, place: _Place, delta: str) -> None:
        if self._place not in (None, place):
            self._emit(ReasoningDelta(PARAGRAPH))
        self._place = place
        self._emit(ReasoningDelta(delta))

    def _begin_call(self, event: OutputItemAdded) -> None:
        item = event.item
        if isinstance(item, CustomToolCall | FunctionCall):
            self._calls[item.id or item.call_id] = self._calls[item.call_id] = (
                item.call_id,
                item.name,
            )

    def _write_call(self, event: ToolInputDelta) -> None:
        target = event.target or ""
        call_id, name = self._calls.get(target, (event.call_id or target, ""))
        self._emit(ToolInput(call_id=call_id, name=name, delta=event.delta))
