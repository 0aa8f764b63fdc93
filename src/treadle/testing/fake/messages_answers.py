"""The fake server's Messages voice."""

from __future__ import annotations

from typing import Any

import msgspec

from ..script import ScriptedError
from .answer_format import ScriptedResponse, frame, words

__all__ = ["MessagesAnswers"]

_REASONS = {"length": "max_tokens", "filter": "refusal"}


class MessagesAnswers:
    """Speaks as ``/v1/messages`` does."""

    def frames(self, spoken: ScriptedResponse) -> list[bytes]:
        """The events of a stream."""
        answer = spoken.answer
        events: list[dict[str, Any]] = [_start(spoken), {"type": "ping"}, *answer.events]
        for index, (block, deltas) in enumerate(_blocks(spoken)):
            at = {"index": index}
            events.append({"type": "content_block_start", **at, "content_block": block})
            events += [{"type": "content_block_delta", **at, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", **at})
        if answer.error is not None:
            events.append(self.error(answer.error))
        else:
            stopped = {"stop_reason": _reason(spoken), "stop_sequence": None}
            thought = {"thinking_tokens": spoken.reasoning_tokens}
            usage = {"output_tokens": spoken.output_tokens, "output_tokens_details": thought}
            events.append({"type": "message_delta", "delta": stopped, "usage": usage})
            events.append({"type": "message_stop"})
        return [frame(event) for event in events]

    def error(self, failure: ScriptedError) -> dict[str, Any]:
        """The body of an error."""
        return {"type": "error", "error": {"type": failure.code, "message": failure.message}}


def _start(spoken: ScriptedResponse) -> dict[str, Any]:
    fresh = spoken.input_tokens - spoken.cached_tokens
    usage = {
        "input_tokens": fresh,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": spoken.cached_tokens,
        "output_tokens": 1,
    }
    message: dict[str, Any] = {
        "id": f"msg_{spoken.id}",
        "type": "message",
        "role": "assistant",
        "model": spoken.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return {"type": "message_start", "message": message}


def _blocks(spoken: ScriptedResponse) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each block as it begins, and what it grows by."""
    answer = spoken.answer
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.reasoning:
        grown = [{"type": "thinking_delta", "thinking": word} for word in words(answer.reasoning)]
        signed = {"type": "signature_delta", "signature": f"signed:{spoken.id}"}
        blocks.append(({"type": "thinking", "thinking": ""}, [*grown, signed]))
    if answer.text:
        grown = [{"type": "text_delta", "text": word} for word in words(answer.text)]
        blocks.append(({"type": "text", "text": ""}, grown))
    for index, call in enumerate(answer.calls):
        name = f"{call.namespace}__{call.name}" if call.namespace else call.name
        given = call.arguments_json
        if call.input is not None:
            given = msgspec.json.encode({"input": call.input}).decode()
        named = {"id": spoken.call_id(index, call), "name": name, "input": {}}
        grown = [{"type": "input_json_delta", "partial_json": word} for word in words(given)]
        blocks.append(({"type": "tool_use", **named}, grown))
    return blocks


def _reason(spoken: ScriptedResponse) -> str:
    if spoken.answer.stop:
        return _REASONS[spoken.answer.stop]
    return "tool_use" if spoken.answer.calls else "end_turn"
