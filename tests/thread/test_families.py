"""A small window gets short instructions and few tools; a thread keeps what it began with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.harness.scenes import call, hear, last, scripted
from treadle import AgentLimits, PromptOptions, Rights, Thread
from treadle.context.tokens import estimate_text
from treadle.skills.rules import SkillRules
from treadle.testing.script import Answer

SMALL = ["exec_command", "write_stdin", "apply_patch", "read_output"]


def facts(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "models.toml").write_text(text)


def tool_names(body: bytes) -> list[str]:
    return [tool.get("name", "") for tool in json.loads(body)["tools"]]


def describe(window: int, name: str = "script", **more: str) -> str:
    lines = "".join(f"{key} = {value!r}\n" for key, value in more.items())
    return f"[models.{name}]\ncontext_window = {window}\napply_patch = 'function'\n{lines}"


async def test_all_that_a_small_window_is_told_takes_fewer_than_1500_tokens(tmp_path: Path):
    facts(tmp_path / "home", describe(16_384))
    model = scripted(Answer(text="Hello."))
    async with Thread.open(
        model=model,
        cwd=tmp_path,
        home=tmp_path / "home",
        agents=AgentLimits(),
        skills=SkillRules(),
    ) as thread:
        plan = await thread.foresee()
        assert plan.family == "small"
        await hear(thread, "hi")
        head = thread.view.head
        assert head is not None
        assert (head.family, plan.to_builtins()["family"]) == ("small", "small")
    body = model.requests[0].body
    assert tool_names(body) == SMALL
    assert estimate_text(body.decode()) < 1_500
    assert len(json.loads(body)["instructions"]) < 1_200
    await model.close()


async def test_a_thread_keeps_its_family_when_the_window_turns_out_wider(tmp_path: Path):
    facts(tmp_path / "home", describe(8_192))
    model = scripted(Answer(text="One."), Answer(text="Two."), Answer(text="Three."))
    options: dict[str, Any] = {"model": model, "cwd": tmp_path, "home": tmp_path / "home"}
    async with Thread.open(**options) as thread:
        await hear(thread, "one")
        name = thread.id
    facts(tmp_path / "home", describe(131_072))
    async with Thread.open(name, **options) as thread:
        await hear(thread, "two")
    async with Thread.open(**options) as thread:
        await hear(thread, "three")
    first, second, third = (request.body for request in model.requests)
    assert second.startswith(first[: first.rindex(b"]")])
    assert tool_names(second) == SMALL
    assert len(tool_names(third)) > len(SMALL)
    await model.close()


async def test_a_thread_that_began_with_all_tools_keeps_them_in_a_small_window(tmp_path: Path):
    facts(tmp_path / "home", describe(131_072))
    model = scripted(Answer(text="One."), Answer(text="Two."))
    options: dict[str, Any] = {"model": model, "cwd": tmp_path, "home": tmp_path / "home"}
    async with Thread.open(**options) as thread:
        await hear(thread, "one")
        name = thread.id
    facts(tmp_path / "home", describe(16_384))
    async with Thread.open(name, **options) as thread:
        assert last(await hear(thread, "two")).text == "Two."
    first, second = (request.body for request in model.requests)
    assert second.startswith(first[: first.rindex(b"]")])
    await model.close()


async def test_settings_choose_the_family_or_a_text(tmp_path: Path):
    facts(tmp_path / "home", describe(16_384))
    own = tmp_path / "oracle.md"
    own.write_text("You are an oracle.\n")
    model = scripted(*(Answer(text="Yes.") for _ in range(2)))
    for chosen in ("general", str(own)):
        async with Thread.open(
            model=model,
            cwd=tmp_path,
            home=tmp_path / "home",
            prompt=PromptOptions(instructions=chosen),
        ) as thread:
            await hear(thread, "hi")
    general, oracle = (json.loads(request.body) for request in model.requests)
    assert general["instructions"].startswith("You are a coding agent. You work in a real")
    assert "update_plan" in [tool["name"] for tool in general["tools"]]
    assert oracle["instructions"] == "You are an oracle."
    assert [tool["name"] for tool in oracle["tools"]] == SMALL
    await model.close()


async def test_small_tools_do_what_the_others_do(tmp_path: Path):
    facts(tmp_path / "home", describe(16_384))
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"
    model = scripted(
        Answer(calls=(call("apply_patch", input=patch),)),
        Answer(calls=(call("exec_command", cmd="cat new.txt"),)),
        Answer(text="Done."),
    )
    async with Thread.open(
        model=model,
        cwd=tmp_path,
        home=tmp_path / "home",
        rights=Rights(sandbox="danger-full-access", approval="never"),
    ) as thread:
        assert last(await hear(thread, "go")).text == "Done."
    assert (tmp_path / "new.txt").read_text() == "hello\n"
    assert "hello" in model.requests[-1].body.decode()
    await model.close()
