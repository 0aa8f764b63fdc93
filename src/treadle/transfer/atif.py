"""ATIF: a thread as the trajectory that Harbor and its viewers read, version 1.8.

Owns how entries become steps. Invariants: steps are numbered from 1 without gaps; the result of
a call stands in the step of the call; and what the runtime itself told the model is marked as
the system's, so that nobody takes it for a person's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Struct, field

from ..config.settings import Price
from ..core.entries import Entry, Flags, own_parts
from ..core.errors import StoreError
from ..core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    Reasoning,
    text_of,
)
from ..core.usage import TokenUsage
from ..core.wire import UNREADABLE
from ..log.bills import cost_of
from ..store.contract import ThreadInfo
from ..store.counted_usage import RequestUsage
from .content_text import content_text
from .jsonl import iso_time

__all__ = ["ATIF_VERSION", "Trajectory"]

ATIF_VERSION = "ATIF-v1.8"
_SOURCES = {"user": "user", "assistant": "agent"}
_NOT_SHOWN = Flags.VOLATILE | Flags.HIDDEN


class _ToolCall(Struct, kw_only=True):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class _Result(Struct, kw_only=True):
    source_call_id: str
    content: str


class _Observation(Struct, kw_only=True):
    results: list[_Result] = field(default_factory=list)


class _Metrics(Struct, kw_only=True, omit_defaults=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class _Step(Struct, kw_only=True, omit_defaults=True):
    step_id: int
    timestamp: str
    source: str
    message: str = field(default_factory=str)
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None


class Trajectory:
    """Collects the steps of one thread."""

    def __init__(
        self,
        info: ThreadInfo,
        usages: Sequence[RequestUsage],
        *,
        context: bool = False,
        own_prices: Mapping[str, Price] | None = None,
    ) -> None:
        self._info, self._own = info, own_prices
        self._left_out = _NOT_SHOWN if context else _NOT_SHOWN | Flags.CONTEXTUAL
        self._usages = {row.seq: row for row in usages}
        self._steps: list[_Step] = []
        self._answers: dict[tuple[int, int], _Step] = {}
        """The step of the agent in each step of a turn."""
        self._calls: dict[str, _Step] = {}

    def add(self, entry: Entry) -> None:
        """Add an entry; those that are no item and end no request say nothing."""
        if entry.seq in self._usages:
            self._charge(entry, self._usages[entry.seq])
        if entry.kind == "item" and not entry.flags & self._left_out:
            try:
                self._add_item(entry)
            except StoreError:
                return  # damaged: nobody can read what it was

    def document(self) -> bytes:
        """Return the trajectory as JSON."""
        steps = [self._finished(each) for each in self._steps]
        told = {
            "schema_version": ATIF_VERSION,
            "session_id": self._info.id,
            "agent": {
                "name": "treadle",
                "version": import_module("treadle").__version__,
                **self._model(),
            },
            "steps": steps,
            "final_metrics": self._final_metrics(),
        }
        return msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n"

    def _add_item(self, entry: Entry) -> None:
        item = entry.item
        match item:
            case Message(role="assistant"):
                step = self._answer(entry)
                step.message = "\n\n".join(filter(None, (step.message, content_text(item.content))))
            case Message(role=role):
                own = own_parts(item.content, entry.fragments)
                runtime = entry.flags & Flags.CONTEXTUAL or not own
                source = "system" if runtime else _SOURCES.get(role, "system")
                text = content_text(item.content if runtime else own)
                self._begin(entry, source).message = text
            case Reasoning():
                text = text_of((*item.summary, *(item.content or ())))
                step = self._answer(entry)
                step.reasoning_content = "\n\n".join(filter(None, (step.reasoning_content, text)))
            case FunctionCall(name=name, arguments=given) | CustomToolCall(name=name, input=given):
                step = self._answer(entry)
                called = _ToolCall(
                    tool_call_id=item.call_id, function_name=name, arguments=_arguments(given)
                )
                step.tool_calls = [*(step.tool_calls or ()), called]
                self._calls[item.call_id] = step
            case FunctionCallOutput() | CustomToolCallOutput():
                self._add_result(item.call_id or "", content_text(item.output))

    def _add_result(self, call: str, text: str) -> None:
        step = self._calls.get(call)
        if step is not None:
            step.observation = step.observation or _Observation()
            step.observation.results.append(_Result(source_call_id=call, content=text))

    def _begin(self, entry: Entry, source: str) -> _Step:
        step = _Step(step_id=len(self._steps) + 1, timestamp=iso_time(entry.time), source=source)
        self._steps.append(step)
        return step

    def _answer(self, entry: Entry) -> _Step:
        """Return the step that collects what the model says in one answer."""
        key = (entry.turn, entry.step)
        if key not in self._answers:
            self._answers[key] = self._begin(entry, "agent")
            if entry.origin is not None and entry.origin.model:
                self._answers[key].model_name = entry.origin.model
        return self._answers[key]

    def _charge(self, entry: Entry, row: RequestUsage) -> None:
        step = self._answers.get((entry.turn, entry.step))
        if step is not None and not row.purpose and row.usage is not None:
            step.metrics = _metrics(row.usage, self._dollars([row]))

    def _dollars(self, rows: Sequence[RequestUsage]) -> float | None:
        """Return what answers cost; None where one has no price, or another currency."""
        costs = [cost_of(row, self._own) for row in rows]
        if any(cost is None or cost.currency != "USD" for cost in costs):
            return None
        return sum(cost.amount for cost in costs if cost is not None)

    def _model(self) -> dict[str, str]:
        named = [each.model_name for each in self._steps if each.model_name]
        return {"model_name": named[-1]} if named else {}

    def _finished(self, step: _Step) -> dict[str, Any]:
        told: dict[str, Any] = msgspec.to_builtins(step)
        told.setdefault("message", "")
        return told

    def _final_metrics(self) -> dict[str, Any]:
        rows = [row for row in self._usages.values() if row.usage is not None]
        total = sum((row.usage for row in rows if row.usage), start=TokenUsage())
        figures = {
            "total_prompt_tokens": total.input_tokens,
            "total_completion_tokens": total.output_tokens,
            "total_cached_tokens": total.cached_input_tokens,
            "total_cost_usd": self._dollars(rows),
            "total_steps": len(self._steps),
        }
        return {name: figure for name, figure in figures.items() if figure is not None}


def _metrics(usage: TokenUsage, dollars: float | None) -> _Metrics:
    return _Metrics(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        cached_tokens=usage.cached_input_tokens,
        cost_usd=dollars,
    )


def _arguments(given: str) -> dict[str, Any]:
    """Return what a call was given as an object; text that is none stands under `input`."""
    try:
        found = msgspec.json.decode(given)
    except UNREADABLE:
        return {"input": given}
    return found if isinstance(found, dict) else {"input": given}
