"""What a host says wrongly is refused before anything is made."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from treadle import ConfigError, EngineOptions, Rights, Routing, Thread, ToolOptions
from treadle.context.head import Choices
from treadle.core.items import InputText, Message
from treadle.engines.linear import LinearEngine
from treadle.engines.loading import EngineRegistry
from treadle.harness.events import NoticeRaised, TurnCompleted
from treadle.prompt.input import Image, LocalImage
from treadle.store.sqlite import SqliteStore
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


async def threads(home: Path) -> int:
    async with await SqliteStore.open(home) as store:
        return len(await store.threads())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"model": "opnai:gpt-5.5"}, "there is no provider 'opnai' .* did you mean 'openai'"),
    ({"model": "claude:opus"}, "there is no provider 'claude'"),
    ({"model": "openai:"}, "'openai:' names no model"),
    ({"model": ""}, "names no model|needs a model"),
    ({"model": 5}, "5 is no model"),
    ({"choices": Choices(effort="hihg")}, "'hihg' is no effort; did you mean 'high'?"),
    ({"engine": "losless"}, "no context engine 'losless' .* did you mean 'lossless'?"),
    ({"harness": "codx"}, "no harness 'codx'"),
    ({"rights": Rights(sandbox="readonly")}, "'readonly' is no sandbox; did you mean 'read-only'"),  # type: ignore[arg-type]
    ({"rights": Rights(approval="Untrusted")}, "is no approval; did you mean 'untrusted'"),  # type: ignore[arg-type]
    ({"rights": Rights(approval="nevr")}, "'nevr' is no approval; did you mean 'never'"),  # type: ignore[arg-type]
    ({"rights": Rights(sandbox="")}, "'' is no sandbox; accepted are"),  # type: ignore[arg-type]
    ({"routing": Routing(fallbacks=("opnai:gpt-5.5",))}, "no provider 'opnai' .* mean 'openai'"),
    ({"routing": Routing(fallbacks=("openai:",))}, "'openai:' names no model"),
    ({"tools": (print,)}, "is no tool; `@treadle.tool` makes one"),
    ({"tools": print}, "is no tool; `@treadle.tool` makes one"),
    ({"rights": "read-only"}, "'read-only' cannot be 'rights'; give a Rights"),
    ({"limits": 5}, "5 cannot be 'limits'; give a Limits"),
    ({"tools": ToolOptions(executor="dcker:python")}, "'dcker:python' is no executor"),
]


@pytest.mark.parametrize(("options", "why"), WRONG, ids=lambda value: str(value)[:40])
async def test_a_wrong_option_is_refused_and_no_thread_is_made(tmp_path, options, why):
    asked = {"model": "openai:gpt-5.5", "home": tmp_path, "cwd": tmp_path, **options}
    with pytest.raises(ConfigError, match=why):
        async with Thread.open(**asked):
            pass
    assert await threads(tmp_path) == 0


async def test_another_model_is_refused_and_the_old_one_stays(tmp_path):
    async with Thread.open(model="openai:gpt-5.5", home=tmp_path, cwd=tmp_path) as thread:
        with pytest.raises(ConfigError, match="there is no provider 'foo'"):
            await asyncio.to_thread(thread.use, "foo:bar")
        assert thread.model == "openai:gpt-5.5"


@pytest.mark.parametrize(
    "wrong",
    [
        {"said": [LocalImage(Path("/etc/passwd"))]},
        {"said": [LocalImage(Path("/nowhere.png"))]},
        {"said": [Image("data:image/png;base64,!")]},
        {"said": [5]},
        {"said": [Message(role="user", content=(InputText("and this"),))]},
        {"schema": {"type": "nonsense"}},
        {"schema": {"properties": 5}},
        {"schema": "object"},
    ],
    ids=str,
)
async def test_a_wrong_input_is_refused_before_anything_is_written(tmp_path, wrong):
    model = ScriptedModel([Answer(text="Hello.")])
    async with Thread.open(model=model, home=tmp_path, cwd=tmp_path) as thread:
        said = ["look", *wrong.pop("said", [])]
        with pytest.raises(ConfigError):
            [event async for event in thread.run(*said, **wrong)]
        assert (await thread.store.info(thread.id)).last == 0
        done = [event async for event in thread.run("again")][-1]
    await model.close()
    assert isinstance(done, TurnCompleted)
    assert done.text == "Hello."


async def test_an_engine_that_has_vanished_from_a_thread_ends_no_turn(tmp_path):
    registry = EngineRegistry()
    registry.register("mine", lambda _context: LinearEngine())
    options: dict[str, Any] = {"home": tmp_path, "cwd": tmp_path}
    chosen = EngineOptions(engine="mine", registry=registry)
    model = ScriptedModel([Answer(text="One."), Answer(text="Two.")])
    async with Thread.open(model=model, engine=chosen, **options) as thread:
        [event async for event in thread.run("one")]
        made = thread.id
    gone = EngineOptions(engine="mine", registry=EngineRegistry())
    async with Thread.open(made, model=model, engine=gone, **options) as thread:
        events = [event async for event in thread.run("two")]
    await model.close()
    assert any(isinstance(e, NoticeRaised) and "no context engine 'mine'" in e.text for e in events)
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].text == "Two."


async def test_a_thread_that_was_rolled_back_to_its_beginning_keeps_its_model(tmp_path):
    options: dict[str, Any] = {"home": tmp_path, "cwd": tmp_path}
    async with Thread.open(model="anthropic:claude-opus-5", **options) as thread:
        await thread.log.turns.admit("hello")
        await thread.log.turns.finish()
        await thread.rollback(1)
        made = thread.id
    async with Thread.open(made, **options) as thread:
        assert thread.model == "anthropic:claude-opus-5"
        await thread.log.turns.admit("again")
        await thread.log.turns.finish()
        await thread.rollback(1)
    async with Thread.open(made, **options) as thread:
        assert thread.model == "anthropic:claude-opus-5"


async def test_an_answer_that_does_not_fit_is_asked_for_again_once(tmp_path):
    answers = ("No.", '{"n": 1}', "No.", "Still no.")
    model = ScriptedModel([Answer(text=text) for text in answers])
    async with Thread.open(model=model, home=tmp_path, cwd=tmp_path) as thread:
        ends = [await ended(thread, said) for said in ("count", "count on")]
    await model.close()
    assert [(end.status, end.text) for end in ends] == [
        ("completed", '{"n": 1}'),
        ("failed", "Still no."),
    ]
    assert ends[0].error is None
    assert (ends[1].error or "").startswith("the answer does not fit its schema: it is no JSON")
    assert b"Your last message does not fit the requested JSON schema" in model.requests[1].body


async def ended(thread: Thread, said: str) -> TurnCompleted:
    end = [event async for event in thread.run(said, schema=SCHEMA)][-1]
    assert isinstance(end, TurnCompleted)
    return end
