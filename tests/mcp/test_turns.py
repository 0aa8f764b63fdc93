from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from treadle.core.entries import Epoch, Reason
from treadle.core.errors import ConfigError
from treadle.harness.events import (
    ApprovalRequested,
    NoticeRaised,
    QuestionsAsked,
    ToolFinished,
    ToolProgress,
)
from treadle.hooks import Hooks
from treadle.hooks.payloads import BeforeToolCall, HookAnswer
from treadle.sandbox.approvals import Decision, ForThread, No, Once
from treadle.testing.script import Answer
from treadle.thread.options import ToolOptions
from treadle.tools.contract import Answers

from .scenes import OwnServer, outputs, servers_of, texts, thread_with, tool_names, until


def calling(name: str, **arguments: object):
    """A model that makes one call, then ends."""
    return scripted(Answer(calls=(call(name, **arguments),)), Answer(text="done"))


async def outcome(place, server, name: str, at=lambda _: None, **arguments: object):
    """The output of one call, and the events of its turn."""
    model = calling(name, **arguments)
    async with thread_with(place, model, server) as thread:
        events = await hear(thread, "go", at=at)
        assert last(events).status == "completed"
        (said,) = outputs(model.requests[-1].body)
        return said, events


async def test_a_few_tools_are_offered_directly_and_run(tmp_path):
    server = OwnServer(tmp_path, tools=["echo", "add"], instructions="Prefer add.")
    model = calling("mcp__echo__echo", text="hi")
    async with thread_with(tmp_path, model, server) as thread:
        events = await hear(thread, "go")
        first, second = (each.body for each in model.requests)
        assert tool_names(first) == ["mcp__echo__add", "mcp__echo__echo"]
        assert outputs(second) == ["hi"]
        assert "- echo: 2 tools\n  What it says of itself:\n  | Prefer add." in texts(first)
        assert second.startswith(first.removesuffix(b"]}"))
        (finished,) = of(events, ToolFinished)
        assert finished.success


async def test_a_resumed_thread_sends_the_same_bytes_though_the_server_is_gone(tmp_path):
    server = OwnServer(tmp_path, tools=["echo", "add"])
    model = scripted(Answer(text="one"))
    async with thread_with(tmp_path, model, server) as thread:
        await hear(thread, "first")
        name, sent = thread.id, model.requests[0].body
    server.change(dead=True)
    for file in (tmp_path / "home/mcp").iterdir():
        file.unlink()  # the thread itself has stored what it offered
    model = scripted(Answer(text="two"))
    async with thread_with(tmp_path, model, server, thread=name) as thread:
        await hear(thread, "second")
    assert model.requests[0].body.startswith(sent.removesuffix(b"]}"))


async def test_a_tool_that_was_turned_off_is_gone_though_its_server_is_away(tmp_path):
    own = OwnServer(tmp_path, tools=["echo", "other"])
    async with servers_of(tmp_path, own) as servers:
        await servers.prepare()
    own.change(dead=True)
    model = scripted(Answer(calls=(call("mcp__echo__echo", text="x"),)), Answer(text="done"))
    async with thread_with(tmp_path, model, own.server(disabled_tools=("echo",))) as thread:
        await hear(thread, "go")
    assert tool_names(model.requests[0].body) == ["mcp__echo__other"]
    assert outputs(model.requests[-1].body) == ["unsupported call: mcp__echo__echo"]


async def test_a_changed_list_of_direct_tools_is_an_epoch_at_the_next_turn(tmp_path):
    server = OwnServer(tmp_path, tools=["changes", "old"])
    answers = [Answer(calls=(call("mcp__echo__changes"),)), Answer(text="a"), Answer(text="b")]
    model = scripted(*answers)
    async with thread_with(tmp_path, model, server) as thread:
        waiting = thread.policy.options.tools.mcp
        assert waiting is not None
        await waiting.prepare()
        server.change(tools=["changes", "new"])
        await hear(thread, "first")
        names = ["changes", "new"]
        await until(lambda: [each.name for each in waiting.snapshots["echo"].tools] == names)
        await hear(thread, "second")
        first, again, second = (each.body for each in model.requests)
        assert tool_names(first) == tool_names(again) == ["mcp__echo__changes", "mcp__echo__old"]
        assert tool_names(second) == ["mcp__echo__changes", "mcp__echo__new"]
        entries = await thread.store.read(thread.id)
        controls = [each.control for each in entries if each.kind == "epoch"]
        epochs = [each for each in controls if isinstance(each, Epoch)]
        assert [each.reason for each in epochs] == [Reason.START, Reason.TOOLS]
        assert epochs[1].note == "echo: added 1 (new), removed 1 (old)"


async def test_progress_is_told_while_a_call_runs(tmp_path):
    said, events = await outcome(
        tmp_path, OwnServer(tmp_path, tools=["progress"]), "mcp__echo__progress", text="x"
    )
    assert said == "x"
    assert [each.text for each in of(events, ToolProgress)] == ["1 of 2 at it\n", "2 of 2 at it\n"]


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("die", "ended while it worked on the call; how far it came is unknown"),
        ("error", "says: the database is gone"),
        ("deep", "says: sent a message that cannot be read"),
        ("hang", "did not answer within 0.5 seconds; whether it acted is unknown"),
    ],
)
async def test_a_call_that_fails_is_a_line_and_the_turn_goes_on(tmp_path, does, said):
    settings = {"timeout": 0.5} if does == "hang" else {}
    server = OwnServer(tmp_path, tools=[does]).server(**settings)
    output, events = await outcome(tmp_path, server, f"mcp__echo__{does}")
    assert output.startswith(f"mcp__echo__{does} failed: the MCP server 'echo' {said}")
    assert not of(events, ToolFinished)[0].success


async def test_a_result_that_is_too_long_is_kept_whole(tmp_path):
    server = OwnServer(tmp_path, tools=["huge"], bytes=3 << 20)
    said, _ = await outcome(tmp_path, server, "mcp__echo__huge")
    assert len(said) < 100_000
    assert "(use read_output)" in said


async def test_a_message_of_a_hundred_megabytes_fails_one_call(tmp_path):
    server = OwnServer(tmp_path, tools=["huge"], bytes=100 << 20)
    said, _ = await outcome(tmp_path, server, "mcp__echo__huge")
    assert "sent a message of more than 32 MiB, which was not read" in said


async def test_structured_content_is_checked_and_kept(tmp_path):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    listed = {"name": "structured", "inputSchema": {"type": "object"}, "outputSchema": schema}
    server = OwnServer(tmp_path, tools=[listed], structured={"n": 7})
    said, _ = await outcome(tmp_path, server, "mcp__echo__structured")
    assert json.loads(said) == {"n": 7}
    server.change(structured={"n": "seven"})
    said, _ = await outcome(tmp_path, server, "mcp__echo__structured")
    assert said.startswith("[this does not fit the schema that the server gave for it: ")
    assert said.endswith('{"n":"seven"}')


async def test_servers_that_nobody_trusts_ask_whatever_they_say_of_themselves(tmp_path):
    hints = {"annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object"}}
    server = OwnServer(tmp_path, tools=[{"name": "echo", **hints}])
    for trusted, often in ((False, 1), (True, 0)):
        model = calling("mcp__echo__echo")
        settings = server.server(approval="auto", trusted=trusted)
        async with thread_with(tmp_path, model, settings, approval="on-request") as thread:
            events = await hear(
                thread,
                "go",
                at=lambda each: (
                    thread.answer(each.id, Once()) if isinstance(each, ApprovalRequested) else None
                ),
            )
        asked = of(events, ApprovalRequested)
        assert len(asked) == often
        assert all(each.call.outside for each in asked)


async def test_an_approval_for_the_thread_is_about_the_tool(tmp_path):
    server = OwnServer(tmp_path, tools=["echo"]).server(approval="prompt")
    calls = [Answer(calls=(call("mcp__echo__echo", text=text),)) for text in "abc"]
    answers: Iterator[Decision] = iter([No("not now"), ForThread()])
    model = scripted(*calls, Answer(text="done"))
    async with thread_with(tmp_path, model, server, approval="on-request") as thread:
        events = await hear(
            thread,
            "go",
            at=lambda each: (
                thread.answer(each.id, next(answers))
                if isinstance(each, ApprovalRequested)
                else None
            ),
        )
        refused = "mcp__echo__echo failed: rejected by user: not now"
        assert outputs(model.requests[-1].body) == [refused, "b", "c"]
    assert len(of(events, ApprovalRequested)) == 2


async def test_where_nobody_may_be_asked_a_call_is_refused_with_the_way_out(tmp_path):
    model = calling("mcp__echo__echo")
    server = OwnServer(tmp_path, tools=["echo"]).server(approval="auto")
    options = {"approval": "never", "sandbox": "workspace-write"}
    async with thread_with(tmp_path, model, server, **options) as thread:
        await hear(thread, "go")
        (said,) = outputs(model.requests[-1].body)
    assert 'approval = "approve"` for `mcp.servers.echo.tools.echo`' in said


async def test_hooks_guard_calls_by_their_full_names(tmp_path):
    hooks = Hooks()
    seen = []

    async def guard(event):
        seen.append(event.tool)
        return HookAnswer(block="not on a Sunday")

    hooks.on(BeforeToolCall, guard)
    model = scripted(
        Answer(calls=(call("tool_call", name="mcp__echo__echo", arguments={"text": "x"}),)),
        Answer(text="done"),
    )
    server = OwnServer(tmp_path, tools=["echo"]).server(load="search")
    async with thread_with(tmp_path, model, server, hooks=hooks) as thread:
        await hear(thread, "go")
        assert outputs(model.requests[-1].body) == ["not on a Sunday"]
    assert seen == ["mcp__echo__echo"]


async def test_a_form_is_a_question_of_the_turn(tmp_path):
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who you are"},
            "old": {"type": "integer"},
            "kind": {"type": "string", "enum": ["cat", "dog"]},
        },
        "required": ["name"],
    }
    asked = {"mode": "form", "message": "Introduce yourself", "requestedSchema": schema}
    server = OwnServer(tmp_path, tools=["elicit"], elicit=asked)
    model = calling("mcp__echo__elicit")
    async with thread_with(tmp_path, model, server.server(timeout=5)) as thread:

        def reply(event):
            if isinstance(event, QuestionsAsked):
                assert (
                    "The MCP server 'echo' asks: Introduce yourself" in event.questions[0].question
                )
                answers: Answers = {"name": ("Ann",), "old": ("7",), "kind": ("cat",)}
                thread.answer(event.id, answers)

        await hear(thread, "go", at=reply)
        (said,) = outputs(model.requests[-1].body)
    content = {"name": "Ann", "old": 7, "kind": "cat"}
    assert json.loads(said) == {"action": "accept", "content": content}


@pytest.mark.parametrize(("said", "action"), [("done", "accept"), ("decline", "decline")])
async def test_an_address_is_shown_and_opened_by_the_user_only(tmp_path, said, action):
    asked = {"mode": "url", "message": "Pay here", "url": "https://pay.example/1"}
    server = OwnServer(tmp_path, tools=["elicit"], modern=True, elicit=asked)
    model = calling("mcp__echo__elicit")
    async with thread_with(tmp_path, model, server) as thread:

        def reply(event):
            if isinstance(event, QuestionsAsked):
                assert "wants you to visit https://pay.example/1" in event.questions[0].question
                thread.answer(event.id, {"visit": (said,)})

        await hear(thread, "go", at=reply)
        (output,) = outputs(model.requests[-1].body)
    assert json.loads(output) == {"action": action}


@pytest.mark.parametrize(("said", "told"), [("done", "welcome"), ("decline", "has done nothing")])
async def test_a_call_that_wants_a_visit_first_is_sent_again_after_it(tmp_path, said, told):
    visit = {
        "mode": "url",
        "message": "Log in",
        "url": "https://in.example/1",
        "elicitationId": "1",
    }
    server = OwnServer(tmp_path, tools=["elicit"], first_visit={"elicitations": [visit]})
    model = calling("mcp__echo__elicit")
    async with thread_with(tmp_path, model, server) as thread:

        def reply(event):
            if isinstance(event, QuestionsAsked):
                assert "wants you to visit https://in.example/1" in event.questions[0].question
                thread.answer(event.id, {"visit": (said,)})

        await hear(thread, "go", at=reply)
        (output,) = outputs(model.requests[-1].body)
    assert told in output


async def test_a_form_that_wants_a_secret_is_declined_unseen(tmp_path):
    schema = {"type": "object", "properties": {"api_key": {"type": "string"}}}
    asked = {"mode": "form", "message": "Log in", "requestedSchema": schema}
    server = OwnServer(tmp_path, tools=["elicit"], elicit=asked)
    said, events = await outcome(tmp_path, server, "mcp__echo__elicit")
    assert json.loads(said) == {"action": "decline"}
    assert of(events, QuestionsAsked) == []


async def test_a_required_server_fails_the_run(tmp_path):
    server = OwnServer(tmp_path, dead=True).server(required=True)
    async with thread_with(tmp_path, scripted(), server) as thread:
        with pytest.raises(ConfigError, match="no licence"):
            await hear(thread, "go")


async def test_another_server_that_does_not_start_is_a_notice(tmp_path):
    server = OwnServer(tmp_path, dead=True)
    model = scripted(Answer(text="hi"))
    async with thread_with(tmp_path, model, server) as thread:
        events = await hear(thread, "go")
    assert last(events).status == "completed"
    (notice,) = of(events, NoticeRaised)
    assert "no licence" in notice.text


async def test_agents_share_the_servers_of_their_parent(tmp_path):
    server = OwnServer(tmp_path, tools=["pid"])
    async with servers_of(tmp_path, server) as opened:
        found = []
        for name in ("a", "b"):
            model = calling("mcp__echo__pid")
            (tmp_path / name).mkdir()
            tools = ToolOptions(tools=(), mcp=opened)
            async with open_thread(tmp_path / name, model, tools=tools) as thread:
                await hear(thread, "go")
                found += outputs(model.requests[-1].body)
    assert len(set(found)) == 1
