"""The answers of the fake server in the Responses format."""

from __future__ import annotations

from typing import Any

from ..script import Call, ScriptedError
from .answer_format import ScriptedResponse, frame, words

__all__ = ["ResponsesAnswers"]

_REASONS = {"length": "max_output_tokens", "filter": "content_filter"}


class ResponsesAnswers:
    """Answers like ``/v1/responses``."""

    def frames(self, scripted: ScriptedResponse) -> list[bytes]:
        """Return the events of a stream."""
        answer, response = scripted.answer, {"id": f"resp_{scripted.id}"}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
        events += answer.events
        if answer.reasoning:
            events += _reasoning(scripted)
        if answer.text:
            events += _message(scripted)
        for index, call in enumerate(answer.calls):
            events += _call(call, scripted.call_id(index, call), index)
        events.append(self._end(scripted, response))
        return [frame(event) for event in events]

    def error(self, failure: ScriptedError) -> dict[str, Any]:
        """Return the body of an error."""
        return {"error": {"message": failure.message, "code": failure.code, "type": failure.code}}

    def _end(self, scripted: ScriptedResponse, response: dict[str, Any]) -> dict[str, Any]:
        answer = scripted.answer
        if answer.error is not None:
            failed = {**response, **self.error(answer.error)}
            return {"type": "response.failed", "response": failed}
        finished = {**response, "usage": _usage(scripted)}
        if answer.stop:
            finished["incomplete_details"] = {"reason": _REASONS[answer.stop]}
            return {"type": "response.incomplete", "response": finished}
        return {"type": "response.completed", "response": finished}


def _usage(scripted: ScriptedResponse) -> dict[str, Any]:
    return {
        "input_tokens": scripted.input_tokens,
        "input_tokens_details": {"cached_tokens": scripted.cached_tokens},
        "output_tokens": scripted.output_tokens,
        "output_tokens_details": {"reasoning_tokens": scripted.reasoning_tokens},
        "total_tokens": scripted.input_tokens + scripted.output_tokens,
    }


def _reasoning(scripted: ScriptedResponse) -> list[dict[str, Any]]:
    text, name = scripted.answer.reasoning, f"rs_{scripted.id}"
    item: dict[str, Any] = {
        "type": "reasoning",
        "id": name,
        "summary": [],
        "encrypted_content": None,
    }
    whole = {**item, "summary": [{"type": "summary_text", "text": text}]}
    at = {"item_id": name, "summary_index": 0}
    return [
        {"type": "response.output_item.added", "item": item},
        {"type": "response.reasoning_summary_part.added", **at},
        *(
            {"type": "response.reasoning_summary_text.delta", **at, "delta": word}
            for word in words(text)
        ),
        {"type": "response.reasoning_summary_text.done", **at, "text": text},
        {
            "type": "response.output_item.done",
            "item": {**whole, "encrypted_content": f"sealed:{scripted.id}"},
        },
    ]


def _message(scripted: ScriptedResponse) -> list[dict[str, Any]]:
    text, name = scripted.answer.text, f"msg_{scripted.id}"
    item: dict[str, Any] = {"type": "message", "id": name, "role": "assistant", "content": []}
    whole = {**item, "content": [{"type": "output_text", "text": text}]}
    return [
        {"type": "response.output_item.added", "item": item},
        *(
            {"type": "response.output_text.delta", "item_id": name, "delta": word}
            for word in words(text)
        ),
        {"type": "response.output_item.done", "item": whole},
    ]


def _call(call: Call, call_id: str, index: int) -> list[dict[str, Any]]:
    named = {"call_id": call_id, "name": call.name}
    if call.namespace:
        named["namespace"] = call.namespace
    if call.input is None:
        item = {
            "type": "function_call",
            "id": f"fc_{call_id}",
            **named,
            "arguments": call.arguments_json,
        }
        added = {**item, "arguments": ""}
        deltas: list[dict[str, Any]] = []
    else:
        item = {"type": "custom_tool_call", "id": f"ctc_{call_id}", **named, "input": call.input}
        added = {**item, "input": ""}
        kind = "response.custom_tool_call_input.delta"
        deltas = [{"type": kind, "item_id": item["id"], "delta": w} for w in words(call.input)]
    return [
        {"type": "response.output_item.added", "output_index": index, "item": added},
        *deltas,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]
