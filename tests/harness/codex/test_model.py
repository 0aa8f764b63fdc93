from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engines.scenes import Following, Probe, epochs
from tests.harness.codex.scenes import (
    MODEL,
    Stage,
    hear,
    last,
    open_stage,
    request_items,
    roles_and_texts,
    talk,
    use_scripted_server,
)
from tests.harness.scenes import log
from treadle import Thread
from treadle.context.head import Choices
from treadle.core.errors import CompletionFailed, TooLong
from treadle.core.items import InputText, Message
from treadle.engines.contract import EngineInfo
from treadle.engines.values import AfterTurnParams
from treadle.harness.events import Event, TextDelta
from treadle.testing.appserver import AppScript, AppStep, TurnScript, received_messages
from treadle.testing.script import Answer, Call, ScriptedError, Tokens

OWNER = EngineInfo(id="owner", name="Owner", owns_compaction=True)
ONLY_CODEX = "codex:gpt-5.5"
"""A model that only the user's own Codex reaches."""
LONG = "many words " * 500

CONFIG = """\
model_provider = "mock"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = "{address}"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
[features]
plugins = false
apps = false
unbounded_connection_retries = false
"""


@asynccontextmanager
async def of_the_user(place: Path, *answers: Answer) -> AsyncIterator[Stage]:
    """A stage in front of the user's own Codex."""
    async with open_stage(place, *answers) as stage:
        home = place / "home" / ".codex"
        home.mkdir(parents=True)
        (home / "config.toml").write_text(CONFIG.format(address=stage.server.base_url))
        yield stage


class Asking(Following):
    """Asks the model something after each turn."""

    def __init__(self, **question: Any) -> None:
        super().__init__()
        self.question = question
        self.answered: list[str] = []
        self.refused: list[Exception] = []

    async def after_turn(self, given: AfterTurnParams, /) -> None:
        assert given.context is not None
        assert given.context.complete is not None
        try:
            answer = await given.context.complete("What happened?", **self.question)
        except (TooLong, CompletionFailed) as error:
            self.refused.append(error)
        else:
            self.answered.append(answer)


def rollouts(place: Path) -> list[str]:
    return [path.name for path in place.rglob("rollout-*")]


async def test_an_engine_asks_a_model_of_ours_without_codex(tmp_path):
    engine = Asking(instructions="Be brief.")
    answers = (Answer(text="a", usage=Tokens(input=5)), Answer(text="It rained."))
    async with open_stage(tmp_path, *answers) as stage, stage.thread(engine=engine) as thread:
        usage = last(await hear(thread, "one")).usage
        assert await log(thread) == ["user: one", "assistant: a"]
    assert engine.answered == ["It rained."]
    assert usage.input_tokens == 5
    question = stage.requests[1]
    assert question.payload["instructions"] == "Be brief."
    assert "x-codex-window-id" not in question.headers
    assert len(rollouts(tmp_path)) == 1


@pytest.mark.parametrize("model", [ONLY_CODEX, "codex:gpt-6.1-sol"])
async def test_an_engine_asks_a_model_that_only_codex_reaches_on_a_thread_kept_nowhere(
    tmp_path, model
):
    said_before = Message(role="user", content=(InputText("It is wet."),))
    engine = Asking(instructions="Be brief.", items=(said_before,))
    answers = (Answer(text="a", usage=Tokens(input=5)), Answer(text="It rained."))
    async with (
        of_the_user(tmp_path, *answers) as stage,
        stage.thread(engine=engine, model=model, providers={}) as thread,
    ):
        (tmp_path / "project" / "AGENTS.md").write_text("Shout.\n")
        usage = last(await hear(thread, "one")).usage
        assert await log(thread) == ["user: one", "assistant: a"]
    assert engine.answered == ["It rained."]
    assert usage.input_tokens == 5
    question = stage.requests[1].payload
    messages = [item for item in question["input"] if item["type"] == "message"]
    assert roles_and_texts(messages) == [
        ("developer", "Be brief."),
        ("user", "It is wet."),
        ("user", "What happened?"),
    ]
    assert handy(question) == set()
    assert len(rollouts(tmp_path)) == 1


HARMLESS = {"apply_patch", "exec", "request_user_input_async", "wait"}
"""Patches that have nowhere to go, scripts without hands, questions that nobody answers."""


def handy(payload: dict[str, Any]) -> set[str]:
    """The tools of a request that could do something."""
    spaces = [item for item in payload["input"] if item["type"] == "additional_tools"]
    tools = [*payload.get("tools", ()), *(tool for item in spaces for tool in item["tools"])]
    names = {each["name"] for tool in tools for each in tool.get("tools", [tool])}
    return names - HARMLESS


async def test_a_script_instead_of_an_answer_has_no_hands(tmp_path):
    engine = Asking()
    looks = Call(name="exec", input="text(Object.keys(tools).join())")
    answers = (Answer(text="a"), Answer(calls=(looks,)), Answer(text="It rained."))
    async with (
        of_the_user(tmp_path, *answers) as stage,
        stage.thread(engine=engine, model="codex:gpt-6.1-sol", providers={}) as thread,
    ):
        await talk(thread, "one")
    assert engine.answered == ["It rained."]
    (output,) = [each for each in stage.requests[-1].payload["input"] if "output" in each]
    told = str(output["output"])
    assert "exec_command" not in told
    assert "spawn_agent" not in told


async def test_tools_that_the_model_calls_instead_of_answering_do_nothing(tmp_path):
    engine = Asking()
    target = tmp_path / "project" / "made"
    runs = Call(name="exec_command", arguments={"cmd": f"touch {target}"})
    patch = f"*** Begin Patch\n*** Add File: {target}\n+made\n*** End Patch\n"
    patches = Call(name="apply_patch", input=patch)
    answers = (Answer(text="a"), Answer(calls=(runs, patches)), Answer(text="It rained."))
    async with (
        of_the_user(tmp_path, *answers) as stage,
        stage.thread(engine=engine, model=ONLY_CODEX, providers={}) as thread,
    ):
        await talk(thread, "one")
        assert await log(thread) == ["user: one", "assistant: a"]
    assert engine.answered == ["It rained."]
    assert not target.exists()


@pytest.mark.parametrize(
    ("failure", "kind", "reason"),
    [
        (ScriptedError(code="context_length_exceeded"), TooLong, "context window"),
        (
            ScriptedError(status=400, code="context_length_exceeded"),
            TooLong,
            "context_length_exceeded",
        ),
        (ScriptedError(status=400, code="odd", message="not today"), CompletionFailed, "not today"),
    ],
)
async def test_a_question_that_fails_is_the_engine_s_to_bear(tmp_path, failure, kind, reason):
    engine = Asking()
    answers = (Answer(text="a"), Answer(error=failure, times=9))
    async with (
        of_the_user(tmp_path, *answers) as stage,
        stage.thread(engine=engine, model=ONLY_CODEX, providers={}) as thread,
    ):
        assert last(await hear(thread, "one")).status == "completed"
    assert [type(error) for error in engine.refused] == [kind]
    assert reason in str(engine.refused[0])


async def test_a_question_that_nobody_waits_for_leaves_no_turn_running(tmp_path):
    steps = (AppStep(text="It "), AppStep(wait=True))
    async with open_stage(tmp_path) as stage:
        place = await use_scripted_server(stage, AppScript(turns=(TurnScript(steps=steps),)))
        async with alone(stage, model=stage.harness.model(MODEL)) as thread:

            def stop(event: Event) -> None:
                if isinstance(event, TextDelta):
                    thread.interrupt()

            assert last(await hear(thread, "one", at=stop)).status == "interrupted"
        assert [each["method"] for each in received_messages(place)][-2:] == [
            "turn/interrupt",
            "thread/unsubscribe",
        ]


@asynccontextmanager
async def alone(stage: Stage, **options: Any) -> AsyncIterator[Thread]:
    """A thread on our own loop, whose model is reached through Codex."""
    async with stage.thread(harness="treadle", tools=[], providers={}, **options) as thread:
        yield thread


async def test_our_own_loop_can_ask_through_codex_with_schema_and_effort(tmp_path):
    schema = {
        "type": "object",
        "properties": {"wet": {"type": "boolean"}},
        "required": ["wet"],
        "additionalProperties": False,
    }
    async with of_the_user(tmp_path, Answer(text="a"), Answer(text='{"wet":true}')) as stage:
        model = stage.harness.model(ONLY_CODEX)
        async with alone(stage, model=model, choices=Choices(effort="high")) as thread:
            assert await talk(thread, "one") == ["a"]
            assert last(await hear(thread, "two", schema=schema)).text == '{"wet":true}'
    payload = stage.requests[-1].payload
    assert payload["reasoning"]["effort"] == "high"
    assert payload["text"]["format"]["schema"] == schema
    assert [text for _, text in roles_and_texts(request_items(stage.requests[-1]))][-3:] == [
        "one",
        "a",
        "two",
    ]


async def test_an_owner_s_compaction_can_be_delegated_where_only_codex_reaches_the_model(tmp_path):
    engine = Probe(OWNER)
    answers = (Answer(text=LONG), Answer(text="A summary."))
    async with (
        of_the_user(tmp_path, *answers) as stage,
        stage.thread(engine=engine, model=ONLY_CODEX, providers={}) as thread,
    ):
        await talk(thread, "one")
        done = await thread.compact()
        assert done.by == "linear"
        assert done.details["nativeCompaction"]["status"] == "skipped"
        assert await epochs(thread) == [("compaction", "linear")]
        await talk(thread, "two")
    one, summary, two = (text for _, text in roles_and_texts(request_items(stage.requests[-1])))
    assert (one, two) == ("one", "two")
    assert summary.endswith("\nA summary.")
