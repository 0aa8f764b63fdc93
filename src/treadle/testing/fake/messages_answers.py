"""The answers of the fake server in the Messages format."""

from __future__ import annotations

from typing import Any

import msgspec

from ..script import ScriptedError
from .answer_format import ScriptedResponse, frame, words

__all__ = ["MessagesAnswers"]

_REASONS = {"length": "max_tokens", "filter": "refusal"}


class MessagesAnswers:
    """Answers like ``/v1/messages``."""

    def frames(self, response: ScriptedResponse) -> list[bytes]:
        """Return the events of a stream."""
        answer = response.answer
        events: list[dict[str, Any]] = [_start(response), {"type": "ping"}, *answer.events]
        for index, (block, deltas) in enumerate(_blocks(response)):
            at = {"index": index}
            events.append({"type": "content_block_start", **at, "content_block": block})
            events += [{"type": "content_block_delta", **at, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", **at})
        if answer.error is not None:
            events.append(self.error(answer.error))
        else:
            stopped = {"stop_reason": _reason(response), "stop_sequence": None}
            thought = {"thinking_tokens": response.reasoning_tokens}
            usage = {"output_tokens": response.output_tokens, "output_tokens_details": thought}
            events.append({"type": "message_delta", "delta": stopped, "usage": usage})
            events.append({"type": "message_stop"})
        return [frame(event) for event in events]

    def document(self, response: ScriptedResponse) -> dict[str, Any]:
        """Return the answer to a client that wants no stream."""
        message: dict[str, Any] = _start(response)["message"]
        usage = {**message["usage"], "output_tokens": response.output_tokens}
        blocks = [_whole_block(block, deltas) for block, deltas in _blocks(response)]
        stopped = {"stop_reason": _reason(response), "stop_sequence": None}
        return {**message, "content": blocks, **stopped, "usage": usage}

    def error(self, failure: ScriptedError) -> dict[str, Any]:
        """Return the body of an error."""
        return {"type": "error", "error": {"type": failure.code, "message": failure.message}}


def _start(response: ScriptedResponse) -> dict[str, Any]:
    fresh = response.input_tokens - response.cached_tokens
    usage = {
        "input_tokens": fresh,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": response.cached_tokens,
        "output_tokens": 1,
    }
    message: dict[str, Any] = {
        "id": f"msg_{response.id}",
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return {"type": "message_start", "message": message}


def _blocks(response: ScriptedResponse) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return each block as it starts, and its deltas."""
    answer = response.answer
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.reasoning:
        grown = [{"type": "thinking_delta", "thinking": word} for word in words(answer.reasoning)]
        signed = {"type": "signature_delta", "signature": f"signed:{response.id}"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*grown, signed]))
    if answer.text:
        grown = [{"type": "text_delta", "text": word} for word in words(answer.text)]
        blocks.append(({"type": "text", "text": ""}, grown))
    for index, call in enumerate(answer.calls):
        name = f"{call.namespace}__{call.name}" if call.namespace else call.name
        given = call.arguments_json
        if call.input is not None:
            given = msgspec.json.encode({"input": call.input}).decode()
        named = {"id": response.call_id(index, call), "name": name, "input": {}}
        grown = [{"type": "input_json_delta", "partial_json": word} for word in words(given)]
        blocks.append(({"type": "tool_use", **named}, grown))
    return blocks


def _whole_block(block: dict[str, Any], deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a block with what its deltas add."""
    whole = dict(block)
    for delta in deltas:
        for name in ("text", "thinking", "signature"):
            if name in delta:
                whole[name] = whole.get(name, "") + delta[name]
    if whole["type"] == "tool_use":
        given = "".join(delta["partial_json"] for delta in deltas)
        whole["input"] = msgspec.json.decode(given) if given else {}
    return whole


def _reason(response: ScriptedResponse) -> str:
    if response.answer.stop:
        return _REASONS[response.answer.stop]
    return "tool_use" if response.answer.calls else "end_turn"
