from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from treadle import Thread
from treadle.core.entries import Reason
from treadle.core.errors import NothingToSend, StoreFull
from treadle.harness.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    CompactionFinished,
    CompactionStarted,
    Event,
    ItemCompleted,
    Retrying,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    UsageReported,
)
from treadle.store.contract import Change, ChangeResult, Lease
from treadle.store.memory import MemoryStore
from treadle.testing.contracts.answers import wait_until
from treadle.testing.script import Answer, Break, ScriptedError, Tokens
from treadle.testing.scripted import ScriptedModel
from treadle.tools.decorator import tool

from .scenes import (
    Clock,
    call,
    calls_answered_once,
    hear,
    last,
    log,
    of,
    open_thread,
    outline,
    processes,
    scripted,
)


@tool(parallel=True)
async def forever() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return "never"


@tool(parallel=True)
async def quick() -> str:
    """Ends at once."""
    return "quick"


async def interrupted_at(thread: Thread, kind: type, *said: str) -> list[Event]:
    def stop(event: Event) -> None:
        if isinstance(event, kind):
            thread.interrupt()
            thread.interrupt()

    return await hear(thread, *said, at=stop)


async def aborted_and_usable(thread: Thread, events: list[Event]) -> None:
    """The turn is over, the model will read so, and the next turn works."""
    turn = await thread.store.turn(thread.id, 1)
    assert (last(events).status, turn.state) == ("interrupted", "aborted")
    assert last(events).turn == turn.id
    aborted = [r for r in thread.view.rows if b"<turn_aborted>" in r.body]
    assert len(aborted) == 1
    assert not thread.view.open_calls
    assert last(await hear(thread, "go on")).text == "going on"
    assert isinstance(thread.policy.options.client, ScriptedModel)
    assert any(
        b"<turn_aborted>" in request.body for request in thread.policy.options.client.requests
    )


# First in every script: it is given as soon as it fits.
GOING_ON = Answer(when="go on", text="going on")


async def test_while_the_answer_streams(tmp_path):
    slow = Answer(text="one two three", stall=Break(events=3))
    async with open_thread(tmp_path, scripted(GOING_ON, slow)) as thread:
        events = await interrupted_at(thread, TextDelta, "hi")
        await aborted_and_usable(thread, events)
        assert await log(thread) == ["user: hi", "user: go on", "assistant: going on"]


async def test_before_the_answer_begins(tmp_path):
    async with open_thread(tmp_path, scripted(GOING_ON, Answer(text="x", delay=60))) as thread:
        events = await interrupted_at(thread, StepStarted, "hi")
        await aborted_and_usable(thread, events)


async def test_when_the_turn_has_only_been_admitted(tmp_path):
    async with open_thread(tmp_path, scripted(GOING_ON)) as thread:
        events = await interrupted_at(thread, TurnStarted, "hi")
        await aborted_and_usable(thread, events)


async def test_while_the_loop_waits_to_ask_again(tmp_path):
    class Frozen(Clock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            await asyncio.Event().wait()

    busy = Answer(error=ScriptedError(status=503, message="busy"))
    async with open_thread(tmp_path, scripted(GOING_ON, busy), clock=Frozen()) as thread:
        events = await interrupted_at(thread, Retrying, "hi")
        await aborted_and_usable(thread, events)


async def test_while_a_tool_runs(tmp_path):
    model = scripted(GOING_ON, Answer(calls=(call("quick"), call("forever"), call("quick"))))
    async with open_thread(tmp_path, model, tools=(forever, quick)) as thread:
        events = await interrupted_at(thread, UsageReported, "hi")
        assert await calls_answered_once(thread)
        lines = await log(thread)
        assert lines[:5] == [
            "user: hi",
            *["call quick", "call forever", "call quick"],
            "output quick",
        ]
        assert lines[5].startswith("output aborted by user after ")
        assert await thread.store.outbox(thread=thread.id) == []
        await aborted_and_usable(thread, events)


async def test_between_the_log_of_a_call_and_its_start(tmp_path):
    model = scripted(GOING_ON, Answer(calls=(call("forever"),)))
    async with open_thread(tmp_path, model, tools=(forever,)) as thread:
        events = await interrupted_at(thread, ItemCompleted, "hi")
        assert await calls_answered_once(thread)
        await aborted_and_usable(thread, events)


async def test_while_the_user_is_asked(tmp_path):
    asks = Answer(calls=(call("exec_command", cmd="touch x"),))
    async with open_thread(
        tmp_path, scripted(GOING_ON, asks), tools=None, sandbox="read-only", approval="untrusted"
    ) as thread:
        events = await interrupted_at(thread, ApprovalRequested, "hi")
        (asked,) = of(events, ApprovalRequested)
        assert of(events, ApprovalWithdrawn) == [ApprovalWithdrawn(id=asked.id)]
        assert await calls_answered_once(thread)
        assert await thread.store.outbox(thread=thread.id) == []
        await aborted_and_usable(thread, events)


async def test_while_the_view_is_compacted(tmp_path):
    model = scripted(
        GOING_ON,
        Answer(calls=(call("quick"),), text="long " * 4_000),
        Answer(calls=(call("quick"),), usage=Tokens(input=9_500)),
        Answer(text="a summary", delay=60),
        Answer(text="a summary"),
    )
    async with open_thread(
        tmp_path, model, tools=(quick,), facts="auto_compact_token_limit = 9000"
    ) as thread:

        async def stop(event: Event) -> None:
            if isinstance(event, CompactionStarted):
                await wait_until(lambda: len(model.requests) == 3)
                thread.interrupt()

        events = await hear(thread, "hi", at=stop)
        (compacting,) = of(events, CompactionFinished)
        assert compacting.error == "interrupted"
        assert thread.view.reason.value == Reason.START.value
        assert await calls_answered_once(thread)
        await aborted_and_usable(thread, events)
        assert thread.view.reason.value == Reason.COMPACTION.value


@pytest.mark.parametrize("pause", range(0, 40, 2))
async def test_at_any_moment_every_call_has_one_result(tmp_path, pause):
    model = scripted(
        GOING_ON,
        Answer(text="one", calls=(call("quick"), call("forever"), call("quick"))),
    )
    async with open_thread(tmp_path, model, tools=(forever, quick)) as thread:

        async def stop() -> None:
            for _ in range(pause):
                await asyncio.sleep(0.0005)
            thread.interrupt()

        stopping = asyncio.create_task(stop())
        events = await hear(thread, "hi")
        await stopping
        assert not thread.view.open_calls
        assert last(events).status == "interrupted"
        assert last(await hear(thread, "go on")).text == "going on"
        again = await thread.store.read(thread.id)
        bodies = [e.body for e in again if e.kind == "item" and b"call" in e.body]
        assert len(bodies) == len({*bodies}), "nothing is recorded twice"


async def test_leaving_the_loop_early_interrupts(tmp_path):
    model = scripted(GOING_ON, Answer(calls=(call("forever"),)))
    async with open_thread(tmp_path, model, tools=(forever,)) as thread:
        async with aclosing(thread.run("hi")) as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    break
        assert (await thread.store.turn(thread.id, 1)).state == "aborted"
        assert await calls_answered_once(thread)
        assert last(await hear(thread, "go on")).text == "going on"


async def test_leaving_the_loop_without_closing_it_lets_the_next_run_begin(tmp_path):
    model = scripted(GOING_ON, Answer(calls=(call("forever"),)))
    async with open_thread(tmp_path, model, tools=(forever,)) as thread:
        async for event in thread.run("hi"):
            if isinstance(event, ToolStarted):
                break
        assert last(await hear(thread, "go on")).text == "going on"
        assert await calls_answered_once(thread)


async def test_cancelling_the_task_that_listens_aborts_the_turn(tmp_path):
    model = scripted(GOING_ON, Answer(calls=(call("forever"),)))
    async with open_thread(tmp_path, model, tools=(forever,)) as thread:
        started = asyncio.Event()

        def note(event: Event) -> None:
            if isinstance(event, ToolStarted):
                started.set()

        listening = asyncio.create_task(hear(thread, "hi", at=note))
        await started.wait()
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        assert (await thread.store.turn(thread.id, 1)).state == "aborted"
        assert await calls_answered_once(thread)
        assert last(await hear(thread, "go on")).text == "going on"


async def test_cancelling_twice_does_not_leave_a_turn_behind(tmp_path):
    ending = asyncio.Event()

    @tool
    async def tough() -> str:
        """Takes its time to end."""
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.sleep(0.1)
        return "never"

    model = scripted(GOING_ON, Answer(calls=(call("tough"),)))
    async with open_thread(tmp_path, model, tools=(tough,)) as thread:
        started = asyncio.Event()

        def note(event: Event) -> None:
            if isinstance(event, ToolStarted):
                started.set()

        listening = asyncio.create_task(hear(thread, "hi", at=note))
        await started.wait()
        listening.cancel()
        await ending.wait()
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        assert (await thread.store.turn(thread.id, 1)).state == "aborted"
        assert await calls_answered_once(thread)
        assert last(await hear(thread, "go on")).text == "going on"


async def test_closing_the_thread_ends_its_turn(tmp_path):
    model = scripted(GOING_ON, Answer(calls=(call("forever"),)))
    async with open_thread(tmp_path, model, tools=(forever,)) as thread:
        events = thread.run("hi")
        async for event in events:
            if isinstance(event, ToolStarted):
                break
        name = thread.id
    await events.aclose()
    async with open_thread(tmp_path, scripted(GOING_ON), tools=(forever,), thread=name) as thread:
        assert (await thread.store.turn(name, 1)).state == "aborted"
        assert await calls_answered_once(thread)


async def test_an_interrupt_with_nothing_to_interrupt_is_harmless(tmp_path):
    async with open_thread(tmp_path, scripted(Answer(text="hello"))) as thread:
        thread.interrupt()
        assert last(await hear(thread, "hi")).status == "completed"
        thread.interrupt()


async def test_a_second_run_waits_for_the_first(tmp_path):
    release = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        await release.wait()
        return "waited"

    model = scripted(
        Answer(calls=(call("wait"),)), Answer(when="waited", text="A"), Answer(text="B")
    )
    async with open_thread(tmp_path, model, tools=(wait,)) as thread:
        order: list[str] = []

        def note(event: Event) -> None:
            if isinstance(event, TurnCompleted):
                order.append(event.text)
            if isinstance(event, ToolStarted):
                order.append("tool")

        first = asyncio.create_task(hear(thread, "one", at=note))
        await wait_until(lambda: bool(order))
        second = asyncio.create_task(hear(thread, "two", at=note))
        release.set()
        await asyncio.gather(first, second)
        assert order == ["tool", "A", "B"]
        assert [line for line in await log(thread) if line.startswith(("user", "ass"))] == [
            "user: one",
            "assistant: A",
            "user: two",
            "assistant: B",
        ]


async def test_steering_reaches_the_model_before_its_next_step(tmp_path):
    steered = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        await steered.wait()
        return "waited"

    model = scripted(Answer(calls=(call("wait"),)), Answer(when="rather blue", text="Blue it is."))
    async with open_thread(tmp_path, model, tools=(wait,)) as thread:

        async def steer(event: Event) -> None:
            if isinstance(event, ToolStarted):
                await thread.steer("rather blue")
                steered.set()

        events = await hear(thread, "paint it red", at=steer)
        assert await log(thread) == [
            "user: paint it red",
            "call wait",
            "output waited",
            "user: rather blue",
            "assistant: Blue it is.",
        ]
    assert last(events).status == "completed"


async def test_what_the_model_has_not_read_can_be_withdrawn(tmp_path):
    steered = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        await steered.wait()
        return "waited"

    model = scripted(Answer(calls=(call("wait"),)), Answer(text="Red it is."))
    async with open_thread(tmp_path, model, tools=(wait,)) as thread:
        keys: list[str] = []

        async def steer(event: Event) -> None:
            if isinstance(event, ToolStarted):
                keys.append(await thread.steer("rather blue"))
                keys.append(await thread.steer("a dark one"))
                assert await thread.log.withdraw(keys[0])
                assert not await thread.log.withdraw(keys[0])
                steered.set()

        await hear(thread, "paint it red", at=steer)
        said = [line for line in await log(thread) if line.startswith("user")]
        assert said == ["user: paint it red", "user: a dark one"]
        assert not await thread.log.withdraw(keys[1])


async def test_steering_during_the_last_answer_makes_another_step(tmp_path):
    model = scripted(
        Answer(text="first words", stall=Break(events=3, seconds=0.3)), Answer(text="and more")
    )
    async with open_thread(tmp_path, model) as thread:
        posted = False

        async def steer(event: Event) -> None:
            nonlocal posted
            if isinstance(event, TextDelta) and not posted:
                posted = True
                await thread.steer("wait, also this")

        events = await hear(thread, "hi", at=steer)
        assert await log(thread) == [
            "user: hi",
            "assistant: first words",
            "user: wait, also this",
            "assistant: and more",
        ]
    assert [line for line in outline(events) if line in ("step 1", "step 2", "completed")] == [
        "step 1",
        "step 2",
        "completed",
    ]


async def test_steering_that_comes_too_late_is_read_in_the_next_turn(tmp_path):
    model = scripted(Answer(text="done"), Answer(when="late", text="I read both."))
    async with open_thread(tmp_path, model) as thread:

        async def steer(event: Event) -> None:
            if isinstance(event, UsageReported) and not await thread.log.inbox():
                await thread.steer("late")

        assert last(await hear(thread, "hi", at=steer)).text == "done"
        events = await hear(thread, "next")
        assert last(events).text == "I read both."
        assert (await log(thread))[-3:] == ["user: next", "user: late", "assistant: I read both."]


async def test_steering_without_a_turn_says_what_to_do(tmp_path):
    async with open_thread(tmp_path, scripted()) as thread:
        with pytest.raises(NothingToSend, match=r"use run\(\)"):
            await thread.steer("hello?")


async def test_sandboxed_commands_are_gone_after_an_interrupt(tmp_path):
    asks = Answer(calls=(call("exec_command", cmd="sleep 987654 & sleep 987653"),))
    model = scripted(GOING_ON, asks)
    async with open_thread(tmp_path, model, tools=None, sandbox="workspace-write") as thread:

        async def stop(event: Event) -> None:
            if isinstance(event, ToolStarted):
                await wait_until(lambda: bool(processes("987653")))
                thread.interrupt()

        events = await hear(thread, "hi", at=stop)
        assert last(events).status == "interrupted"
        assert await calls_answered_once(thread)
    assert processes("98765") == []


class Filling(MemoryStore):
    """A store that has no more room from some moment on."""

    full = False

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        if self.full:
            raise StoreFull("no room to write; make some")
        return await super().commit(lease, change)


async def test_no_call_is_told_of_that_the_log_has_no_room_for(tmp_path):
    store, heard = Filling(), list[Event]()

    def fill(event: Event) -> None:
        heard.append(event)
        store.full = isinstance(event, StepStarted)

    model = scripted(Answer(calls=(call("quick"),)))
    async with open_thread(tmp_path, model, tools=(quick,), store=store) as thread:
        thread.observers.append(fill)
        with pytest.raises(StoreFull):
            await hear(thread, "hi")
        store.full = False
    assert of(heard, ToolStarted, ToolFinished) == []
