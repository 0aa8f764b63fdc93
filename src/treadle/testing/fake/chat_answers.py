"""The fake server's Chat Completions voice."""

from __future__ import annotations

from typing import Any

import msgspec

from ..script import ScriptedError
from .answer_format import ScriptedResponse, frame, words

__all__ = ["ChatAnswers"]

_REASONS = {"length": "length", "filter": "content_filter"}


class ChatAnswers:
    """Speaks as ``/v1/chat/completions`` does."""

    def frames(self, spoken: ScriptedResponse) -> list[bytes]:
        """The chunks of a stream."""
        answer = spoken.answer
        chunks: list[dict[str, Any]] = [_delta(spoken, {"role": "assistant", "content": ""})]
        chunks += answer.events
        chunks += [_delta(spoken, {"reasoning_content": w}) for w in words(answer.reasoning)]
        chunks += [_delta(spoken, {"content": word}) for word in words(answer.text)]
        chunks += [_delta(spoken, {"tool_calls": [each]}) for each in _calls(spoken)]
        if answer.error is not None:
            return [frame(chunk, named=False) for chunk in (*chunks, self.error(answer.error))]
        chunks += [_delta(spoken, {}, _reason(spoken)), _usage(spoken)]
        return [*(frame(chunk, named=False) for chunk in chunks), b"data: [DONE]\n\n"]

    def error(self, failure: ScriptedError) -> dict[str, Any]:
        """The body of an error."""
        return {"error": {"message": failure.message, "code": failure.code, "type": failure.code}}


def _chunk(spoken: ScriptedResponse, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{spoken.id}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": spoken.model,
        "choices": choices,
    }


def _delta(
    spoken: ScriptedResponse, delta: dict[str, Any], finish: str | None = None
) -> dict[str, Any]:
    return _chunk(spoken, [{"index": 0, "delta": delta, "finish_reason": finish}])


def _calls(spoken: ScriptedResponse) -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    for index, call in enumerate(spoken.answer.calls):
        name = f"{call.namespace}__{call.name}" if call.namespace else call.name
        given = call.arguments_json
        if call.input is not None:
            given = msgspec.json.encode({"input": call.input}).decode()
        start = {"id": spoken.call_id(index, call), "type": "function"}
        deltas.append({"index": index, **start, "function": {"name": name, "arguments": ""}})
        deltas += [{"index": index, "function": {"arguments": word}} for word in words(given)]
    return deltas


def _reason(spoken: ScriptedResponse) -> str:
    if spoken.answer.stop:
        return _REASONS[spoken.answer.stop]
    return "tool_calls" if spoken.answer.calls else "stop"


def _usage(spoken: ScriptedResponse) -> dict[str, Any]:
    usage = {
        "prompt_tokens": spoken.input_tokens,
        "completion_tokens": spoken.output_tokens,
        "total_tokens": spoken.input_tokens + spoken.output_tokens,
        "prompt_tokens_details": {"cached_tokens": spoken.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": spoken.reasoning_tokens},
    }
    return {**_chunk(spoken, []), "usage": usage}
