"""The answers of the fake server in the Chat Completions format."""

from __future__ import annotations

from typing import Any

import msgspec

from ..script import ScriptedError
from .answer_format import ScriptedResponse, frame, words

__all__ = ["ChatAnswers"]

_REASONS = {"length": "length", "filter": "content_filter"}


class ChatAnswers:
    """Answers like ``/v1/chat/completions``."""

    def frames(self, response: ScriptedResponse) -> list[bytes]:
        """Return the chunks of a stream."""
        answer = response.answer
        chunks: list[dict[str, Any]] = [_delta(response, {"role": "assistant", "content": ""})]
        chunks += answer.events
        chunks += [_delta(response, {"reasoning_content": w}) for w in words(answer.reasoning)]
        chunks += [_delta(response, {"content": word}) for word in words(answer.text)]
        chunks += [_delta(response, {"tool_calls": [each]}) for each in _calls(response)]
        if answer.error is not None:
            return [frame(chunk, named=False) for chunk in (*chunks, self.error(answer.error))]
        counted = {**_chunk(response, []), "usage": _usage(response)}
        chunks += [_delta(response, {}, _reason(response)), counted]
        return [*(frame(chunk, named=False) for chunk in chunks), b"data: [DONE]\n\n"]

    def document(self, response: ScriptedResponse) -> dict[str, Any]:
        """Return the answer to a client that wants no stream."""
        answer = response.answer
        message: dict[str, Any] = {
            "role": "assistant",
            "content": answer.text or None,
            "refusal": None,
        }
        if answer.reasoning:
            message["reasoning_content"] = answer.reasoning
        if answer.calls:
            message["tool_calls"] = [
                _whole_call(response, index) for index in range(len(answer.calls))
            ]
        choice = {"index": 0, "message": message, "logprobs": None}
        whole = _chunk(response, [{**choice, "finish_reason": _reason(response)}])
        return {**whole, "object": "chat.completion", "usage": _usage(response)}

    def error(self, failure: ScriptedError) -> dict[str, Any]:
        """Return the body of an error."""
        told = {"message": failure.message, "code": failure.code, "type": failure.code}
        return {"error": {**told, "param": None}}


def _chunk(response: ScriptedResponse, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{response.id}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": response.model,
        "choices": choices,
    }


def _delta(
    response: ScriptedResponse, delta: dict[str, Any], finish: str | None = None
) -> dict[str, Any]:
    return _chunk(response, [{"index": 0, "delta": delta, "finish_reason": finish}])


def _calls(response: ScriptedResponse) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    for index in range(len(response.answer.calls)):
        call = _whole_call(response, index)
        name, given = call["function"]["name"], call["function"]["arguments"]
        deltas.append({"index": index, **call, "function": {"name": name, "arguments": ""}})
        deltas += [{"index": index, "function": {"arguments": word}} for word in words(given)]
    return deltas


def _whole_call(response: ScriptedResponse, index: int) -> dict[str, Any]:
    call = response.answer.calls[index]
    name = f"{call.namespace}__{call.name}" if call.namespace else call.name
    given = call.arguments_json
    if call.input is not None:
        given = msgspec.json.encode({"input": call.input}).decode()
    function = {"name": name, "arguments": given}
    return {"id": response.call_id(index, call), "type": "function", "function": function}


def _reason(response: ScriptedResponse) -> str:
    if response.answer.stop:
        return _REASONS[response.answer.stop]
    return "tool_calls" if response.answer.calls else "stop"


def _usage(response: ScriptedResponse) -> dict[str, Any]:
    return {
        "prompt_tokens": response.input_tokens,
        "completion_tokens": response.output_tokens,
        "total_tokens": response.input_tokens + response.output_tokens,
        "prompt_tokens_details": {"cached_tokens": response.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": response.reasoning_tokens},
    }
