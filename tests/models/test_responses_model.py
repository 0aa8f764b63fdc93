from __future__ import annotations

from typing import Any

import msgspec
import pytest

from treadle.core.items import Compaction, InputText, Message, decode_item
from treadle.core.stream import (
    ModelsEtag,
    RateLimits,
    ResponseCompleted,
    ResponseFailed,
    ServerModel,
)
from treadle.core.usage import WireUsage
from treadle.models.contract import (
    Connected,
    ContextOverflow,
    ModelError,
    RateLimited,
    RemoteCompaction,
    StreamCut,
)
from treadle.testing.contracts.answers import (
    collect,
    collect_failed,
    completion_of,
    done_items,
    done_messages,
)
from treadle.testing.script import Answer, Break, ScriptedError

from .formats.samples import said, user
from .requests import answering, request

SSE = {"content-type": "text/event-stream"}


def sse(*events: dict[str, Any]) -> Answer:
    data = "".join(f"data: {msgspec.json.encode(event).decode()}\n\n" for event in events)
    return Answer(body=data, headers=SSE)


MESSAGE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "a"}],
}
ITEM = {"type": "response.output_item.done", "item": MESSAGE}
DONE = {"type": "response.completed", "response": {"id": "resp_1"}}


async def test_what_the_headers_say_comes_first_and_in_order():
    headers = {
        "openai-model": "gpt-5.5-real",
        "x-models-etag": "etag",
        "x-codex-primary-used-percent": "12.5",
        "x-codex-turn-state": "sticky",
        "x-request-id": "req_9",
    }
    async with answering("responses", Answer(text="a", headers=headers)) as (model, _):
        events = await collect(model, request(model))
    assert events[0] == Connected("req_9", "sticky")
    assert events[1] == ServerModel("gpt-5.5-real")
    assert isinstance(events[2], RateLimits)
    assert events[3] == ModelsEtag("etag")


async def test_the_least_a_server_may_send_is_enough():
    async with answering("responses", sse(ITEM, DONE)) as (model, _):
        events = await collect(model, request(model))
    assert len(done_messages(events)) == 1
    assert completion_of(events).usage is None


@pytest.mark.parametrize("before", [(), (ITEM,)])
async def test_items_that_stand_in_the_last_event_only_are_read(before: tuple[Any, ...]):
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    whole = {"id": "resp_1", "output": [MESSAGE, call]}
    end = {"type": "response.completed", "response": whole}
    async with answering("responses", sse(*before, end)) as (model, _):
        heard = await collect(model, request(model))
    expected = [MESSAGE] if before else [MESSAGE, call]
    assert done_items(heard) == [decode_item(msgspec.json.encode(each)) for each in expected]
    assert isinstance(heard[-1], ResponseCompleted)


async def test_nothing_behind_the_end_counts():
    async with answering("responses", sse(ITEM, DONE, ITEM)) as (model, _):
        events = await collect(model, request(model))
    assert len(done_items(events)) == 1


async def test_lines_that_are_no_json_are_passed_over():
    body = "data: <html>\n\n: comment\n\n" + str(sse(ITEM, DONE).body)
    async with answering("responses", Answer(body=body, headers=SSE)) as (model, _):
        assert len(done_messages(await collect(model, request(model)))) == 1


async def test_a_page_instead_of_a_stream_is_a_cut():
    html = Answer(body="<html>login</html>", headers={"content-type": "text/html"})
    async with answering("responses", html) as (model, _):
        events, error = await collect_failed(model, request(model))
    assert (type(error), error.retryable) == (StreamCut, True)
    assert [type(event) for event in events] == [Connected]


async def test_a_failed_response_is_told_when_the_stream_closes():
    failed = {
        "type": "response.failed",
        "response": {"error": {"code": "rate_limit_exceeded", "message": "try again in 20ms"}},
    }
    async with answering("responses", sse(failed, ITEM)) as (model, _):
        events, error = await collect_failed(model, request(model))
    assert [type(event) for event in events[1:]] == [ResponseFailed, type(events[-1])]
    assert len(done_items(events)) == 1
    assert (type(error), error.retry_after) == (RateLimited, 0.02)


async def test_a_failed_response_counts_also_if_the_connection_breaks_behind_it():
    failure = ScriptedError(code="context_length_exceeded", message="too long")
    failing = Answer(text="a", error=failure, cut=Break(events=99))
    async with answering("responses", failing) as (model, _):
        _, error = await collect_failed(model, request(model))
    assert isinstance(error, ContextOverflow)


async def test_an_unreadable_end_is_a_cut():
    broken_end = {"type": "response.completed", "response": {"usage": 7}}
    async with answering("responses", sse(ITEM, broken_end)) as (model, _):
        _, error = await collect_failed(model, request(model))
    assert (type(error), error.retryable) == (StreamCut, True)


@pytest.mark.parametrize(
    ("reason", "retryable"),
    [("max_output_tokens", False), ("content_filter", False), ("strange", True)],
)
async def test_an_incomplete_response_says_why(reason: str, retryable: bool):
    event = {
        "type": "response.incomplete",
        "response": {"incomplete_details": {"reason": reason}},
    }
    async with answering("responses", sse(event)) as (model, _):
        _, error = await collect_failed(model, request(model))
    assert str(error).startswith("the answer is incomplete: ")
    assert (reason in str(error), error.code) == (True, reason)
    assert error.retryable is retryable


async def test_an_error_event_is_a_failure():
    event = {"type": "error", "error": {"code": "context_length_exceeded", "message": "m"}}
    async with answering("responses", sse(event)) as (model, _):
        _, error = await collect_failed(model, request(model))
    assert isinstance(error, ContextOverflow)


async def test_a_server_that_does_not_stream_is_understood():
    response = {"id": "resp_1", "output": [MESSAGE], "usage": {"input_tokens": 3}}
    whole = Answer(body=msgspec.json.encode(response).decode())
    async with answering("responses", whole) as (model, _):
        events = await collect(model, request(model))
    assert len(done_messages(events)) == 1
    assert isinstance(events[-1], ResponseCompleted)
    assert events[-1].response.usage == WireUsage(input_tokens=3)


async def test_the_body_goes_out_as_it_is_with_the_key_and_the_thread():
    async with answering("responses", Answer(text="a")) as (model, server):
        asked = request(model, headers={"x-codex-turn-state": "sticky"})
        await collect(model, asked)
    (sent,) = server.requests
    assert sent.body == asked.body
    assert sent.headers["authorization"] == "Bearer secret-key"
    assert sent.headers["thread-id"] == "thr_1"
    assert sent.headers["x-codex-turn-state"] == "sticky"


async def test_a_conversation_is_folded_by_the_provider():
    async with answering("responses") as (model, server):
        assert isinstance(model, RemoteCompaction)
        items = await model.compact(request(model, user("a"), said("b")))
    assert [type(item) for item in items] == [Message, Compaction]
    assert items[0] == Message(role="user", content=(InputText("a"),))
    assert set(server.requests[0].payload) == {
        "model",
        "instructions",
        "input",
        "prompt_cache_key",
    }


async def test_a_compaction_that_cannot_be_read_says_what_to_do_instead():
    nonsense = Answer(endpoint="compact", body="{}")
    async with answering("responses", nonsense) as (model, _):
        assert isinstance(model, RemoteCompaction)
        with pytest.raises(ModelError, match="summary instead"):
            await model.compact(request(model))


async def test_nobody_listening_on_this_machine_will_not_pass():
    async with answering("responses") as (model, server):
        await server.__aexit__(None, None, None)
        _, error = await collect_failed(model, request(model))
        await server.__aenter__()
    assert (error.code, error.retryable) == ("connection", False)
    assert "secret-key" not in str(error) + repr(model)


async def test_a_compressed_answer_that_nobody_asked_for_is_a_cut():
    zipped = Answer(body="xyz", headers={**SSE, "content-encoding": "gzip"})
    async with answering("responses", zipped) as (model, _):
        _, error = await collect_failed(model, request(model))
    assert isinstance(error, StreamCut)
    assert "gzip" in str(error)
