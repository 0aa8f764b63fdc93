from __future__ import annotations

import base64
from pathlib import Path

import msgspec
import pytest

from tests.context.scenes import Scene, call, open_thread, output
from treadle.context.composition import KINDS, compose_window
from treadle.context.view import Count
from treadle.core.items import InputImage, InputText, Message
from treadle.core.usage import TokenUsage
from treadle.store.memory import MemoryStore
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer
from treadle.thread.thread import Thread


async def test_every_token_of_a_view_is_in_one_part():
    async with open_thread(MemoryStore()) as thread:
        found = Scene(thread)
        await found.say("what is here?")
        await found.step(call(1))
        await found.thread.log.append(output(1))
        await found.turn("and now?")
        composed = compose_window(thread.view, 100_000)
        kinds = composed.by_kind()
        estimated = thread.view.tokens + kinds["instructions"] + kinds["tools"]
    assert list(kinds) == [kind for kind in KINDS if kind in kinds]
    assert {"instructions", "context", "user", "calls", "outputs", "assistant"} <= kinds.keys()
    assert composed.tokens == sum(kinds.values()) == sum(p.tokens for p in composed.parts)
    assert composed.tokens == estimated
    assert composed.free == 100_000 - composed.tokens
    labels = {part.label for part in composed.parts if part.kind == "context"}
    assert {"permissions", "agents_md", "environment"} <= labels


async def test_parts_are_scaled_to_what_a_provider_counted():
    async with open_thread(MemoryStore()) as thread:
        await Scene(thread).turn("go")
        thread.view.count = Count(TokenUsage(total_tokens=12_345), len(thread.view.rows))
        composed = compose_window(thread.view, 10_000)
    assert (composed.tokens, composed.counted, composed.free) == (12_345, True, 0)
    assert sum(part.tokens for part in composed.parts) == 12_345


async def test_images_and_summaries_have_kinds_of_their_own(tmp_path: Path):
    picture = f"data:image/png;base64,{base64.b64encode(bytes(40_000)).decode()}"
    model = ScriptedModel([Answer(text="long " * 2_000), Answer(text="A short summary.")])
    store = MemoryStore()
    async with Thread.open(model=model, cwd=tmp_path, store=store) as thread:
        said = Message(role="user", content=(InputText(text="look"), InputImage(image_url=picture)))
        async for _ in thread.run(said):
            pass
        before = compose_window(thread.view).by_kind()
        await thread.compact()
        after = compose_window(thread.view).by_kind()
    await model.close()
    # An image is worth what a model sees of it, not its bytes.
    assert 1_000 < before["images"] < 2_500
    assert before["user"] < 100
    assert "summaries" not in before
    assert after["summaries"] > 0


@pytest.mark.parametrize("name", ["mcp__files__read", "plain"])
async def test_tools_are_grouped_by_where_they_come_from(name: str):
    async with open_thread(MemoryStore()) as thread:
        await Scene(thread).turn("go")
        head = thread.view.head
        assert head is not None
        tool = b'{"type":"function","name":"%s","parameters":{}}' % name.encode()
        tools = (msgspec.Raw(tool), msgspec.Raw(b'{"type":"web_search"}'))
        thread.view.head = msgspec.structs.replace(head, tools=tools)
        parts = [part for part in compose_window(thread.view).parts if part.kind == "tools"]
    expected = {"mcp__files__read": "files", "plain": "built in"}[name]
    assert {part.label for part in parts} == {expected, "of the provider"}
