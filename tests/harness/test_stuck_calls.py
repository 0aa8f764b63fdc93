"""Models that write calls as text, repeat themselves or are cut off are helped, and told of."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.scenes import call, hear, last, of, open_thread, scripted
from treadle import Rights, Routing, Thread, tool
from treadle.harness.events import TextDelta, ToolFinished, UsageReported
from treadle.models.providers import ProviderConfig
from treadle.testing.fake.server import FakeServer
from treadle.testing.script import Answer, Script, Tokens

CALL = '<tool_call>\n{"name": "look", "arguments": {"path": "a.py"}}\n</tool_call>'


@tool
async def look(path: str = "") -> str:
    """Looks."""
    return f"seen {path}"


@asynccontextmanager
async def local_model(
    place: Path, *answers: Answer, model: str = "local:tiny"
) -> AsyncIterator[tuple[Thread, FakeServer]]:
    provider = model.partition(":")[0]
    async with FakeServer(Script(answers=answers), apis=("chat",)) as server:
        routing = Routing(
            environ={f"{provider.upper()}_API_KEY": "k"},
            providers={provider: ProviderConfig(api="chat", base_url=server.base_url)},
        )
        async with Thread.open(
            model=model,
            cwd=place,
            home=place / "home",
            tools=(look,),
            rights=Rights(sandbox="read-only", approval="never"),
            routing=routing,
        ) as thread:
            yield thread, server


def sent(server: FakeServer) -> list[dict[str, Any]]:
    return [json.loads(each.body) for each in server.requests if each.body]


async def test_a_call_written_as_text_is_run_and_answered(tmp_path: Path):
    answers = (Answer(text=f"I look at it.\n{CALL}"), Answer(text="It is fine."))
    async with local_model(tmp_path, *answers) as (thread, server):
        events = await hear(thread, "look at a.py")
        assert last(events).text == "It is fine."
        (finished,) = of(events, ToolFinished)
        assert finished.name == "look"
        assert "".join(each.text for each in of(events, TextDelta)) == "I look at it.\nIt is fine."
        *_, called, output = sent(server)[-1]["messages"]
        assert called["tool_calls"][0]["function"] == {
            "name": "look",
            "arguments": '{"path":"a.py"}',
        }
        assert called["content"].strip() == "I look at it."
        assert output["role"] == "tool"
        assert "seen a.py" in output["content"]


async def test_a_call_that_cannot_be_read_is_answered_with_one_line(tmp_path: Path):
    wrong = '{"name": "ls", "arguments": {"cmd": "ls"}}'
    async with local_model(tmp_path, Answer(text=wrong), Answer(text="Done.")) as (thread, server):
        ended = last(await hear(thread, "look"))
        assert (ended.status, ended.text) == ("completed", "Done.")
        (told,) = [
            each["content"]
            for each in sent(server)[-1]["messages"]
            if "<unreadable_call>" in str(each.get("content"))
        ]
        assert "there is no tool 'ls'. The tools are look." in told
        assert len(sent(server)) == 2


async def test_a_model_that_goes_on_so_fails_with_the_reason(tmp_path: Path):
    wrong = Answer(text='<tool_call>{"name": "look", "arguments": {</tool_call>', times=0)
    async with local_model(tmp_path, wrong) as (thread, _):
        ended = last(await hear(thread, "look"))
        assert ended.status == "failed"
        assert "writes its calls as text that cannot be read" in (ended.error or "")


async def test_text_of_models_that_call_through_the_api_is_never_run(tmp_path: Path):
    async with local_model(tmp_path, Answer(text=CALL), model="openai:gpt-5.5") as (thread, _):
        ended = last(await hear(thread, "how does a call look?"))
        assert (ended.status, ended.text) == ("completed", CALL)


async def test_a_call_that_is_repeated_is_told_and_then_stopped(tmp_path: Path):
    answers = (*(Answer(calls=(call("look"),)) for _ in range(10)), Answer(text="Never."))
    async with local_model(tmp_path, *answers) as (thread, server):
        ended = last(await hear(thread, "look"))
    assert ended.status == "failed"
    assert ended.error == (
        "the model called 'look' 10 times in a row with the same arguments and the same result; "
        "say what it should do instead"
    )
    told = [json.dumps(each).count("<repeated_call>") for each in sent(server)]
    assert told == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert "You have called look 4 times in a row" in json.dumps(sent(server)[4])


async def test_models_that_call_through_the_api_may_look_until_something_changes(tmp_path: Path):
    model = scripted(*(Answer(calls=(call("look"),)) for _ in range(20)), Answer(text="There."))
    async with open_thread(tmp_path, model, tools=(look,)) as thread:
        assert last(await hear(thread, "look")).status == "completed"
    told = [request.body.decode().count("<repeated_call>") for request in model.requests]
    assert [told.index(times) for times in (1, 2, 3)] == [4, 8, 16]


async def test_calls_that_change_or_whose_results_do_are_no_repetition(tmp_path: Path):
    seen: list[int] = []

    @tool
    async def count() -> str:
        """Counts."""
        seen.append(1)
        return str(len(seen))

    model = scripted(
        *(Answer(calls=(call("count"),)) for _ in range(12)),
        *(Answer(calls=(call("look", path=str(number % 2)),)) for number in range(12)),
        Answer(text="Done."),
    )
    async with open_thread(tmp_path, model, tools=(look, count)) as thread:
        assert last(await hear(thread, "go")).status == "completed"
    assert all(b"<repeated_call>" not in request.body for request in model.requests)


async def test_a_command_that_is_run_again_and_again_is_a_repetition(tmp_path: Path):
    calls = (Answer(calls=(call("exec_command", cmd="echo hi"),)) for _ in range(4))
    model = scripted(*calls, Answer(text="Done."))
    async with open_thread(tmp_path, model, tools=None) as thread:
        assert last(await hear(thread, "go")).status == "completed"
    assert b"You have called exec_command 4 times in a row" in model.requests[-1].body


@pytest.mark.parametrize("api", ["responses", "chat", "messages"])
async def test_a_turn_that_is_cut_by_its_length_has_its_usage_and_says_so(tmp_path: Path, api):
    answer = Answer(text="Half an", stop="length", usage=Tokens(input=40, output=700))
    model = scripted(answer, api=api)
    async with open_thread(tmp_path, model) as thread:
        events = await hear(thread, "write a book")
        ended = last(events)
        assert (ended.status, ended.text) == ("failed", "Half an")
        assert "it reached the limit of output tokens" in (ended.error or "")
        (told,) = of(events, UsageReported)
        assert (told.usage.input_tokens, told.usage.output_tokens) == (40, 700)
        assert ended.usage.output_tokens == 700
        assert (await thread.usage()).total.output_tokens == 700


async def test_no_name_of_output_can_be_taken_for_a_session(tmp_path: Path):
    model = scripted(
        *(Answer(calls=(call("exec_command", cmd=f"echo {number}"),)) for number in range(8)),
        Answer(calls=(call("write_stdin", session_id=480213),)),
        Answer(calls=(call("exec_command", cmd="sleep 30", yield_time_ms=250),)),
        Answer(calls=(call("write_stdin", session_id=7),)),
        Answer(text="Done."),
    )
    async with open_thread(tmp_path, model, tools=None) as thread:
        await hear(thread, "go")
    text = model.requests[-1].body.decode()
    names = re.findall(r"Chunk ID: (\w+)", text)
    assert len(names) == 9
    assert not any(re.search(r"\d", name) for name in names)
    assert "no session 480213 is running" in text
    assert "No command is running: start one with exec_command." in text
    assert "Running sessions: 1." in text
