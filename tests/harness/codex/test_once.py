from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.engines.scenes import Probe
from treadle.engines.values import AssembleResult
from treadle.harness.loop import LoopHarness
from treadle.hooks import Hooks
from treadle.hooks.payloads import BeforePromptBuild, HookAnswer
from treadle.prompt.prompt_context import ContextValue, PromptContext, Subagent

from .scenes import Stage, hear, open_stage

SETTINGS = PromptContext(
    cwd="",
    sandbox_mode="danger-full-access",
    approval_policy="never",
    developer_instructions="DEVELOPER words",
    personality="PERSONAL words",
    additional_context={"weather": ContextValue("ADDITIONAL words", "application")},
    subagents=(Subagent("agent-1", "SUBAGENT"),),
)

WORDS = (
    "DEVELOPER words",
    "PERSONAL words",
    "ADDITIONAL words",
    "SUBAGENT",
    "GUIDING words",
    "PROJECT words",
    "<environment_context>",
    "<permissions instructions>",
    "<skills_instructions>",
)


def guiding() -> Probe:
    def assemble(given: Any) -> AssembleResult:
        return AssembleResult(items=given.items, system_prompt_addition="GUIDING words")

    return Probe(assemble=assemble)


def hooked() -> Hooks:
    hooks = Hooks()

    async def add(event: BeforePromptBuild) -> HookAnswer:
        return HookAnswer(context=f"HOOK says {event.prompt}")

    hooks.on(BeforePromptBuild, add)
    return hooks


def counted(stage: Stage, at: int = -1) -> dict[str, int]:
    """How often each of the words stands in a request, base instructions left out."""
    texts = [
        part.get("text", "")
        for item in stage.requests[at].payload["input"][1:]
        if item["type"] == "message"
        for part in item["content"]
    ]
    found: Counter[str] = Counter()
    for text in texts:
        for word in WORDS:
            found[word] += text.count(word)
    return dict(found)


def options(stage: Stage) -> dict[str, Any]:
    (stage.place / "project/AGENTS.md").write_text("PROJECT words\n")
    return {
        "settings": SETTINGS,
        "sandbox": None,
        "approval": None,
        "engine": guiding(),
        "hooks": hooked(),
    }


ONCE = dict.fromkeys(WORDS, 1)


async def test_everything_is_said_once_on_a_new_thread_and_not_again_later(tmp_path):
    async with open_stage(tmp_path) as stage, stage.thread(**options(stage)) as thread:
        for said in ("one", "two", "three"):
            await hear(thread, said)
            assert counted(stage) == ONCE
        told = [
            part["text"]
            for item in stage.requests[-1].payload["input"]
            for part in item.get("content", ())
            if "HOOK" in part.get("text", "")
        ]
        assert [text.partition("says ")[2].split()[0].split("<")[0] for text in told] == [
            "one",
            "two",
            "three",
        ]


async def test_everything_is_said_once_after_a_switch_from_our_own_loop(tmp_path):
    async with open_stage(tmp_path) as stage:
        wanted = options(stage) | {"tools": ()}
        async with stage.thread(harness=LoopHarness(), **wanted) as thread:
            await hear(thread, "one")
        async with stage.thread(thread.id, **wanted) as again:
            await hear(again, "two")
            assert counted(stage) == ONCE
            await hear(again, "three")
            assert counted(stage) == ONCE


@pytest.mark.parametrize("word", ["developer_instructions", "personality"])
async def test_a_setting_that_changes_is_told_once_more_and_only_by_its_difference(tmp_path, word):
    async with open_stage(tmp_path) as stage, stage.thread(**options(stage)) as thread:
        await hear(thread, "one")
        thread.adopt(msgspec.structs.replace(SETTINGS, **{word: "OTHER words"}))
        await hear(thread, "two")
        assert counted(stage) == ONCE
        first, second = (request.payload["input"] for request in stage.requests)
        assert second[: len(first)] == first
        assert str(second[len(first) :]).count("OTHER words") == 1
