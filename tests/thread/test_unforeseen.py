"""A preview says what it leaves out; where it says nothing, it is the request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.scenes import hear, last
from treadle import Hooks, Routing, Thread
from treadle.hooks.payloads import BeforePromptBuild, HookAnswer
from treadle.models.providers import ProviderConfig
from treadle.testing.fake.server import FakeServer
from treadle.testing.script import Answer, Script, Tokens


@asynccontextmanager
async def opened(
    place: Path, *answers: Answer, **options: Any
) -> AsyncIterator[tuple[Thread, FakeServer]]:
    script = Script(answers=(*answers, Answer(text="Yes.", times=0)))
    async with FakeServer(script) as server:
        provider = ProviderConfig(api="responses", base_url=server.base_url, key="sk-planted")
        routing = Routing(environ={}, providers={"openai": provider})
        async with Thread.open(
            model="openai:gpt-5.5", cwd=place, home=place, routing=routing, **options
        ) as thread:
            yield thread, server


async def test_where_nothing_is_lacking_the_preview_is_the_request(tmp_path: Path):
    async with opened(tmp_path) as (thread, server):
        for said in ("One.", "Two."):
            shown = await thread.preview(said)
            assert last(await hear(thread, said)).text == "Yes."
            assert (shown.lacks, shown.body) == ((), server.requests[-1].body)


async def test_an_engine_and_hooks_are_named(tmp_path: Path):
    async def mind(_: object) -> HookAnswer:
        return HookAnswer(context="Mind the ducks.")

    hooks = Hooks()
    hooks.on(BeforePromptBuild, mind)
    async with opened(tmp_path, engine="lossless", hooks=hooks) as (thread, server):
        shown = await thread.preview("One.")
        assert shown.lacks == (
            "what hooks say to the input",
            "what engine 'lossless' adds or compacts",
        )
        await hear(thread, "One.")
        assert b"Mind the ducks." in server.requests[-1].body
        assert b"Mind the ducks." not in shown.body


async def test_a_view_that_will_be_compacted_first_is_named(tmp_path: Path):
    full = Answer(text="Much.", usage=Tokens(input=1_000_000))
    async with opened(tmp_path, full) as (thread, server):
        await hear(thread, "One.")
        shown = await thread.preview("Two.")
        assert shown.lacks == ("an automatic compaction, for the view is full",)
        before = len(server.requests)
        await hear(thread, "Two.")
        assert len(server.requests) == before + 2
