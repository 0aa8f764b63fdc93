from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from mcp.client.session import ClientRequestContext

from mcp import types
from tests.mcp_server.scenes import (
    ASKING,
    NEW,
    OLD,
    Place,
    accept,
    fields_of,
    run_ls,
    text_of,
    until,
)
from treadle import Thread
from treadle.testing.script import Answer, Break, ScriptedError

both_eras = pytest.mark.parametrize("era", [OLD, NEW])


@both_eras
async def test_a_task_is_run_and_its_answer_comes_with_its_thread(tmp_path: Path, era: str) -> None:
    place = Place(tmp_path)
    async with place.client(Answer(text="Done."), era=era) as client:
        done = await client.call_tool("run", {"prompt": "do it", "title": "Work"})
        assert (text_of(done), done.is_error) == ("Done.", False)
        told = fields_of(done)
        assert (told["status"], told["text"]) == ("completed", "Done.")
        listed = fields_of(await client.call_tool("threads", {}))["threads"]
        assert [(each["id"], each["name"]) for each in listed] == [(told["thread"], "Work")]


@both_eras
async def test_a_reply_goes_on_with_the_thread(tmp_path: Path, era: str) -> None:
    place = Place(tmp_path)
    async with place.client(Answer(text="Yes."), era=era) as client:
        first = fields_of(await client.call_tool("run", {"prompt": "first words"}))
        again = await client.call_tool("reply", {"thread": first["thread"], "prompt": "and more"})
        assert fields_of(again)["thread"] == first["thread"]
        shown = fields_of(await client.call_tool("show", {"thread": first["thread"]}))
    texts = [each["text"].strip() for each in shown["entries"]]
    assert texts == ["first words", "Yes.", "and more", "Yes."]


@both_eras
async def test_what_the_agent_does_is_told_while_the_caller_waits(tmp_path: Path, era: str) -> None:
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        del progress, total
        told.append(message or "")

    place = Place(tmp_path, ASKING)
    async with place.client(run_ls("echo hi"), Answer(text="Done."), era=era) as client:
        await client.call_tool("run", {"prompt": "do it"}, progress_callback=hear)
    assert any("exec_command" in each and "echo hi" in each for each in told)


@both_eras
@pytest.mark.parametrize(
    ("content", "made"),
    [
        ({"decision": "once"}, True),
        ({"decision": "no"}, False),
        ({}, False),
        ({"decision": "sure"}, False),
    ],
)
async def test_an_approval_is_a_form_and_only_a_clear_yes_is_a_yes(
    tmp_path: Path, era: str, content: dict[str, str], made: bool
) -> None:
    place = Place(tmp_path, ASKING)
    asked: list[str] = []

    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        del context
        asked.append(params.message)
        return types.ElicitResult(action="accept", content=dict(content))

    async with place.client(run_ls(), Answer(text="Done."), era=era, answering=answer) as client:
        done = await client.call_tool("run", {"prompt": "do it"})
    assert text_of(done) == "Done."
    (question,) = asked
    assert "Treadle asks" in question
    assert "touch made" in question
    assert (place.project / "made").exists() is made


@both_eras
@pytest.mark.parametrize(
    ("action", "status"), [("decline", "completed"), ("cancel", "interrupted")]
)
async def test_a_form_that_is_declined_refuses_and_one_that_is_left_ends_the_turn(
    tmp_path: Path, era: str, action: str, status: str
) -> None:
    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        del context, params
        return types.ElicitResult.model_validate({"action": action})

    place = Place(tmp_path, ASKING)
    async with place.client(run_ls(), Answer(text="Done."), era=era, answering=answer) as client:
        done = await client.call_tool("run", {"prompt": "do it"})
    assert fields_of(done)["status"] == status
    assert not (place.project / "made").exists()


@both_eras
async def test_without_anybody_to_ask_a_command_is_refused_and_the_turn_goes_on(
    tmp_path: Path, era: str
) -> None:
    place = Place(tmp_path, ASKING)
    async with place.client(run_ls(), Answer(text="I could not."), era=era) as client:
        done = await client.call_tool("run", {"prompt": "do it"})
    assert text_of(done) == "I could not."
    assert not (place.project / "made").exists()


@both_eras
async def test_a_turn_that_fails_is_an_error_which_says_how_to_go_on(
    tmp_path: Path, era: str
) -> None:
    refusal = Answer(error=ScriptedError(status=400, message="no such thing"))
    async with Place(tmp_path).client(refusal, era=era) as client:
        done = await client.call_tool("run", {"prompt": "do it"})
    assert done.is_error
    assert fields_of(done)["status"] == "failed"
    assert f"`reply` goes on with thread {fields_of(done)['thread']}" in text_of(done)


@both_eras
async def test_a_thread_that_somebody_else_writes_is_a_clear_error(
    tmp_path: Path, era: str
) -> None:
    place = Place(tmp_path)
    async with (
        Thread.open(model=place.script(), cwd=place.project, home=place.home) as thread,
        place.client(Answer(text="Done."), era=era) as client,
    ):
        done = await client.call_tool("reply", {"thread": thread.id, "prompt": "me too"})
        assert done.is_error
        assert "is being written by process" in text_of(done)


async def test_a_call_that_is_cancelled_interrupts_its_turn_and_the_thread_goes_on(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    slow = Answer(text="Late.", stall=Break(events=1))
    server = place.server(slow, Answer(text="Now."))
    async with place.client(era=OLD, server=server) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "run", {"prompt": "take your time"})
            turn = await until(lambda: server.turns.find(lambda each: each.actions > 0))
            tasks.cancel_scope.cancel()
        await turn.wait()
        assert turn.report is not None
        assert turn.report.status == "interrupted"
        place.script(Answer(text="Now."))
        done = await client.call_tool("reply", {"thread": turn.thread, "prompt": "go on"})
        assert text_of(done) == "Now."


async def test_only_so_many_turns_run_at_a_time(tmp_path: Path) -> None:
    place = Place(tmp_path)
    server = place.server(Answer(text="Late.", stall=Break(events=1)))
    async with place.client(era=OLD, server=server) as client, anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(client.call_tool, "run", {"prompt": f"task {number}"})
        await until(lambda: server.turns.find(lambda each: each.asked.prompt == "task 7"))
        refused = await client.call_tool("run", {"prompt": "one too many"})
        assert refused.is_error
        assert "8 turns are under way" in text_of(refused)
        tasks.cancel_scope.cancel()


async def test_an_answer_to_a_turn_that_runs_no_more_says_how_to_go_on(tmp_path: Path) -> None:
    place = Place(tmp_path, ASKING)
    async with place.client(run_ls(), answering=accept(decision="once")) as client:
        asked = await client.session.call_tool(
            "run", {"prompt": "do it"}, allow_input_required=True
        )
    assert isinstance(asked, types.InputRequiredResult)
    async with place.client(Answer(text="Done."), answering=accept()) as client:
        done = await client.session.call_tool(
            "run",
            {"prompt": "do it"},
            input_responses={
                name: types.ElicitResult(action="accept", content={"decision": "once"})
                for name in asked.input_requests or {}
            },
            request_state=asked.request_state,
            allow_input_required=True,
        )
    assert isinstance(done, types.CallToolResult)
    assert done.is_error
    assert "`reply` goes on" in text_of(done)
    assert not (place.project / "made").exists()
