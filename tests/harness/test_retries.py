from __future__ import annotations

import socket

import pytest

from treadle.harness.events import Retrying, ToolFinished
from treadle.models.providers import ProviderConfig
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Break, Script, ScriptedError
from treadle.tools.decorator import tool

from ..models.provider_turns import provider_thread
from .scenes import Clock, call, calls_answered_once, hear, last, log, of, open_thread, scripted

OVERLOADED = Answer(error=ScriptedError(status=503, code="server_error", message="too busy"))
CUT = Answer(text="never heard whole", cut=Break(events=2))


class Counted:
    """A tool that counts how often it ran."""

    def __init__(self) -> None:
        self.ran = 0

        @tool
        async def count() -> int:
            """Counts."""
            self.ran += 1
            return self.ran

        self.tool = count


@pytest.mark.parametrize(
    "failure",
    [
        OVERLOADED,
        Answer(error=ScriptedError(status=502, body="<html>bad gateway</html>")),
        Answer(error=ScriptedError(code="server_error", message="it broke")),
        CUT,
        Answer(text="x", cut=Break(bytes=0)),
        Answer(text="x", cut=Break(bytes=70)),
        Answer(body="this is no event stream", headers={"content-type": "text/event-stream"}),
        Answer(body="data: {not json}\n\n", headers={"content-type": "text/event-stream"}),
    ],
    ids=["503", "502", "failed", "cut", "at once", "inside an event", "garbage", "no json"],
)
async def test_what_may_pass_is_tried_again(tmp_path, failure):
    clock = Clock()
    async with open_thread(tmp_path, scripted(failure, Answer(text="well")), clock=clock) as thread:
        events = await hear(thread, "hi")
        assert await log(thread) == ["user: hi", "assistant: well"]
    assert last(events).status == "completed"
    assert [(e.attempt, e.most, e.delay) for e in of(events, Retrying)] == [(1, 5, 0.2)]
    assert clock.waits == [0.2]


async def test_waits_double_until_the_limit_and_then_the_turn_fails(tmp_path):
    clock, model = Clock(), scripted(*[OVERLOADED] * 6, Answer(text="back again"))
    async with open_thread(tmp_path, model, clock=clock) as thread:
        events = await hear(thread, "hi")
        turn = await thread.store.turn(thread.id, 1)
        again = await hear(thread, "still there?")
        assert await log(thread) == ["user: hi", "user: still there?", "assistant: back again"]
    assert clock.waits == [0.2, 0.4, 0.8, 1.6, 3.2]
    assert (last(events).status, turn.state) == ("failed", "failed")
    assert (
        last(events).error
        == "the provider answered 503 ('server_error'): too busy; try again later"
    )
    assert last(again).status == "completed"


async def test_a_step_that_worked_gives_the_patience_back(tmp_path):
    counted, clock = Counted(), Clock()
    model = scripted(CUT, Answer(calls=(call("count"),)), CUT, Answer(text="done"))
    async with open_thread(
        tmp_path, model, clock=clock, retries=1, tools=(counted.tool,)
    ) as thread:
        assert last(await hear(thread, "hi")).status == "completed"
    assert clock.waits == [0.2, 0.2]


async def test_a_server_that_cuts_every_answer_is_not_asked_for_ever(tmp_path):
    # The message is complete each time, so each attempt leaves something in the log.
    cut = Answer(text="going", cut=Break(events=4), times=0)
    async with open_thread(tmp_path, scripted(cut), retries=3) as thread:
        events = await hear(thread, "hi")
        assert await log(thread) == ["user: hi", *["assistant: going"] * 4]
    assert last(events).status == "failed"


async def test_the_server_says_how_long_to_wait(tmp_path):
    limited = ScriptedError(
        status=429, code="rate_limit_exceeded", message="slow", headers={"retry-after": "7"}
    )
    clock = Clock()
    model = scripted(Answer(error=limited), Answer(text="now"))
    async with open_thread(tmp_path, model, clock=clock) as thread:
        assert last(await hear(thread, "hi")).text == "now"
    assert clock.waits == [7.0]


@pytest.mark.parametrize(
    "failure",
    [
        ScriptedError(status=429, code="rate_limit_exceeded", headers={"retry-after": "86400"}),
        ScriptedError(status=429, code="usage_limit_reached", message="used up"),
        ScriptedError(status=400, code="invalid_request_error", message="what is this?"),
        ScriptedError(status=401, code="invalid_api_key", message="who are you?"),
        ScriptedError(status=404, message="no such model"),
    ],
    ids=["tomorrow", "used up", "invalid", "key", "model"],
)
async def test_what_will_not_pass_fails_the_turn_and_leaves_the_thread_usable(tmp_path, failure):
    clock, model = Clock(), scripted(Answer(error=failure), Answer(text="better"))
    async with open_thread(tmp_path, model, clock=clock) as thread:
        failed = await hear(thread, "hi")
        turn = await thread.store.turn(thread.id, 1)
        better = await hear(thread, "again")
    assert (last(failed).status, turn.state, clock.waits) == ("failed", "failed", [])
    assert failure.message in (last(failed).error or "")
    assert last(better).text == "better"


async def test_after_a_cut_the_turn_goes_on_with_what_was_complete(tmp_path):
    counted = Counted()
    # created, the message's five events, the call's two: cut before the end.
    cut = Answer(text="one two", calls=(call("count"),), cut=Break(events=7))
    model = scripted(cut, Answer(text="It ran."))
    async with open_thread(tmp_path, model, tools=(counted.tool,)) as thread:
        events = await hear(thread, "go")
        assert await log(thread) == [
            "user: go",
            "assistant: one two",
            "call count",
            "output 1",
            "assistant: It ran.",
        ]
        assert await calls_answered_once(thread)
        rows = await thread.index.rows(thread.id)
    assert counted.ran == 1
    assert len(of(events, ToolFinished)) == 1
    assert [row.difference for row in rows] == [None, None]
    assert last(events).status == "completed"


async def test_a_call_that_was_cut_off_is_not_run(tmp_path):
    counted = Counted()
    cut = Answer(calls=(call("count"),), cut=Break(events=2))
    async with open_thread(
        tmp_path, scripted(cut, Answer(text="fine")), tools=(counted.tool,)
    ) as thread:
        await hear(thread, "go")
        assert await log(thread) == ["user: go", "assistant: fine"]
    assert counted.ran == 0


async def test_a_silent_server_is_given_up_and_asked_again(tmp_path):
    silent = Answer(text="one two three", stall=Break(events=2))
    model = scripted(silent, Answer(text="awake"), idle_timeout=0.05)
    async with open_thread(tmp_path, model) as thread:
        events = await hear(thread, "hi")
    assert last(events).text == "awake"
    assert len(of(events, Retrying)) == 1


@pytest.mark.parametrize(
    ("api", "ran"),
    [("messages", ["call count", "output 1"]), ("chat", [])],
    ids=["messages", "chat: nothing says that the call was whole"],
)
async def test_other_formats_go_on_after_a_cut_too(tmp_path, api, ran):
    counted = Counted()
    cut = Answer(calls=(call("count"),), error=ScriptedError(code="api_error", message="hm"))
    model = scripted(cut, Answer(text="on"), api=api)
    async with open_thread(tmp_path, model, tools=(counted.tool,)) as thread:
        events = await hear(thread, "go")
        assert await log(thread) == ["user: go", *ran, "assistant: on"]
    assert (counted.ran, last(events).status) == (len(ran) // 2, "completed")


async def test_an_item_that_the_provider_tells_twice_is_one_item(tmp_path):
    item = {"type": "function_call", "id": "fc_1", "name": "count", "call_id": "call_1"}
    told = {"type": "response.output_item.done", "item": {**item, "arguments": "{}"}}
    counted = Counted()
    model = scripted(Answer(events=(told, told)), Answer(text="once"))
    async with open_thread(tmp_path, model, tools=(counted.tool,)) as thread:
        assert last(await hear(thread, "count")).text == "once"
        assert counted.ran == 1
        assert await log(thread) == ["user: count", "call count", "output 1", "assistant: once"]


LIMITED = Answer(error=ScriptedError(status=429, code="rate_limit_exceeded", message="slow"))
LASTING = Answer(error=ScriptedError(status=529, code="overloaded_error"), times=0)


async def test_a_limit_that_does_not_say_when_it_ends_is_waited_for(tmp_path):
    clock = Clock()
    model = scripted(LIMITED, LIMITED, Answer(text="now"))
    async with open_thread(tmp_path, model, clock=clock) as thread:
        assert last(await hear(thread, "hi")).text == "now"
    assert clock.waits == [2.0, 4.0]


async def test_a_limit_is_not_waited_for_where_another_model_can_answer(tmp_path):
    clock = Clock()
    async with FakeServer(Script(answers=(Answer(text="here"),))) as other:
        spare = {"groq": ProviderConfig(base_url=other.base_url, key="sk-other")}
        async with provider_thread(
            tmp_path, "mistral:some", LIMITED, clock=clock, providers=spare, fallbacks=["groq:some"]
        ) as (thread, _):
            assert last(await hear(thread, "hi")).text == "here"
    assert clock.waits == []


async def test_one_budget_counts_whatever_goes_wrong(tmp_path):
    clock = Clock()
    async with provider_thread(tmp_path, "mistral:some", LASTING, clock=clock) as (thread, server):
        events = await hear(thread, "hi")
        assert (last(events).status, len(server.requests)) == ("failed", 6)
    assert len(of(events, Retrying)) == len(clock.waits) == 5


async def test_the_settings_of_a_provider_set_the_budget(tmp_path):
    config = ProviderConfig(retries=1)
    async with provider_thread(tmp_path, "mistral:some", LASTING, config=config) as (
        thread,
        server,
    ):
        assert last(await hear(thread, "hi")).status == "failed"
        assert len(server.requests) == 2


async def test_a_server_that_does_not_run_on_this_machine_is_asked_once(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config, clock = ProviderConfig(base_url=f"http://127.0.0.1:{port}/v1"), Clock()
    async with provider_thread(tmp_path, "ollama:some", config=config, clock=clock) as (thread, _):
        events = await hear(thread, "hi")
    assert (last(events).status, of(events, Retrying), clock.waits) == ("failed", [], [])
    assert "start it, or check the port" in (last(events).error or "")
