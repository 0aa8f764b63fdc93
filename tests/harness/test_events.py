from __future__ import annotations

import asyncio

from inline_snapshot import snapshot

from treadle.harness.events import (
    ItemCompleted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    UsageReported,
)
from treadle.testing.script import Answer, Break
from treadle.tools.decorator import tool

from .scenes import call, calls_answered_once, hear, last, log, of, open_thread, outline, scripted


@tool
async def double(number: int) -> int:
    """Doubles a number."""
    return number * 2


async def test_a_turn_is_told_from_its_start_to_its_durable_end(tmp_path):
    model = scripted(
        Answer(reasoning="I should think", text="Let me see.", calls=(call("double", number=21),)),
        Answer(text="It is 42."),
    )
    async with open_thread(tmp_path, model, tools=(double,)) as thread:
        events = await hear(thread, "what is twice 21?")
        turn = await thread.store.turn(thread.id, 1)
    # When the provider counts and when a tool ends is not in our hands.
    assert [line for line in outline(events) if line != "usage.reported"] == snapshot(
        [
            "turn.started",
            "step 1",
            "reasoning.delta",
            "text.delta",
            "item reasoning",
            "item message",
            "item function_call",
            "double started",
            "double finished: 42",
            "item function_call_output",
            "step 2",
            "text.delta",
            "item message",
            "completed",
        ]
    )
    assert last(events).text == "It is 42."
    assert "".join(e.text for e in of(events, TextDelta)) == "Let me see.It is 42."
    assert turn.state == "completed"
    assert last(events).usage == turn.usage
    spent = [e.usage for e in of(events, UsageReported)]
    assert last(events).usage == spent[0] + spent[1]


async def test_an_event_about_an_item_names_an_entry_that_is_there(tmp_path):
    model = scripted(Answer(calls=(call("double", number=1),)), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(double,)) as thread:
        seen: list[bool] = []

        async def look(event: object) -> None:
            if isinstance(event, ItemCompleted):
                (entry,) = await thread.store.read(thread.id, event.seq, event.seq)
                seen.append(entry.body == bytes(event.item))

        await hear(thread, "go", at=look)
    assert seen == [True, True, True]


async def test_a_call_runs_while_the_answer_still_streams(tmp_path):
    ran = asyncio.Event()

    @tool
    async def mark() -> str:
        """Marks."""
        ran.set()
        return "marked"

    # The server falls silent behind the call and goes on only when the client left.
    stalled = Answer(calls=(call("mark"),), stall=Break(events=3, seconds=None))
    async with open_thread(tmp_path, scripted(stalled), tools=(mark,)) as thread:
        events = []
        async for event in thread.run("go"):
            events.append(event)
            if isinstance(event, ToolFinished):
                thread.interrupt()
        assert ran.is_set()
        assert not of(events, UsageReported)
        assert await log(thread) == ["user: go", "call mark", "output marked"]


async def test_results_stand_in_call_order_whatever_the_order_they_came_in(tmp_path):
    fast_done = asyncio.Event()

    @tool(parallel=True)
    async def slow() -> str:
        """Waits for the fast one."""
        await fast_done.wait()
        return "slow"

    @tool(parallel=True)
    async def fast() -> str:
        """Is fast."""
        return "fast"

    model = scripted(Answer(calls=(call("slow"), call("fast"))), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(slow, fast)) as thread:
        staged: list[list[str]] = []

        async def look(event: object) -> None:
            if isinstance(event, ToolFinished) and event.name == "fast":
                rows = await thread.store.outbox(thread=thread.id, topic="output")
                staged.append([bytes(row.body).decode() for row in rows])
                fast_done.set()

        events = await hear(thread, "go", at=look)
        assert [e.name for e in of(events, ToolFinished)] == ["fast", "slow"]
        assert await log(thread) == [
            "user: go",
            "call slow",
            "call fast",
            "output slow",
            "output fast",
            "assistant: done",
        ]
        (durable,) = staged
        assert len(durable) == 1
        assert '"output":"fast"' in durable[0]
        assert await thread.store.outbox(thread=thread.id) == []


async def test_calls_that_may_run_side_by_side_do(tmp_path):
    meeting = asyncio.Barrier(3)

    @tool(parallel=True)
    async def read() -> str:
        """Waits for the other two."""
        await meeting.wait()
        return "read"

    model = scripted(Answer(calls=(call("read"),) * 3), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(read,)) as thread:
        await hear(thread, "go")
        assert await calls_answered_once(thread)


async def test_calls_that_may_not_run_side_by_side_wait_for_one_another(tmp_path):
    running: set[str] = set()
    beside: list[set[str]] = []

    async def work(name: str) -> str:
        beside.append(running - {name})
        running.add(name)
        await asyncio.sleep(0.02)
        running.remove(name)
        return name

    @tool(parallel=True)
    async def read() -> str:
        """Reads."""
        return await work("read")

    @tool
    async def write(name: str) -> str:
        """Writes."""
        return await work(name)

    calls = (call("write", name="a"), call("read"), call("write", name="b"), call("read"))
    model = scripted(Answer(calls=calls), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(read, write)) as thread:
        await hear(thread, "go")
        assert await calls_answered_once(thread)
    assert beside == [set()] * 4


async def test_unknown_tools_and_bad_arguments_get_honest_results(tmp_path):
    model = scripted(
        Answer(calls=(call("nothing"), call("double", number="many"), call("double"))),
        Answer(text="sorry"),
    )
    async with open_thread(tmp_path, model, tools=(double,)) as thread:
        events = await hear(thread, "go")
        assert [e.success for e in of(events, ToolFinished)] == [False, False, False]
        assert await calls_answered_once(thread)
    assert last(events).status == "completed"
    assert of(events, ToolFinished)[0].output == "unsupported call: nothing"


async def test_a_tool_that_fails_does_not_end_the_turn(tmp_path):
    @tool
    async def broken() -> str:
        """Breaks."""
        raise RuntimeError("out of order")

    model = scripted(Answer(calls=(call("broken"),)), Answer(text="I see."))
    async with open_thread(tmp_path, model, tools=(broken,)) as thread:
        events = await hear(thread, "go")
    (finished,) = of(events, ToolFinished)
    assert (finished.success, "out of order" in finished.output) == (False, True)
    assert last(events).status == "completed"


async def test_a_call_is_told_with_its_arguments(tmp_path):
    model = scripted(Answer(calls=(call("double", number=4),)), Answer(text="8"))
    async with open_thread(tmp_path, model, tools=(double,)) as thread:
        events = await hear(thread, "go")
    (started,) = of(events, ToolStarted)
    (finished,) = of(events, ToolFinished)
    assert (started.name, started.arguments) == ("double", '{"number":4}')
    assert (finished.call_id, finished.output) == (started.call_id, "8")


async def test_observers_hear_what_the_host_hears(tmp_path):
    async with open_thread(tmp_path, scripted(Answer(text="hello"))) as thread:
        observed: list[object] = []
        thread.observers.append(observed.append)
        assert await hear(thread, "hi") == observed


async def test_a_turn_id_is_run_once(tmp_path):
    model = scripted(Answer(text="only once"), Answer(text="never"))
    async with open_thread(tmp_path, model) as thread:
        first = await hear(thread, "hi", turn_id="mine")
        again = await hear(thread, "hi", turn_id="mine")
        assert len(model.requests) == 1
    assert last(first).turn == "mine"
    assert outline(again) == ["completed"]
    assert last(again).usage == last(first).usage
