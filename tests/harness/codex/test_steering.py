from __future__ import annotations

import asyncio
import os
import signal

from tests.harness.scenes import log
from treadle.core.items import Message, decode_item, text_of
from treadle.harness.events import Event, Retrying, StepStarted, TextDelta, ToolStarted
from treadle.testing.contracts.answers import wait_until
from treadle.testing.script import Answer, Break, Call
from treadle.tools.contract import ToolContext
from treadle.tools.decorator import tool

from .scenes import Stage, hear, last, of, open_stage, request_items, roles_and_texts


def conversation(stage: Stage) -> list[tuple[str, str]]:
    """What the model was shown last."""
    return roles_and_texts(request_items(stage.requests[-1]))


async def test_what_is_said_while_our_tool_runs_is_read_before_the_next_step(tmp_path):
    said = asyncio.Event()

    @tool(parallel=True)
    async def wait() -> str:
        """Waits until something was said."""
        await said.wait()
        return "waited"

    async with (
        open_stage(tmp_path, Answer(calls=(Call(name="wait"),)), Answer(text="done")) as stage,
        stage.thread(tools=(wait,)) as thread,
    ):

        async def steer(event: Event) -> None:
            if isinstance(event, ToolStarted):
                await thread.steer("one")
                await thread.steer("two")
                said.set()

        events = await hear(thread, "go", at=steer)
        assert last(events).status == "completed"
        expected = [
            "user: go",
            "call wait",
            "output waited",
            "user: one",
            "user: two",
            "assistant: done",
        ]
        assert await log(thread) == expected
        assert conversation(stage) == [
            ("user", "go"),
            ("function_call", "{}"),
            ("function_call_output", "waited"),
            ("user", "one"),
            ("user", "two"),
        ]
        assert len(stage.requests) == 2
        await hear(thread, "and now")
        assert conversation(stage)[3:] == [
            ("user", "one"),
            ("user", "two"),
            ("assistant", "done"),
            ("user", "and now"),
        ]


async def test_what_is_said_while_codex_runs_a_command_is_read_before_the_next_step(tmp_path):
    command = Call(
        name="exec_command",
        arguments={"cmd": "until [ -e go ]; do sleep 0.05; done", "login": False},
    )
    async with (
        open_stage(tmp_path, Answer(calls=(command,)), Answer(text="done")) as stage,
        stage.thread() as thread,
    ):

        async def steer(event: Event) -> None:
            if isinstance(event, ToolStarted):
                await thread.steer("one")
                # Once the app-server has it, the command may end.
                await wait_until(
                    lambda: bool(stage.harness.threads.live[thread.id].mirror.expected_echoes)
                )
                (tmp_path / "project/go").touch()

        events = await hear(thread, "go", at=steer)
        assert last(events).text == "done"
        lines = await log(thread)
        assert [lines[0], lines[1], *lines[3:]] == [
            "user: go",
            "call exec_command",
            "user: one",
            "assistant: done",
        ]
        assert conversation(stage)[-1] == ("user", "one")
        assert len(stage.requests) == 2


async def test_what_is_said_while_the_answer_streams_is_said_after_it_in_the_same_turn(tmp_path):
    slow = Answer(text="one two three four five six", pace=0.02)
    async with open_stage(tmp_path, slow, Answer(text="yes")) as stage, stage.thread() as thread:
        steered: list[str] = []

        async def steer(event: Event) -> None:
            if isinstance(event, TextDelta) and not steered:
                steered.append("now")
                await thread.steer("really?")

        events = await hear(thread, "count", at=steer)
        assert last(events).text == "yes"
        assert await log(thread) == [
            "user: count",
            "assistant: one two three four five six",
            "user: really?",
            "assistant: yes",
        ]
        assert conversation(stage) == [
            ("user", "count"),
            ("assistant", "one two three four five six"),
            ("user", "really?"),
        ]
        assert [turn.state for turn in await thread.store.turns(thread.id)] == ["completed"]


async def test_mail_of_another_thread_is_steered_with_the_name_of_its_sender(tmp_path):
    asked = Answer(calls=(Call(name="wait"),))
    async with open_stage(tmp_path, asked, Answer(text="done")) as stage:
        async with stage.thread() as other:

            @tool(parallel=True)
            async def wait(context: ToolContext) -> str:
                """Waits until something was sent."""
                await other.send(context.thread, "from afar")
                return "waited"

            async with stage.thread(tools=(wait,), store=other.store, index=other.index) as thread:
                await hear(thread, "go")
                rows = thread.view.rows
                (row,) = (row for row in rows if b"from afar" in row.body)
                assert row.seq is not None
                (entry,) = await thread.store.read(thread.id, row.seq, limit=1)
                assert entry.provenance is not None
                assert entry.provenance.source_thread == other.id
        (who, what) = conversation(stage)[-1]
        assert who == "user"
        item = decode_item(entry.body)
        assert isinstance(item, Message)
        assert what == text_of(item.content)
        assert other.id in what
        assert "\nfrom afar\n" in what


async def test_what_was_steered_into_an_interrupted_turn_is_said_once_in_the_next(tmp_path):
    stuck = Answer(calls=(Call(name="forever"),))
    began = asyncio.Event()

    @tool(parallel=True)
    async def forever() -> str:
        """Never ends."""
        began.set()
        await asyncio.Event().wait()
        return "never"

    async with open_stage(tmp_path, stuck) as stage, stage.thread(tools=(forever,)) as thread:

        async def steer(event: Event) -> None:
            if isinstance(event, ToolStarted):
                await thread.steer("wait, no")
                await wait_until(
                    lambda: bool(stage.harness.threads.live[thread.id].mirror.expected_echoes)
                )
                thread.interrupt()

        events = await hear(thread, "go", at=steer)
        assert last(events).status == "interrupted"
        await hear(thread, "go on")
        told = [text for who, text in conversation(stage) if who == "user"]
        assert told.count("wait, no") == 1
        assert (await log(thread)).count("user: wait, no") == 1


async def test_what_codex_does_not_take_any_more_is_said_when_its_turn_is_over(tmp_path):
    cut = Answer(text="one two three", stall=Break(events=4, seconds=0.3))
    async with open_stage(tmp_path, cut, Answer(text="yes")) as stage, stage.thread() as thread:
        steered: list[int] = []

        async def steer(event: Event) -> None:
            if isinstance(event, TextDelta) and not steered:
                steered.append(1)
                for text in ("a", "b", "c"):
                    await thread.steer(text)

        await hear(thread, "count", at=steer)
        assert await log(thread) == [
            "user: count",
            "assistant: one two three",
            "user: a",
            "user: b",
            "user: c",
            "assistant: yes",
        ]
        assert [text for _, text in conversation(stage)][2:] == ["a", "b", "c"]


def kill(stage: Stage) -> None:
    (server,) = stage.harness.servers.servers
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)


async def test_what_was_steered_before_the_app_server_died_is_not_doubled(tmp_path):
    @tool(parallel=True)
    async def wait(context: ToolContext) -> str:
        """Waits until something was said."""
        await thread.steer(f"one of {context.turn}")
        return "waited"

    stuck = Answer(when="one of 1", text="x", stall=Break(events=2), times=1)
    async with (
        open_stage(tmp_path, Answer(calls=(Call(name="wait"),)), stuck) as stage,
        stage.thread(tools=(wait,)) as thread,
    ):

        async def die(event: Event) -> None:
            if isinstance(event, StepStarted) and event.step == 2 and len(stage.requests) == 2:
                kill(stage)

        events = await hear(thread, "go", at=die)
        assert last(events).text == "fine"
        assert [event.attempt for event in of(events, Retrying)] == [1]
        assert await log(thread) == [
            "user: go",
            "call wait",
            "output waited",
            "user: one of 1",
            "assistant: fine",
        ]
        assert [text for who, text in conversation(stage) if who == "user"] == ["go", "one of 1"]


async def test_what_the_app_server_took_and_lost_when_it_died_is_said_again(tmp_path):
    @tool(parallel=True)
    async def wait() -> str:
        """Waits for ever the first time."""
        if len(stage.requests) == 1:
            await asyncio.Event().wait()
        return "waited"

    async with (
        open_stage(tmp_path, Answer(calls=(Call(name="wait"),))) as stage,
        stage.thread(tools=(wait,)) as thread,
    ):

        async def die(event: Event) -> None:
            if isinstance(event, ToolStarted):
                await thread.steer("one")
                await wait_until(
                    lambda: bool(stage.harness.threads.live[thread.id].mirror.expected_echoes)
                )
                kill(stage)

        events = await hear(thread, "go", at=die)
        assert last(events).text == "fine"
        assert (await log(thread)).count("user: one") == 1
        assert [text for who, text in conversation(stage) if who == "user"] == ["go", "one"]
