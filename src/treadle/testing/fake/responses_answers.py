"""The answers of the fake server in the Responses format.

Invariant: a stream has all that official clients put an answer together from, and its last
event has the whole answer. Events that only they need are sent in one piece with the event
they belong to, so that a script counts what a model says.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ..script import Call, ScriptedError
from .answer_format import ScriptedResponse, frame, words

__all__ = ["ResponsesAnswers"]

_Piece: TypeAlias = list[dict[str, Any]]
"""Events that are sent together."""

_REASONS = {"length": "max_output_tokens", "filter": "content_filter"}


class ResponsesAnswers:
    """Answers like ``/v1/responses``."""

    def frames(self, scripted: ScriptedResponse) -> list[bytes]:
        """Return the events of a stream."""
        begun = {"type": "response.created", "response": _response(scripted, "in_progress")}
        first: list[_Piece] = [[begun]]
        last: list[_Piece] = [*_content(scripted), [self._end(scripted)]]
        raw = [frame(event) for event in scripted.answer.events]
        return [*_number_events(first, 0), *raw, *_number_events(last, 1)]

    def document(self, scripted: ScriptedResponse) -> dict[str, Any]:
        """Return the answer to a client that wants no stream."""
        whole: dict[str, Any] = self._end(scripted)["response"]
        return whole

    def error(self, failure: ScriptedError) -> dict[str, Any]:
        """Return the body of an error."""
        told = {"message": failure.message, "code": failure.code, "type": failure.code}
        return {"error": {**told, "param": None}}

    def _end(self, scripted: ScriptedResponse) -> dict[str, Any]:
        answer = scripted.answer
        if answer.error is not None:
            failed = {**_response(scripted, "failed"), **self.error(answer.error)}
            return {"type": "response.failed", "response": failed}
        status = "incomplete" if answer.stop else "completed"
        finished = {
            **_response(scripted, status),
            "output": _whole_items(scripted),
            "usage": _usage(scripted),
        }
        if answer.stop:
            finished["incomplete_details"] = {"reason": _REASONS[answer.stop]}
        return {"type": f"response.{status}", "response": finished}


def _number_events(pieces: list[_Piece], first: int) -> list[bytes]:
    """Return pieces as they are sent, with the events counted."""
    frames, number = [], first
    for piece in pieces:
        sent = [frame({**event, "sequence_number": number + at}) for at, event in enumerate(piece)]
        frames.append(b"".join(sent))
        number += len(piece)
    return frames


def _response(scripted: ScriptedResponse, status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{scripted.id}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": scripted.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _usage(scripted: ScriptedResponse) -> dict[str, Any]:
    return {
        "input_tokens": scripted.input_tokens,
        "input_tokens_details": {"cached_tokens": scripted.cached_tokens},
        "output_tokens": scripted.output_tokens,
        "output_tokens_details": {"reasoning_tokens": scripted.reasoning_tokens},
        "total_tokens": scripted.input_tokens + scripted.output_tokens,
    }


def _content(scripted: ScriptedResponse) -> list[_Piece]:
    """Return the events of every item, each with its place in the output."""
    answer = scripted.answer
    items = [_reasoning(scripted)] if answer.reasoning else []
    items += [_message(scripted)] if answer.text else []
    items += [_call(call, scripted.call_id(index, call)) for index, call in enumerate(answer.calls)]
    return [
        [{**event, "output_index": at} for event in piece]
        for at, pieces in enumerate(items)
        for piece in pieces
    ]


def _whole_items(scripted: ScriptedResponse) -> list[dict[str, Any]]:
    """Return the items as the last event lists them: with all that clients look for."""
    answer, items = scripted.answer, list[dict[str, Any]]()
    if answer.reasoning:
        items.append(_reasoning_item(scripted))
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        items.append({**_message_item(scripted), "status": "completed", "content": [part]})
    for index, call in enumerate(answer.calls):
        items.append({**_call_item(call, scripted.call_id(index, call)), "status": "completed"})
    return items


def _reasoning_item(scripted: ScriptedResponse) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": scripted.answer.reasoning}]
    sealed = f"sealed:{scripted.id}"
    return {**_begun_reasoning(scripted), "summary": summary, "encrypted_content": sealed}


def _begun_reasoning(scripted: ScriptedResponse) -> dict[str, Any]:
    name = f"rs_{scripted.id}"
    return {"type": "reasoning", "id": name, "summary": [], "encrypted_content": None}


def _reasoning(scripted: ScriptedResponse) -> list[_Piece]:
    text, item = scripted.answer.reasoning, _begun_reasoning(scripted)
    at = {"item_id": item["id"], "summary_index": 0}
    empty, part = ({"type": "summary_text", "text": each} for each in ("", text))
    kind = "response.reasoning_summary"
    return [
        [{"type": "response.output_item.added", "item": item}],
        [{"type": f"{kind}_part.added", **at, "part": empty}],
        *([{"type": f"{kind}_text.delta", **at, "delta": word}] for word in words(text)),
        [
            {"type": f"{kind}_text.done", **at, "text": text},
            {"type": f"{kind}_part.done", **at, "part": part},
        ],
        [{"type": "response.output_item.done", "item": _reasoning_item(scripted)}],
    ]


def _message_item(scripted: ScriptedResponse) -> dict[str, Any]:
    return {"type": "message", "id": f"msg_{scripted.id}", "role": "assistant", "content": []}


def _message(scripted: ScriptedResponse) -> list[_Piece]:
    text, item = scripted.answer.text, _message_item(scripted)
    whole = {**item, "content": [{"type": "output_text", "text": text}]}
    at = {"item_id": item["id"], "content_index": 0}
    empty, part = (
        {"type": "output_text", "text": each, "annotations": [], "logprobs": []}
        for each in ("", text)
    )
    delta = {"type": "response.output_text.delta", **at, "logprobs": []}
    return [
        [
            {"type": "response.output_item.added", "item": {**item, "status": "in_progress"}},
            {"type": "response.content_part.added", **at, "part": empty},
        ],
        *([{**delta, "delta": word}] for word in words(text)),
        [
            {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
            {"type": "response.content_part.done", **at, "part": part},
            {"type": "response.output_item.done", "item": whole},
        ],
    ]


def _call_item(call: Call, call_id: str) -> dict[str, Any]:
    named = {"call_id": call_id, "name": call.name}
    if call.namespace:
        named["namespace"] = call.namespace
    if call.input is None:
        arguments = call.arguments_json
        return {"type": "function_call", "id": f"fc_{call_id}", **named, "arguments": arguments}
    return {"type": "custom_tool_call", "id": f"ctc_{call_id}", **named, "input": call.input}


def _call(call: Call, call_id: str) -> list[_Piece]:
    item = _call_item(call, call_id)
    at = {"item_id": item["id"]}
    if call.input is None:
        field, kind = "arguments", "response.function_call_arguments"
        deltas: list[_Piece] = []
        given = [{"type": f"{kind}.delta", **at, "delta": each} for each in words(item[field])]
        whole = {"type": f"{kind}.done", **at, "name": call.name, field: item[field]}
    else:
        field, kind = "input", "response.custom_tool_call_input"
        deltas = [[{"type": f"{kind}.delta", **at, "delta": each}] for each in words(call.input)]
        given = []
        whole = {"type": f"{kind}.done", **at, field: item[field]}
    return [
        [{"type": "response.output_item.added", "item": {**item, field: ""}}],
        *deltas,
        [*given, whole, {"type": "response.output_item.done", "item": item}],
    ]
