from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.core.items import (
    CustomToolCall,
    FunctionCall,
    Message,
    OutputText,
    Reasoning,
    ReasoningText,
)
from treadle.core.stream import ReasoningTextDelta, ResponseIncomplete
from treadle.core.usage import TokenUsage
from treadle.models.contract import ContextOverflow, StreamCut
from treadle.models.item_reader import FreeformDeltas
from treadle.testing.contracts.answers import collect, collect_failed, completion_of, done_items
from treadle.testing.script import Answer

from .requests import answering, request

SSE = {"content-type": "text/event-stream"}


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": "c1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **fields,
    }


def calls(*deltas: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(deltas)})


def sse(*chunks: dict[str, Any], end: str = "data: [DONE]\n\n") -> Answer:
    data = "".join(f"data: {msgspec.json.encode(each).decode()}\n\n" for each in chunks)
    return Answer(body=data + end, headers=SSE)


def text(said: str) -> Message:
    return Message(role="assistant", content=(OutputText(said),))


def function(name: str, arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


async def items(answer: Answer) -> list[Any]:
    async with answering("chat", answer) as (model, _):
        return done_items(await collect(model, request(model)))


async def test_a_stream_without_a_done_line_is_complete_behind_its_reason():
    assert await items(sse(chunk({"content": "a"}, "stop"), end="")) == [text("a")]


async def test_a_stream_without_reason_or_done_line_is_cut():
    async with answering("chat", sse(chunk({"content": "a"}), end="")) as (model, _):
        events, error = await collect_failed(model, request(model))
    assert (done_items(events), type(error), error.retryable) == ([], StreamCut, True)


async def test_both_names_of_reasoning_are_kept():
    for name in ("reasoning_content", "reasoning"):
        answer = sse(chunk({name: "h"}), chunk({name: "m"}), chunk({"content": "a"}, "stop"))
        async with answering("chat", answer) as (model, _):
            events = await collect(model, request(model))
        assert done_items(events) == [Reasoning(content=(ReasoningText("hm"),)), text("a")]
        deltas = [event for event in events if isinstance(event, ReasoningTextDelta)]
        assert [event.delta for event in deltas] == ["h", "m"]


async def test_interleaved_calls_are_put_together_by_index():
    answer = sse(
        calls({"index": 0, "id": "a", "function": function("read", "")}),
        calls({"index": 1, "id": "b", "function": function("read", "")}),
        calls({"index": 0, "function": {"arguments": '{"x":'}}),
        calls({"index": 1, "function": {"arguments": "{}"}}),
        calls({"index": 0, "function": {"arguments": "1}"}}),
        chunk({}, "tool_calls"),
    )
    assert sorted(await items(answer), key=lambda call: call.call_id) == [
        FunctionCall(name="read", arguments='{"x":1}', call_id="a"),
        FunctionCall(name="read", arguments="{}", call_id="b"),
    ]


async def test_calls_without_ids_get_the_same_ones_every_time():
    answer = sse(
        calls(
            {"index": 0, "function": function("read", "{}")},
            {"index": 1, "id": "", "function": function("read", "{}")},
        ),
        chunk({}, "tool_calls"),
    )
    first, second = await items(answer), await items(answer)
    assert first == second
    assert len({call.call_id for call in first}) == 2
    assert all(len(call.call_id) <= 40 for call in first)


async def test_servers_that_number_every_call_zero_are_understood():
    answer = sse(
        calls({"index": 0, "id": "a", "function": function("read", "{}")}),
        calls({"index": 0, "id": "b", "function": function("read", '{"y":2}')}),
        chunk({}, "stop"),
    )
    assert await items(answer) == [
        FunctionCall(name="read", arguments="{}", call_id="a"),
        FunctionCall(name="read", arguments='{"y":2}', call_id="b"),
    ]


@pytest.mark.parametrize("place", [{}, {"index": 0}])
async def test_whole_calls_without_ids_and_numbers_are_kept_apart(place: dict[str, int]):
    answer = sse(
        calls(
            {**place, "id": "", "function": function("read", '{"x":1}')},
            {**place, "function": function("read", '{"x":2}')},
        ),
        calls({**place, "function": function("write", '{"y":')}),
        calls({**place, "function": {"arguments": "3}"}}),
        chunk({}, "tool_calls"),
    )
    found = await items(answer)
    assert [(each.name, each.arguments) for each in found] == [
        ("read", '{"x":1}'),
        ("read", '{"x":2}'),
        ("write", '{"y":3}'),
    ]
    assert len({each.call_id for each in found}) == 3


async def test_arguments_that_come_as_an_object_become_a_string():
    call = {"index": 0, "id": "a", "function": {"name": "read", "arguments": {"x": 1}}}
    assert await items(sse(calls(call), chunk({}, "tool_calls"))) == [
        FunctionCall(name="read", arguments='{"x":1}', call_id="a")
    ]


async def test_a_freeform_tool_is_called_by_its_own_name():
    call = {"index": 0, "id": "a", "function": function("patch", '{"input":"*** Begin"}')}
    namespaced = {"index": 1, "id": "b", "function": function("notes__find", "{}")}
    assert await items(sse(calls(call), calls(namespaced), chunk({}, "tool_calls"))) == [
        CustomToolCall(name="patch", input="*** Begin", call_id="a"),
        FunctionCall(name="find", namespace="notes", arguments="{}", call_id="b"),
    ]


async def test_an_answer_at_its_limit_keeps_its_text_and_drops_half_a_call():
    answer = sse(
        chunk({"content": "half"}),
        calls({"index": 0, "id": "a", "function": function("read", '{"x":')}),
        chunk({}, "length"),
    )
    async with answering("chat", answer) as (model, _):
        events, error = await collect_failed(model, request(model))
    assert done_items(events) == [text("half")]
    assert isinstance(events[-1], ResponseIncomplete)
    assert (error.code, error.retryable) == ("max_output_tokens", False)


async def test_a_server_that_does_not_stream_is_understood():
    message = {"role": "assistant", "reasoning": "hm", "content": "a", "tool_calls": None}
    whole = {
        "id": "c1",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
    }
    answer = Answer(body=msgspec.json.encode(whole).decode())
    async with answering("chat", answer) as (model, _):
        events = await collect(model, request(model))
    assert done_items(events) == [Reasoning(content=(ReasoningText("hm"),)), text("a")]
    assert completion_of(events).usage == TokenUsage(
        input_tokens=5, cached_input_tokens=4, output_tokens=2, total_tokens=7
    )


async def test_an_error_in_a_good_response_is_an_error():
    failed = {"error": {"message": "maximum context length is 5 tokens"}}
    for answer in (sse(chunk({}), failed), Answer(body=msgspec.json.encode(failed).decode())):
        async with answering("chat", answer) as (model, _):
            _, error = await collect_failed(model, request(model))
        assert isinstance(error, ContextOverflow)


@given(text=st.text(), cuts=st.lists(st.integers(0, 60), max_size=8))
def test_a_freeform_input_is_the_same_however_its_json_is_cut(text: str, cuts: list[int]):
    clean = text.encode(errors="replace").decode()
    for ascii_only in (False, True):
        encoded = '{ "input" :' + json.dumps(clean, ensure_ascii=ascii_only) + "}"
        deltas, said, at = FreeformDeltas(), "", 0
        for cut in sorted(min(cut, len(encoded)) for cut in [*cuts, len(encoded)]):
            said += deltas.feed(encoded[at:cut])
            at = cut
        assert said == clean
