from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engines.scenes import Probe
from tests.harness.scenes import log, unpaired_calls
from treadle import Thread
from treadle.harness.codex.codex_home import CodexHome
from treadle.harness.codex.stored_threads import stored_rollouts
from treadle.harness.events import HarnessReported, ToolFinished
from treadle.testing.script import Answer, Call

from .kill_scenes import looking
from .scenes import hear, last, open_stage, talk
from .test_call_guard import CODE_MODE, Guard, files, run
from .view_items import continues, kill_server, recalling, shows_view, start_reasons

WORK = (
    Answer(
        reasoning="Hm.",
        text="Let me see.",
        calls=(Call(name="exec_command", arguments={"cmd": "echo quack"}), Call(name="look")),
    ),
    Answer(text="A duck."),
)


def keys(requests: list[Any]) -> set[str]:
    return {request.payload["prompt_cache_key"] for request in requests}


def codex_home(place: Path) -> Path:
    return CodexHome.below(place / "treadle").directory


def rollouts(place: Path) -> dict[str, Path]:
    return dict(stored_rollouts(codex_home(place)))


def whats(events: list[Any]) -> list[str]:
    return [event.what for event in events if isinstance(event, HarnessReported)]


async def test_a_conversation_keeps_its_cache_key_in_every_process(tmp_path: Path):
    name: str | None = None
    requests: list[Any] = []
    seen: list[str] = []
    options: dict[str, Any] = {
        "engine": Probe(assemble=recalling("Ducks quack.")),
        "tools": (looking(),),
    }
    for said in ("One.", "Two.", "Three."):
        async with (
            open_stage(tmp_path, *WORK, *WORK) as stage,
            stage.thread(name, **options) as thread,
        ):
            seen += whats(await hear(thread, said))
            seen += whats(await hear(thread, f"{said} Again."))
            assert shows_view(thread, stage.requests[-1])
            name, requests = thread.id, [*requests, *stage.requests]
            written = await log(thread)
    assert seen == ["thread.started", "thread.reused", *["thread.resumed", "thread.reused"] * 2]
    assert len(keys(requests)) == 1
    assert all(map(continues, requests[1:], requests))
    for said in ("One.", "One. Again.", "Two.", "Two. Again.", "Three.", "Three. Again."):
        assert written.count(f"user: {said}") == 1
    for each in ("call exec_command", "call look", "output a duck", "assistant: A duck."):
        assert written.count(each) == 6
    assert len(rollouts(tmp_path)) == 1


async def test_the_events_of_a_resumed_turn_are_those_of_any_other(tmp_path: Path):
    async with open_stage(tmp_path, *WORK, *WORK) as stage:
        async with stage.thread(tools=(looking(),)) as thread:
            first = await hear(thread, "One.")
        async with stage.thread(thread.id, tools=(looking(),)) as thread:
            second = await hear(thread, "Two.")
    told = [[type(event).__name__ for event in events] for events in (first, second)]
    # Two calls at once end in any order.
    assert sorted(told[0]) == sorted(told[1])
    assert whats(second) == ["thread.resumed"]


async def test_a_request_whose_outputs_do_not_reach_the_file_is_not_noted(tmp_path: Path):
    frozen: list[Path] = []

    async def freeze() -> None:
        """As on a full disk: Codex writes on, and nobody can read it."""
        for path in frozen:
            shutil.copy(path.rename(path.with_suffix(".gone")), path)
        frozen.clear()

    tools = (looking(freeze),)
    async with open_stage(tmp_path, *WORK, *WORK, Answer(text="Later.")) as stage:
        async with stage.thread(tools=tools) as thread:
            await hear(thread, "One.")
        async with stage.thread(thread.id, tools=tools) as thread:
            frozen += rollouts(tmp_path).values()
            heard = await hear(thread, "Two.")
            assert whats(heard)[0] == "thread.resumed"
            await hear(thread, "Three.")
            assert not any(row.unexplained for row in await thread.index.rows(thread.id))


async def append_answer(place: Path) -> None:
    """What another Codex would write that goes on with the thread."""
    said = {"type": "output_text", "text": "I was here."}
    item = {"type": "message", "role": "assistant", "id": "msg_x", "content": [said]}
    (path,) = rollouts(place).values()
    with path.open("a") as file:
        file.write(json.dumps({"type": "response_item", "payload": item}) + "\n")


async def test_a_thread_that_somebody_else_went_on_with_is_not_resumed(tmp_path: Path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await talk(thread, "One.")
    await append_answer(tmp_path)
    async with open_stage(tmp_path) as stage, stage.thread(thread.id) as thread:
        heard = await hear(thread, "Two.")
        assert shows_view(thread, stage.requests[-1])
    assert start_reasons(heard) == ["app-server-restarted"]
    assert "I was here." not in stage.requests[-1].body.decode()


async def test_a_turn_of_another_harness_in_between_needs_another_thread(tmp_path: Path):
    async with open_stage(tmp_path, Answer(text="fine"), *WORK) as stage:
        async with stage.thread(tools=(looking(),)) as thread:
            await talk(thread, "One.")
            thread.use(harness="treadle")
            await talk(thread, "Two.")
        async with stage.thread(thread.id, tools=(looking(),)) as thread:
            heard = await hear(thread, "Three.")
            assert shows_view(thread, stage.requests[-1])
    assert start_reasons(heard) == ["thread-reopened"]


async def test_a_server_that_died_is_not_trusted_with_its_thread(tmp_path: Path):
    async with open_stage(tmp_path) as stage:
        async with stage.thread() as thread:
            await talk(thread, "One.")
        async with stage.thread(thread.id) as thread:
            await talk(thread, "Two.")
            (server,) = stage.harness.servers.servers
            await kill_server(server)
            heard = await hear(thread, "Three.")
            assert shows_view(thread, stage.requests[-1])
    assert start_reasons(heard) == ["app-server-restarted"]


async def test_a_thread_that_was_replaced_leaves_nothing_in_codex(tmp_path: Path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await talk(thread, "One.")
        (former,) = rollouts(tmp_path)
        thread.use("openai:gpt-5.4")
        heard = await hear(thread, "Two.")
        (newest,) = rollouts(tmp_path)
        await thread.reset()
    assert start_reasons(heard) == ["model-mismatch"]
    assert newest != former
    assert rollouts(tmp_path) == {}


@pytest.mark.parametrize(("days", "stays"), [(2, False), (0, True)])
async def test_what_nobody_knows_is_cleaned_up_when_it_is_old(
    tmp_path: Path, days: int, stays: bool
):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await talk(thread, "One.")
    (bound,) = rollouts(tmp_path).values()
    name = "01a1e520-79e8-7400-9f09-0c6e10a4d154"
    left = bound.with_name(f"rollout-2026-11-01T00-00-00-{name}.jsonl")
    left.write_bytes(bound.read_bytes())
    for path in (left, bound):
        os.utime(path, (time.time() - days * 86_400,) * 2)
    async with open_stage(tmp_path) as stage, stage.thread(thread.id) as thread:
        await talk(thread, "Two.")
    assert left.exists() is stays
    assert bound.exists()


async def test_hooks_guard_the_commands_of_a_resumed_thread(tmp_path: Path):
    name = None
    for number in (1, 2):
        guard = Guard()
        answers = (run("touch forbidden.txt", f"c{number}"), run(f"touch {number}.txt", "d"))
        async with (
            open_stage(tmp_path, *answers) as stage,
            stage.thread(name, hooks=guard.hooks) as thread,
        ):
            name, heard = thread.id, await hear(thread, "Go.")
            assert last(heard).status == "completed"
            assert [each.tool for each in guard.asked] == ["exec_command"] * 2
            assert files(stage) == [f"{each}.txt" for each in range(1, number + 1)]
    assert whats(heard) == ["thread.resumed"]


async def test_the_calls_of_a_script_in_a_resumed_thread_are_answered(tmp_path: Path):
    script = "const r = await tools.look({}); text(JSON.stringify(r));"
    work = (Answer(calls=(Call(name="exec", input=script),)), Answer(text="A duck."))
    options: dict[str, Any] = {"tools": (looking(),), "model": CODE_MODE}
    async with open_stage(tmp_path, *work, *work) as stage:
        async with stage.thread(**options) as thread:
            await talk(thread, "One.")
        async with stage.thread(thread.id, **options) as thread:
            heard = await hear(thread, "Two.")
            written = [line.split(": ")[0].split(" ")[0] for line in await log(thread)]
    assert (last(heard).text, whats(heard)) == ("A duck.", ["thread.resumed"])
    assert written == ["user", "call", "output", "assistant"] * 2
    assert len(keys(stage.requests)) == 1


async def test_a_copy_of_a_home_leaves_the_threads_of_the_original_alone(tmp_path: Path):
    async with open_stage(tmp_path) as stage, stage.thread() as thread:
        await talk(thread, "One.")
    (original,) = rollouts(tmp_path).values()
    before = original.read_bytes()
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "treadle", copy / "treadle")
    async with open_stage(copy) as stage, stage.thread(thread.id) as thread:
        heard = await hear(thread, "Two.")
        assert shows_view(thread, stage.requests[-1])
    assert start_reasons(heard) == ["app-server-restarted"]
    assert original.read_bytes() == before


async def test_what_an_earlier_turn_writes_late_is_not_heard_again(tmp_path: Path):
    async with open_stage(tmp_path, *WORK) as stage, stage.thread(tools=(looking(),)) as thread:
        name = thread.id
        await talk(thread, "One.")
    answers = (Answer(text="Two it is."), Answer(text="Three it is."))
    async with (
        open_stage(tmp_path, *answers) as stage,
        stage.thread(name, tools=(looking(),)) as thread,
    ):
        await talk(thread, "Two.")
        (rollout,) = rollouts(tmp_path).values()
        lines = rollout.read_bytes().splitlines(keepends=True)
        late = [line for line in lines if b'"response_item"' in line and b"A duck." in line]
        assert late
        with rollout.open("ab") as file:
            file.writelines(late)  # as Codex does once its disk has room again
        await talk(thread, "Three.")
        said = [line for line in await log(thread) if line.startswith("assistant: ")]
        assert [line.removeprefix("assistant: ") for line in said] == [
            "Let me see.", "A duck.", "Two it is.", "Three it is.",
        ]  # fmt: skip


def freeze(frozen: list[Path]) -> None:
    """As on a full disk: what Codex writes from now on is not in its file, but comes later."""
    for path in frozen:
        shutil.copy(path.rename(path.with_suffix(".gone")), path)


def thaw(frozen: list[Path]) -> None:
    """Let the files have what was written in the meantime, and what comes."""
    for path in frozen:
        path.with_suffix(".gone").replace(path)


def freeze_at_first(looks: list[int], frozen: list[Path], place: Path) -> None:
    """Freeze the files at the first look."""
    looks.append(len(looks))
    if len(looks) == 1:
        frozen.extend(rollouts(place).values())
        freeze(frozen)


LOOKS = (
    Answer(text="First a look.", calls=(Call(name="look"),)),
    Answer(
        reasoning="Hm.",
        text="And a command.",
        calls=(Call(name="exec_command", arguments={"cmd": "echo quack"}),),
    ),
    Answer(reasoning="Hm.", text="One more.", calls=(Call(name="look"),)),
)


MADE = [
    "assistant: First a look.", "call look", "output a duck",
    "assistant: And a command.", "call exec_command", "output quack",
    "assistant: One more.", "call look", "output a duck",
]  # fmt: skip


async def written_since(thread: Thread, said: str) -> list[str]:
    lines = await log(thread)
    since = lines[lines.index(f"user: {said}") + 1 :]
    return [line.strip() for line in since if "<" not in line]


async def test_what_never_reaches_the_file_of_an_interrupted_turn_is_in_the_log(tmp_path: Path):
    looks: list[int] = []
    frozen: list[Path] = []

    async def see() -> None:
        freeze_at_first(looks, frozen, tmp_path)

    tools = (looking(see),)
    async with open_stage(tmp_path, Answer(text="Fine."), *LOOKS) as stage:
        async with stage.thread(tools=tools) as thread:
            await hear(thread, "One.")
        async with stage.thread(thread.id, tools=tools) as thread:
            async for event in thread.run("Two."):
                if isinstance(event, ToolFinished) and len(looks) == 2:
                    thread.interrupt()
            assert await written_since(thread, "Two.") == MADE
            thaw(frozen)
            assert await talk(thread, "Three.") == ["fine"]
            assert await written_since(thread, "Two.") == [*MADE, "user: Three.", "assistant: fine"]
            assert await unpaired_calls(thread) == []


async def test_what_reaches_the_file_late_is_not_doubled_after_a_crash(tmp_path: Path):
    looks: list[int] = []
    frozen: list[Path] = []

    async def see() -> None:
        freeze_at_first(looks, frozen, tmp_path)
        if len(looks) == 2:
            thaw(frozen)
            (running,) = stage.harness.servers.servers
            await kill_server(running)
            await asyncio.Event().wait()

    tools = (looking(see),)
    async with open_stage(tmp_path, Answer(text="Fine."), *LOOKS) as stage:
        async with stage.thread(tools=tools) as thread:
            await hear(thread, "One.")
        async with stage.thread(thread.id, tools=tools) as thread:
            await hear(thread, "Two.")
            written = await written_since(thread, "Two.")
            assert written[: len(MADE) - 1] == MADE[:-1]
            assert [written.count(line) for line in ("call look", "assistant: One more.")] == [2, 1]
            assert await unpaired_calls(thread) == []
