"""Compactions after another model, API or server was chosen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.engines.scenes import Probe
from tests.harness.scenes import hear, last, of, open_thread, scripted
from treadle import Thread
from treadle.context.head import Choices
from treadle.engines.values import CompactParams, CompactResult
from treadle.harness.events import NoticeRaised
from treadle.testing import FakeServer
from treadle.testing.script import Answer, Script, ScriptedError
from treadle.testing.thread_keywords import open_keywords

LONG = "many words " * 2_000


@asynccontextmanager
async def openai_thread(
    place: Path, server: FakeServer, model: str, **options: object
) -> AsyncIterator[Thread]:
    """A thread whose providers are all one fake server."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    environ = {
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": server.base_url,
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": server.base_url,
    }
    given = open_keywords(model=model, home=home, cwd=place, environ=environ, tools=(), **options)
    async with Thread.open(**given) as thread:
        yield thread


@pytest.mark.parametrize("by_hand", [True, False])
async def test_after_a_switch_the_new_model_is_asked_for_the_summary_in_its_own_form(
    tmp_path, by_hand
):
    answers = (Answer(text=LONG), Answer(text="a summary"), Answer(text="on"))
    async with (
        FakeServer(Script(answers=answers)) as server,
        openai_thread(tmp_path, server, "openai:gpt-4o") as thread,
    ):
        await hear(thread, "one")
        thread.use("anthropic:claude-sonnet-4-5")
        if by_hand:
            done = await thread.compact()
            assert done.tokens_after < done.tokens_before
        else:
            profile = thread.log.setup.catalog.profile(thread.model)
            thread.log.setup.profile = profile.override(auto_compact_token_limit=4_000)
        assert last(await hear(thread, "two")).text == "on"
    _, asked, after = server.requests
    for request in (asked, after):
        assert (request.path, request.payload["model"]) == ("/v1/messages", "claude-sonnet-4-5")
        assert "messages" in request.payload
        assert "input" not in request.payload
    assert "a summary" in after.body.decode()


async def test_after_a_switch_an_engine_asks_the_new_model_in_its_own_form(tmp_path):
    async def compacts(given: CompactParams) -> CompactResult:
        assert given.context is not None
        assert given.context.complete is not None
        await given.context.complete("What was it?")
        return CompactResult(ok=True, reason="asked")

    answers = (Answer(text="one"), Answer(text="that"))
    async with (
        FakeServer(Script(answers=answers)) as server,
        openai_thread(tmp_path, server, "openai:gpt-4o", engine=Probe(compact=compacts)) as thread,
    ):
        await hear(thread, "one")
        thread.use("anthropic:claude-sonnet-4-5")
        with pytest.raises(Exception, match="asked"):
            await thread.compact()
    asked = server.requests[-1]
    assert (asked.path, asked.payload["model"]) == ("/v1/messages", "claude-sonnet-4-5")


async def test_a_change_of_parameters_does_not_move_the_prefix_of_the_summary(tmp_path):
    model = scripted(Answer(text=LONG), Answer(text="a summary"))
    async with open_thread(tmp_path, model, facts='efforts = ["low", "high"]') as thread:
        await hear(thread, "one")
        thread.log.setup.choices = Choices(effort="high")
        await thread.compact()
    first, asked = (request.body.removesuffix(b"]}") for request in model.requests)
    assert asked.startswith(first)


@pytest.mark.parametrize(
    ("other", "reads"), [("gpt-5.6-sol", False), ("gpt-5.4", True), ("gpt-5.5", True)]
)
async def test_a_sealed_item_goes_only_to_models_that_can_read_it(tmp_path, other, reads):
    answers = (Answer(text=LONG), Answer(endpoint="compact", text="the seal"), Answer(text="on"))
    async with (
        FakeServer(Script(answers=answers)) as server,
        openai_thread(tmp_path, server, "openai:gpt-5.5") as thread,
    ):
        await hear(thread, "one")
        assert (await thread.compact()).by == "provider"
        thread.use(f"openai:{other}")
        events = await hear(thread, "two")
        assert last(events).text == "on"
    told = [notice.text for notice in of(events, NoticeRaised)]
    assert ["cannot read that" in text for text in told] == ([] if reads else [True])
    sent = server.requests[-1].payload
    assert sent["model"] == other
    assert ("compaction" in [item["type"] for item in sent["input"]]) is reads


async def test_the_compaction_endpoint_gets_only_the_fields_it_takes(tmp_path):
    answers = (Answer(text=LONG), Answer(endpoint="compact", text="the seal"))
    async with (
        FakeServer(Script(answers=answers)) as server,
        openai_thread(tmp_path, server, "openai:gpt-5.5") as thread,
    ):
        await hear(thread, "one")
        await thread.compact()
    asked = server.requests[-1]
    assert asked.path == "/v1/responses/compact"
    assert set(asked.payload) == {"model", "prompt_cache_key", "instructions", "input"}


async def test_a_server_without_the_endpoint_is_asked_for_a_compaction_once(tmp_path):
    missing = Answer(endpoint="compact", error=ScriptedError(status=404, message="not found"))
    words = tuple(Answer(text=text) for text in ("first summary", LONG, "second summary"))
    model = scripted(Answer(text=LONG), missing, *words, remote_compaction="endpoint")
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "one")
        await thread.compact()
        await hear(thread, "two")
        assert (await thread.compact()).by == "linear"
    paths = [request.path for request in model.requests]
    assert paths.count("/v1/responses/compact") == 1
