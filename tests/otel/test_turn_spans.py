"""Turns as spans and figures."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.scenes import hear
from tests.mcp.scenes import OwnServer, servers_of
from tests.otel.scenes import Seen
from treadle import Thread
from treadle.otel import conventions as names
from treadle.testing import ScriptedModel
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Call, Script, ScriptedError, Tokens
from treadle.thread.options import AgentOptions, Rights, ToolOptions

PLANTED = "a-word-that-nobody-else-says"


def options(tmp_path: Any, *answers: Answer, **more: Any) -> dict[str, Any]:
    return {
        "model": ScriptedModel(list(answers)),
        "cwd": tmp_path,
        "home": tmp_path / "home",
        "rights": Rights(sandbox="danger-full-access", approval="never"),
        **more,
    }


def command(line: str, **more: Any) -> Answer:
    return Answer(
        calls=(Call(name="exec_command", arguments={"cmd": line, "login": False}),), **more
    )


async def follow(seen: Seen, given: dict[str, Any], *said: str, thread: str | None = None) -> str:
    async with Thread.open(thread, **given) as opened, seen.telemetry.follow(opened):
        for words in said:
            await hear(opened, words)
        name = opened.id
    await given["model"].close()
    return name


async def test_a_turn_is_a_tree_of_spans_with_what_was_sent_and_used(tmp_path):
    seen = Seen()
    usage = Tokens(input=1_000, output=9, cached=800)
    given = options(tmp_path, command("echo hi"), Answer(text="done", usage=usage))
    thread = await follow(seen, given, "go")
    assert seen.tree() == [
        "invoke_agent treadle", "  chat script", "  execute_tool exec_command", "  chat script",
    ]  # fmt: skip
    turn, chat = seen.told("invoke_agent treadle")[0], seen.told("chat script")[1]
    assert turn[names.CONVERSATION] == thread
    assert (turn[names.ENGINE], turn[names.HARNESS]) == ("linear", "treadle")
    assert (chat[names.INPUT_TOKENS], chat[names.CACHE_READ]) == (1_000, 800)
    assert 0 < chat[names.SHARED_BYTES] < chat[names.REQUEST_BYTES]
    expected = round(1_000 * chat[names.SHARED_BYTES] / chat[names.REQUEST_BYTES])
    assert chat[names.EXPECTED_TOKENS] == expected
    assert chat[names.EFFICIENCY] == pytest.approx(min(800 / expected, 1.0))
    assert names.FIRST_CHUNK in chat
    assert seen.named("chat script")[1].kind.name == "CLIENT"


async def test_a_turn_of_the_real_codex_has_the_same_spans(tmp_path, monkeypatch):
    seen, script = Seen(), Script(answers=(command("echo hi"), Answer(text="done")))
    given = options(tmp_path, model="openai:gpt-5.5", harness="codex")
    async with FakeServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        async with Thread.open(**given) as thread, seen.telemetry.follow(thread):
            await hear(thread, "go")
    assert seen.tree() == [
        "invoke_agent treadle", "  chat gpt-5.5", "  execute_tool exec_command", "  chat gpt-5.5",
    ]  # fmt: skip
    turn = seen.told("invoke_agent treadle")[0]
    assert (turn[names.HARNESS], turn[names.PROVIDER]) == ("codex", "openai")
    assert all(each[names.INPUT_TOKENS] > 0 for each in seen.told("chat gpt-5.5"))


async def test_calls_of_servers_are_told_by_their_names_however_they_were_made(tmp_path):
    seen = Seen()
    named = {"name": "mcp__echo__echo", "arguments": {"text": "x"}}
    forged = {"name": "mcp__echo__echo " + PLANTED}
    calls = [
        Call(name="mcp__echo__echo", arguments={"text": "x"}),
        Call(name="tool_call", arguments=named),
        Call(name="tool_call", arguments=forged),
        Call(name="recall_search", arguments={"query": "x"}),
    ]
    answers = [*(Answer(calls=(each,)) for each in calls), Answer(text="done")]
    server = OwnServer(tmp_path, tools=["echo"])
    async with servers_of(tmp_path, server, direct_tools=0) as servers:
        given = options(tmp_path, *answers, tools=ToolOptions(tools=(), mcp=servers))
        await follow(seen, given, "go")
    assert [each for each in seen.tree() if "chat" not in each] == [
        "invoke_agent treadle",
        "  execute_tool mcp__echo__echo",
        "  execute_tool mcp__echo__echo",
        "  execute_tool tool_call",
        "  search_memory recall_search",
    ]
    told = seen.told("execute_tool mcp__echo__echo")
    assert [each[names.MCP_METHOD] for each in told] == ["tools/call"] * 2
    assert {each[names.TOOL_TYPE] for each in told} == {"extension"}
    counted = seen.metrics()[names.TOOL_DURATION]
    times = {each.attributes[names.TOOL]: each.count for each in counted}
    assert times["mcp__echo__echo"] == 2
    assert PLANTED not in str(seen.tree())


async def test_the_figures_of_a_turn_are_metrics(tmp_path):
    seen = Seen()
    usage = Tokens(input=1_000, output=9, cached=800)
    await follow(seen, options(tmp_path, Answer(text="done", usage=usage)), "go")
    points = seen.metrics()
    tokens = {each.attributes[names.USAGE_TYPE]: each.sum for each in points[names.USAGE]}
    assert tokens == {"input": 1_000, "output": 9}
    for name, bounds in (
        (names.AGENT_DURATION, names.TURN_BOUNDS),
        (names.CHAT_DURATION, names.STEP_BOUNDS),
        (names.CHUNK_DURATION, names.STEP_BOUNDS),
        (names.USAGE, names.TOKEN_BOUNDS),
    ):
        assert points[name][0].count == 1
        assert tuple(points[name][0].explicit_bounds) == bounds


async def test_a_changed_prefix_is_counted_with_its_reason(tmp_path):
    seen = Seen()
    long = Answer(text="word " * 300)
    given = options(tmp_path, long, long, long, Answer(text="short"), Answer(text="x"))
    async with Thread.open(**given) as thread, seen.telemetry.follow(thread):
        for _ in range(3):
            await hear(thread, "question")
        await thread.compact()
        await hear(thread, "second")
    await given["model"].close()
    last = seen.told("chat script")[-1]
    assert last[names.EPOCH_REASON] == "compaction"
    assert last[names.COMPACTED] is True
    breaks = seen.metrics()[names.BREAKS]
    assert [each.attributes[names.EPOCH_REASON] for each in breaks] == ["compaction"]


async def test_no_word_of_a_conversation_is_told_unless_it_was_asked_for(tmp_path):
    script = (command(f"echo {PLANTED}-3"), Answer(text=f"{PLANTED}-4", reasoning=f"{PLANTED}-5"))
    quiet, full = Seen(), Seen(content=True)
    await follow(quiet, options(tmp_path / "a", *script), f"say {PLANTED}-1")
    await follow(full, options(tmp_path / "b", *script), f"say {PLANTED}-1")
    assert PLANTED not in "".join(each.to_json() for each in quiet.spans)
    told = "".join(each.to_json() for each in full.spans)
    assert all(f"{PLANTED}-{number}" in told for number in (1, 3, 4))


async def test_content_has_no_known_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("ACME_API_KEY", "acme-1234567890-planted")
    seen = Seen(content=True)
    script = (command("echo acme-1234567890-planted"), Answer(text="ok"))
    await follow(seen, options(tmp_path, *script), "go")
    assert "planted" not in "".join(each.to_json() for each in seen.spans)


async def test_a_failed_turn_has_an_error_of_few_words(tmp_path):
    seen = Seen()
    error = ScriptedError(status=400, code="invalid_request_error", message=f"{PLANTED}!")
    await follow(seen, options(tmp_path, Answer(error=error)), "go")
    turn = seen.named("invoke_agent treadle")[0]
    assert turn.status.status_code.name == "ERROR"
    assert seen.told("invoke_agent treadle")[0][names.ERROR]
    assert PLANTED not in "".join(each.to_json() for each in seen.spans)


async def test_an_interrupted_turn_leaves_no_span_open(tmp_path):
    seen = Seen()
    given = options(tmp_path, command("sleep 30"), Answer(text="x"))
    async with Thread.open(**given) as thread, seen.telemetry.follow(thread):
        async for event in thread.run("go"):
            if type(event).__name__ == "ToolStarted":
                thread.interrupt()
    await given["model"].close()
    assert [line.strip() for line in seen.tree()] == [
        "invoke_agent treadle", "chat script", "execute_tool exec_command",
    ]  # fmt: skip


async def test_a_turn_below_a_span_of_the_host_is_its_child(tmp_path):
    seen = Seen()
    with seen.tracers.get_tracer("host").start_as_current_span("request") as request:
        await follow(seen, options(tmp_path, Answer(text="done")), "go")
    turn = seen.named("invoke_agent treadle")[0]
    assert turn.parent is not None
    assert turn.parent.span_id == request.get_span_context().span_id


async def test_agents_stand_below_the_turn_that_started_them(tmp_path):
    seen = Seen()
    spawn = Call(name="spawn_agent", arguments={"message": "look around", "task_name": "scout"})
    script = (Answer(calls=(spawn,)), *(Answer(text="done"),) * 4)
    given = options(tmp_path, *script, agents=AgentOptions())
    async with Thread.open(**given) as thread, seen.telemetry.follow(thread):
        await hear(thread, "go")
        while await thread.expects():
            await hear(thread)
    await given["model"].close()
    # Also where the turn was over when its agent began; the agent's report starts the last one.
    assert [line for line in seen.tree() if "invoke_agent" in line] == [
        "invoke_agent treadle", "  invoke_agent scout", "invoke_agent treadle",
    ]  # fmt: skip
