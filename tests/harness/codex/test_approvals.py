from __future__ import annotations

from typing import Any

import pytest

from tests.harness.scenes import log, unpaired_calls
from treadle import Thread
from treadle.harness.codex.codex_options import CodexOptions
from treadle.harness.events import (
    ApprovalRequested,
    Event,
    NoticeRaised,
    QuestionsAsked,
    StepStarted,
    ToolFinished,
)
from treadle.prompt.prompt_context import CollaborationMode, PromptContext
from treadle.sandbox.approvals import Ask, Decision, ForPrefix, ForThread, No, NoAndStop, Once
from treadle.testing.script import Answer, Call
from treadle.tools.contract import AnswerOption, ToolContext, ToolResult, UserQuestion
from treadle.tools.decorator import tool
from treadle.tools.permission import obtain_bounds

from .scenes import hear, last, of, open_stage, request_items, roles_and_texts

ASKING: dict[str, Any] = {"sandbox": "workspace-write", "approval": "untrusted"}
PATCH = Call(
    name="apply_patch",
    input="*** Begin Patch\n*** Add File: hello.txt\n+hi\n*** End Patch\n",
)
AGAIN = Call(
    name="apply_patch",
    input="*** Begin Patch\n*** Update File: hello.txt\n-hi\n+ho\n*** End Patch\n",
)


def touch(name: str) -> Answer:
    arguments = {"cmd": f"touch {name}", "login": False}
    return Answer(calls=(Call(name="exec_command", arguments=arguments),))


async def answered(thread: Thread, decisions: list[Decision], *said: str) -> list[Event]:
    """A turn in which approvals are answered one after the other."""
    left = list(decisions)

    def decide(event: Event) -> None:
        if isinstance(event, ApprovalRequested):
            thread.answer(event.id, left.pop(0))

    events = await hear(thread, *said, at=decide)
    assert left == []
    return events


async def test_a_command_of_codex_waits_for_the_host(tmp_path):
    async with (
        open_stage(tmp_path, touch("made"), Answer(text="done")) as stage,
        stage.thread(**ASKING) as thread,
    ):
        events = await answered(thread, [Once()], "go")
        (asked,) = of(events, ApprovalRequested)
        shell = asked.call.argv[0]
        assert asked.call == Ask(
            argv=(shell, "-c", "touch made"),
            cwd=str(tmp_path / "project"),
            reason=f"`{shell} -c 'touch made'` requires approval by policy",
            outside=True,
            prefix=("touch", "made"),
        )
        assert [event.success for event in of(events, ToolFinished)] == [True]
        assert last(events).text == "done"
        assert await thread.store.outbox(thread=thread.id, topic="output") == []
        assert (tmp_path / "project/made").exists()


@pytest.mark.parametrize(
    ("decision", "second", "asked"),
    [
        (Once(), "made", 2),
        (ForThread(), "made", 1),
        (ForPrefix(("touch",)), "other", 1),
    ],
    ids=["once", "thread", "prefix"],
)
async def test_a_yes_holds_for_as_long_as_it_says(tmp_path, decision, second, asked):
    async with (
        open_stage(tmp_path, touch("made"), touch(second), Answer(text="done")) as stage,
        stage.thread(**ASKING) as thread,
    ):
        events = await answered(thread, [decision] * asked, "go")
        assert [event.success for event in of(events, ToolFinished)] == [True, True]
        assert (tmp_path / "project" / second).exists()


async def test_a_no_lets_the_turn_go_on_and_its_reason_is_read(tmp_path):
    async with (
        open_stage(tmp_path, touch("made"), Answer(text="I will")) as stage,
        stage.thread(**ASKING) as thread,
    ):
        events = await answered(thread, [No("use a copy")], "go")
        assert last(events).text == "I will"
        assert not (tmp_path / "project/made").exists()
        (output, reason) = roles_and_texts(request_items(stage.requests[-1]))[-2:]
        assert "rejected by user" in output[1]
        assert reason == ("user", "use a copy")
        assert (await log(thread))[-2:] == ["user: use a copy", "assistant: I will"]
        assert [event.success for event in of(events, ToolFinished)] == [False]


async def test_a_no_and_stop_ends_the_turn_with_every_call_answered(tmp_path):
    async with (
        open_stage(tmp_path, touch("made"), Answer(text="never asked")) as stage,
        stage.thread(**ASKING) as thread,
    ):
        events = await answered(thread, [NoAndStop()], "go")
        assert last(events).status == "interrupted"
        assert await unpaired_calls(thread) == []
        assert (await thread.store.turn(thread.id, 1)).state == "aborted"
        assert b"<turn_aborted>" in thread.view.rows[-1].body
        assert len(stage.requests) == 1


@pytest.mark.parametrize(
    ("decision", "asked"),
    [(Once(), 2), (ForThread(), 1), (ForPrefix(("x",)), 1)],
    ids=["once", "thread", "prefix"],
)
async def test_a_patch_of_codex_waits_for_the_host_who_sees_its_files(tmp_path, decision, asked):
    async with (
        open_stage(
            tmp_path, Answer(calls=(PATCH,)), Answer(calls=(AGAIN,)), Answer(text="done")
        ) as stage,
        stage.thread(**ASKING) as thread,
    ):
        events = await answered(thread, [decision] * asked, "go")
        (first, *_) = of(events, ApprovalRequested)
        assert first.call == Ask(
            argv=("apply_patch", str(tmp_path / "project/hello.txt")),
            cwd="",
            reason="the patch requires approval",
        )
        assert (tmp_path / "project/hello.txt").read_text() == "ho\n"
        assert [event.success for event in of(events, ToolFinished)] == [True, True]


@pytest.mark.parametrize("decision", [No("not there"), NoAndStop()], ids=["no", "stop"])
async def test_a_patch_that_is_refused_is_not_applied(tmp_path, decision):
    async with (
        open_stage(tmp_path, Answer(calls=(PATCH,)), Answer(text="done")) as stage,
        stage.thread(**ASKING) as thread,
    ):
        events = await answered(thread, [decision], "go")
        stopped = isinstance(decision, NoAndStop)
        assert last(events).status == ("interrupted" if stopped else "completed")
        assert len(stage.requests) == (1 if stopped else 2)
        assert not (tmp_path / "project/hello.txt").exists()
        assert await unpaired_calls(thread) == []


async def test_two_commands_that_ask_at_once_get_each_their_own_answer(tmp_path):
    calls = tuple(call for name in "ab" for call in touch(name).calls)
    async with (
        open_stage(tmp_path, Answer(calls=calls), Answer(text="done")) as stage,
        stage.thread(**ASKING) as thread,
    ):

        def decide(event: Event) -> None:
            if isinstance(event, ApprovalRequested):
                yes = event.call.argv[-1] == "touch b"
                thread.answer(event.id, Once() if yes else No())

        await hear(thread, "go", at=decide)
        assert [(tmp_path / "project" / name).exists() for name in "ab"] == [False, True]
        assert await unpaired_calls(thread) == []


@tool(parallel=True)
async def ask(context: ToolContext) -> ToolResult:
    """Asks the user."""
    done = await obtain_bounds(Ask(argv=("ask",), cwd="", reason="why not"), context)
    return done.result("ask") if hasattr(done, "result") else ToolResult("allowed")


@pytest.mark.parametrize(
    ("decision", "output"),
    [(Once(), "allowed"), (No("no way"), "ask failed: rejected by user: no way")],
    ids=["yes", "no"],
)
async def test_an_approval_inside_our_tool_reaches_the_host(tmp_path, decision, output):
    called = Answer(calls=(Call(name="ask"),))
    async with (
        open_stage(tmp_path, called, Answer(text="done")) as stage,
        stage.thread(tools=(ask,)) as thread,
    ):
        events = await answered(thread, [decision], "go")
        assert last(events).text == "done"
        assert roles_and_texts(request_items(stage.requests[-1]))[-1] == (
            "function_call_output",
            output,
        )
        assert await thread.store.outbox(thread=thread.id, topic="output") == []


async def test_a_no_and_stop_inside_our_tool_ends_the_turn(tmp_path):
    called = Answer(calls=(Call(name="ask"),))
    async with open_stage(tmp_path, called) as stage, stage.thread(tools=(ask,)) as thread:
        events = await answered(thread, [NoAndStop()], "go")
        assert last(events).status == "interrupted"
        assert len(stage.requests) == 1
        assert await unpaired_calls(thread) == []
        assert (await log(thread))[2].startswith("output ")
        assert last(await hear(thread, "go on")).text == "fine"
        assert (
            len(
                [
                    t
                    for _, t in roles_and_texts(request_items(stage.requests[-1]))
                    if "<turn_aborted>" in t
                ]
            )
            == 1
        )


@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_a_question_of_codex_reaches_the_user(tmp_path, mode):
    question = {
        "id": "where",
        "header": "Where",
        "question": "Which file?",
        "options": [
            {"label": "A (Recommended)", "description": "the first"},
            {"label": "B", "description": "the second"},
        ],
    }
    asked = Call(name="request_user_input", arguments={"questions": [question]})
    settings = PromptContext(
        cwd="",
        sandbox_mode="danger-full-access",
        approval_policy="never",
        collaboration_mode=CollaborationMode("plan") if mode == "plan" else None,
    )
    async with (
        open_stage(tmp_path, Answer(calls=(asked,)), Answer(text="B it is")) as stage,
        stage.thread(settings=settings, sandbox=None, approval=None) as thread,
    ):

        def pick(event: Event) -> None:
            if isinstance(event, QuestionsAsked):
                thread.answer(event.id, {"where": ("B",)})

        events = await hear(thread, "plan it", at=pick)
        (heard,) = of(events, QuestionsAsked)
        assert heard.questions == (
            UserQuestion(
                id="where",
                header="Where",
                question="Which file?",
                options=(
                    AnswerOption("A (Recommended)", "the first"),
                    AnswerOption("B", "the second"),
                ),
            ),
        )
        assert roles_and_texts(request_items(stage.requests[-1]))[-1] == (
            "function_call_output",
            '{"answers":{"where":{"answers":["B"]}}}',
        )
        assert last(events).text == "B it is"
        told = stage.requests[0].body.decode()
        assert ("<collaboration_mode>" in told) == (mode == "plan")


PERMISSIONS = """
[features]
plugins = false
apps = false
request_permissions_tool = true
[analytics]
enabled = false
"""


@pytest.mark.parametrize(
    ("decision", "output"),
    [
        (Once(), '{"permissions":{"network":{"enabled":true},"file_system":null},"scope":"turn"}'),
        (
            ForThread(),
            '{"permissions":{"network":{"enabled":true},"file_system":null},"scope":"session"}',
        ),
        (No(), '{"permissions":{"network":null,"file_system":null},"scope":"turn"}'),
        (NoAndStop(), ""),
    ],
    ids=["once", "thread", "no", "stop"],
)
async def test_more_permissions_are_for_the_host_to_grant(tmp_path, decision, output):
    settings = tmp_path / "home/.codex"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text(PERMISSIONS)
    wanted = {"reason": "to look", "permissions": {"network": {"enabled": True}}}
    asked = Answer(calls=(Call(name="request_permissions", arguments=wanted),))
    rights = {"sandbox": "workspace-write", "approval": "on-request"}
    async with (
        open_stage(tmp_path, asked, options=CodexOptions(home="user")) as stage,
        stage.thread(**rights) as thread,
    ):
        events = await answered(thread, [decision], "go")
        (heard,) = of(events, ApprovalRequested)
        assert (heard.call.argv[0], heard.call.reason) == ("permissions", "to look")
        assert await unpaired_calls(thread) == []
        if output:
            assert (await log(thread))[2] == f"output {output}"
        else:
            assert (last(events).status, len(stage.requests)) == ("interrupted", 1)


async def test_a_question_that_the_model_does_not_wait_for_is_told_to_the_user(tmp_path):
    asked = {"questions": [{"title": "Which colour?", "options": ["Red", "Blue"]}]}
    answer = Answer(calls=(Call(name="request_user_input_async", arguments=asked, id="c1"),))
    async with (
        open_stage(tmp_path, answer) as stage,
        stage.thread(model="openai:gpt-6.1-sol") as thread,
    ):
        events = await hear(thread, "go")
        assert [each.text for each in of(events, NoticeRaised)] == [
            "the model asks: Which colour?\n- Red\n- Blue"
        ]
        assert last(events).text == "fine"
        assert [len(each) for each in (of(events, StepStarted), stage.requests)] == [2, 2]
