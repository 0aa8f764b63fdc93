from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest

from tests.harness.scenes import (
    call,
    calls_answered_once,
    hear,
    last,
    log,
    of,
    open_thread,
    outline,
    scripted,
)
from treadle import Routing
from treadle.core.entries import Reason
from treadle.core.errors import LeaseLost, StoreError, ThreadBusy
from treadle.core.stream import OutputItemDone
from treadle.harness.events import Event, StepStarted, TurnStarted
from treadle.hooks import Hooks
from treadle.hooks.payloads import BeforePromptBuild, HookAnswer
from treadle.log.turn_input import TurnInput
from treadle.models.contract import ModelError, ModelEvent, ModelRequest
from treadle.prompt.announcements import HookContext
from treadle.prompt.input import user_message
from treadle.testing.script import Answer
from treadle.testing.scripted import ScriptedModel
from treadle.tools.decorator import tool


@pytest.mark.parametrize(
    ("mode", "said"),
    [("danger-full-access", "none"), ("read-only", "read-only")],
)
async def test_a_turn_says_plainly_which_sandbox_it_has(tmp_path, mode, said):
    async with open_thread(tmp_path, scripted(Answer(text="hi")), sandbox=mode) as thread:
        (started,) = of(await hear(thread, "hello"), TurnStarted)
    assert started == TurnStarted(
        thread=thread.id,
        turn=started.turn,
        number=1,
        model="scripted:script",
        harness="treadle",
        sandbox=said,
        harness_reason="brought",
        transport="https+sse",
    )


async def test_turns_go_on_where_another_process_left_off(tmp_path):
    model = scripted(Answer(text="one"))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "first")
        name, sent = thread.id, model.requests[0].body
    model = scripted(Answer(text="two"))
    async with open_thread(tmp_path, model, thread=name) as thread:
        events = await hear(thread, "second")
        assert await log(thread) == [
            "user: first",
            "assistant: one",
            "user: second",
            "assistant: two",
        ]
    (step,) = of(events, StepStarted)
    assert step.reason is None
    assert model.requests[0].body.startswith(sent.removesuffix(b"]}"))


async def test_a_thread_has_one_writer(tmp_path):
    async with open_thread(tmp_path, scripted()) as thread:
        with pytest.raises(ThreadBusy):
            async with open_thread(tmp_path, scripted(), thread=thread.id):
                pass


async def test_a_reset_starts_from_nothing_and_keeps_the_log(tmp_path):
    model = scripted(Answer(text="a secret"), Answer(text="what secret?"))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "remember this")
        await thread.reset()
        assert thread.view.reason is Reason.RESET
        await hear(thread, "what was it?")
        assert "user: remember this" in await log(thread)
    assert b"remember this" not in model.requests[1].body
    assert b"<environment_context>" in model.requests[1].body


async def test_a_fork_goes_its_own_way(tmp_path):
    model = scripted(Answer(text="shared"), Answer(text="mine"))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        child = await thread.fork()
        await hear(thread, "two")
        mine = await log(thread)
    model = scripted(Answer(text="theirs"))
    async with open_thread(tmp_path, model, thread=child) as thread:
        await hear(thread, "three")
        theirs = await log(thread)
    assert mine == ["user: one", "assistant: shared", "user: two", "assistant: mine"]
    assert theirs == ["user: one", "assistant: shared", "user: three", "assistant: theirs"]


async def test_a_rollback_takes_the_last_turn_out_of_the_view(tmp_path):
    model = scripted(Answer(text="one"), Answer(text="two"), Answer(text="three"))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "a")
        await hear(thread, "b is wrong")
        await thread.rollback()
        await hear(thread, "c")
    assert b"b is wrong" not in model.requests[2].body
    assert b'"a"' in model.requests[2].body


async def test_a_log_that_cannot_be_written_ends_the_turn_with_its_cause(tmp_path: Path):
    @tool
    async def cut_off() -> str:
        """Takes the store away."""
        await thread.store.close()
        return "gone"

    model = scripted(Answer(calls=(call("cut_off"),)), Answer(text="never asked"))
    with pytest.raises((StoreError, LeaseLost)):
        async with open_thread(tmp_path, model, tools=(cut_off,)) as thread:
            await hear(thread, "go")
    assert len(model.requests) == 1
    async with open_thread(tmp_path, scripted(Answer(text="on")), thread=thread.id) as thread:
        assert last(await hear(thread, "again")).text == "on"
        assert (await log(thread))[2].startswith("output Outcome unknown")


async def test_a_model_nobody_can_reach_is_told_at_the_first_run(tmp_path: Path):
    from treadle import Thread

    async with Thread.open(
        model="openai:gpt-5.5", home=tmp_path, cwd=tmp_path, routing=Routing(environ={})
    ) as thread:
        with pytest.raises(ModelError, match="OPENAI_API_KEY"):
            await hear(thread, "hi")


async def test_an_answer_that_says_it_is_not_the_end_is_followed_by_another_step(tmp_path):
    more = {"type": "response.completed", "response": {"id": "resp_1", "end_turn": False}}
    model = scripted(Answer(events=(more,), text=""), Answer(text="now I am done"))
    async with open_thread(tmp_path, model) as thread:
        events = await hear(thread, "go")
    assert last(events).text == "now I am done"
    assert [line for line in outline(events) if line.startswith("step")] == ["step 1", "step 2"]


async def test_an_observer_that_fails_changes_nothing(tmp_path):
    def broken(_: Event) -> None:
        raise RuntimeError("not my day")

    async with open_thread(tmp_path, scripted(Answer(text="hello"))) as thread:
        thread.observers.append(broken)
        assert last(await hear(thread, "hi")).text == "hello"


class Defective(ScriptedModel):
    """A model with a defect: it breaks in a way that no model may."""

    broken = True

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        async with aclosing(super().stream(request)) as batches:
            async for batch in batches:
                yield batch
                if self.broken and any(isinstance(event, OutputItemDone) for event in batch):
                    raise RuntimeError("a defect")


async def test_a_defect_ends_the_turn_and_leaves_a_legal_log(tmp_path):
    @tool
    async def forever() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return "never"

    model = Defective([Answer(calls=(call("forever"),)), Answer(text="better")])
    async with open_thread(tmp_path, model, tools=(forever,)) as thread:
        with pytest.raises(RuntimeError, match="a defect"):
            await hear(thread, "hi")
        assert (await thread.store.turn(thread.id, 1)).state == "failed"
        assert await calls_answered_once(thread)
        model.broken = False
        assert last(await hear(thread, "again")).text == "better"


async def test_settings_that_change_between_turns_are_told_and_enforced(tmp_path):
    writes = Answer(calls=(call("exec_command", cmd="touch made"),))
    model = scripted(writes, Answer(text="tried"), writes, Answer(text="done"))
    made = tmp_path / "project" / "made"
    async with open_thread(tmp_path, model, tools=None, sandbox="read-only") as thread:
        await hear(thread, "make it")
        assert not made.exists()
        assert thread.log.setup.settings is not None
        thread.log.setup.settings = msgspec.structs.replace(
            thread.log.setup.settings, sandbox_mode="workspace-write"
        )
        await hear(thread, "again")
    assert made.exists()
    assert b"workspace-write" in model.requests[2].body


async def test_what_a_hook_adds_is_said_once_though_the_turn_begins_twice(tmp_path):
    hooks = Hooks()

    async def remind(_: BeforePromptBuild) -> HookAnswer:
        return HookAnswer(context="mind the gap")

    hooks.on(BeforePromptBuild, remind)
    async with open_thread(tmp_path, scripted(), hooks=hooks) as thread:
        # As far as a process got that was killed right after it had admitted the input.
        given = TurnInput(message=user_message("go"), behind=(HookContext("mind the gap"),))
        await thread.log.turns.admit(given, turn_id="turn_1")
    model = scripted(Answer(text="gone"))
    async with open_thread(tmp_path, model, thread=thread.id, hooks=hooks) as thread:
        assert last(await hear(thread, "go", turn_id="turn_1")).text == "gone"
    assert model.requests[0].body.count(b"mind the gap") == 1
