from __future__ import annotations

import msgspec

from tests.engines.scenes import (
    Probe,
    chatter,
    epochs,
    guidance,
)
from tests.harness.scenes import hear, open_thread, scripted
from treadle.engines.values import AssembleParams, AssembleResult
from treadle.testing.script import Answer


async def test_guidance_is_told_once_and_again_when_it_changes(tmp_path):
    said_so: list[str | None] = ["Ask memory.", "Ask memory.", "Ask twice.", None]

    def guides(given: AssembleParams) -> AssembleResult:
        return AssembleResult(items=given.items, system_prompt_addition=said_so.pop(0))

    engine = Probe(assemble=guides)
    model = scripted(*(Answer(text=text) for text in "abcd"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        for text in ("one", "two", "three", "four"):
            await hear(thread, text)
        assert await epochs(thread) == []
    first, second, third, fourth = (guidance(request) for request in model.requests)
    assert first == second
    assert "Ask memory." in first[0]
    assert third[:1] == first
    assert "Ask twice." in third[1]
    assert (fourth[:2], "no longer applies" in fourth[2]) == (third, True)


async def test_guidance_never_stands_among_the_items(tmp_path):
    engine = Probe(
        assemble=lambda given: AssembleResult(
            items=given.items, system_prompt_addition="Ask memory."
        )
    )
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        await hear(thread, "second")
        assert chatter(thread) == ["first", "a", "second", "b"]
    roles = [
        item["role"]
        for item in model.requests[-1].payload["input"]
        if "Ask memory." in msgspec.json.encode(item).decode()
    ]
    assert roles == ["developer"]


async def test_a_failing_assembly_leaves_the_guidance_as_it_was(tmp_path):
    engine = Probe(
        assemble=lambda given: AssembleResult(
            items=given.items, system_prompt_addition="Ask memory."
        )
    )
    model = scripted(Answer(text="a"), Answer(text="b"), Answer(text="c"))
    async with open_thread(tmp_path, model, engine=engine) as thread:
        await hear(thread, "first")
        works = engine.answers["assemble"]
        engine.answers["assemble"] = ValueError("odd")
        await hear(thread, "second")
        engine.answers["assemble"] = works
        await hear(thread, "third")
    assert [len(guidance(request)) for request in model.requests] == [1, 1, 1]
