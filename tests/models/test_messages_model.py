from __future__ import annotations

from typing import Any

import msgspec

from treadle.core.items import FunctionCall, Message, OutputText, Reasoning, Unknown
from treadle.core.stream import ResponseIncomplete
from treadle.core.usage import TokenUsage
from treadle.models.contract import ContextOverflow, ModelError
from treadle.models.formats.messages import thinking_block
from treadle.testing.contracts.answers import collect, collect_failed, completion_of, done_items
from treadle.testing.script import Answer, ScriptedError

from .requests import answering, request

SSE = {"content-type": "text/event-stream"}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    at = {"index": index}
    return [
        {"type": "content_block_start", **at, "content_block": start},
        *({"type": "content_block_delta", **at, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", **at},
    ]


def stream(*blocks: list[dict[str, Any]], stop: str = "end_turn") -> Answer:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20}
    events = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": usage}},
        *(event for each in blocks for event in each),
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    data = "".join(f"data: {msgspec.json.encode(event).decode()}\n\n" for event in events)
    return Answer(body=data, headers=SSE)


async def test_usage_adds_what_was_read_from_and_written_to_the_cache():
    async with answering("messages", stream()) as (model, _):
        events = await collect(model, request(model))
    assert completion_of(events).usage == TokenUsage(
        input_tokens=100,
        cached_input_tokens=70,
        cache_write_input_tokens=20,
        output_tokens=5,
        total_tokens=105,
    )


async def test_thinking_is_kept_with_its_signature_and_sent_back_as_it_came():
    thinking = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "h"},
        {"type": "thinking_delta", "thinking": "m"},
        {"type": "signature_delta", "signature": "sig"},
    )
    redacted = block(1, {"type": "redacted_thinking", "data": "xyz"})
    async with answering("messages", stream(thinking, redacted)) as (model, _):
        items = done_items(await collect(model, request(model)))
    blocks = [thinking_block(item) for item in items if isinstance(item, Reasoning)]
    assert [msgspec.json.decode(each or b"null") for each in blocks] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
    ]


async def test_a_call_without_arguments_has_an_empty_object():
    call = block(0, {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}})
    async with answering("messages", stream(call, stop="tool_use")) as (model, _):
        items = done_items(await collect(model, request(model)))
    assert items == [FunctionCall(name="read", arguments="{}", call_id="toolu_1")]


async def test_blocks_of_unknown_kind_survive_whole():
    search = block(
        0,
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"query":'},
        {"type": "input_json_delta", "partial_json": '"x"}'},
    )
    async with answering("messages", stream(search)) as (model, _):
        (item,) = done_items(await collect(model, request(model)))
    assert isinstance(item, Unknown)
    assert msgspec.json.decode(item.payload) == {
        "type": "server_tool_use",
        "id": "srv_1",
        "name": "web_search",
        "input": {"query": "x"},
    }


async def test_a_pause_says_that_the_turn_goes_on():
    async with answering("messages", stream(stop="pause_turn")) as (model, _):
        assert completion_of(await collect(model, request(model))).response.end_turn is False


async def test_a_refusal_is_told_with_its_usage():
    async with answering("messages", stream(stop="refusal")) as (model, _):
        events, error = await collect_failed(model, request(model))
    assert isinstance(events[-1], ResponseIncomplete)
    assert events[-1].response.usage is not None
    assert (error.code, error.retryable) == ("content_filter", False)


async def test_a_call_that_a_limit_cut_off_is_not_handed_out():
    tool = {"type": "tool_use", "name": "read", "input": {}}
    half = {"type": "input_json_delta", "partial_json": '{"path":"a'}
    first, second = block(0, {**tool, "id": "t1"}, half), block(1, {**tool, "id": "t2"}, half)
    async with answering("messages", stream(first, second, stop="max_tokens")) as (model, _):
        events, error = await collect_failed(model, request(model))
    assert done_items(events) == [FunctionCall(name="read", arguments='{"path":"a', call_id="t1")]
    assert error.code == "max_output_tokens"


async def test_a_full_window_is_an_overflow():
    async with answering("messages", stream(stop="model_context_window_exceeded")) as (model, _):
        _, error = await collect_failed(model, request(model))
    assert isinstance(error, ContextOverflow)


async def test_an_overloaded_server_in_mid_stream_may_be_asked_again():
    failure = ScriptedError(code="overloaded_error", message="Overloaded")
    async with answering("messages", Answer(text="a", error=failure)) as (model, _):
        events, error = await collect_failed(model, request(model))
    assert (type(error), error.retryable, error.code) == (ModelError, True, "overloaded_error")
    assert len(done_items(events)) == 1


async def test_a_server_that_does_not_stream_is_understood():
    whole = {
        "id": "msg_1",
        "content": [
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"x": 1}},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 2},
        "stop_reason": "tool_use",
    }
    answer = Answer(body=msgspec.json.encode(whole).decode())
    async with answering("messages", answer) as (model, _):
        items = done_items(await collect(model, request(model)))
    assert items == [
        Message(role="assistant", content=(OutputText("a"),)),
        FunctionCall(name="read", arguments='{"x":1}', call_id="t"),
    ]


async def test_the_key_and_the_version_go_in_headers():
    async with answering("messages", stream()) as (model, server):
        await collect(model, request(model))
    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("secret-key", "2023-06-01")
    assert "authorization" not in headers
