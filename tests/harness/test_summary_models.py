"""Another model writes summaries: what it is shown, who pays, and what happens when it fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from treadle import Limits, Thread
from treadle.config.settings import Price
from treadle.core.entries import ResponseMark
from treadle.core.errors import InvalidOption
from treadle.harness.events import CompactionFinished, NoticeRaised
from treadle.models.providers import ProviderConfig
from treadle.testing.fake import FakeServer
from treadle.testing.script import Answer, Script, ScriptedError, Tokens
from treadle.testing.scripted import ScriptedModel
from treadle.tools.decorator import tool

from .scenes import call, hear, last, of, open_thread, scripted

CHEAP = "spare:cheap-1"
LONG = "many words " * 500
LIMIT = "auto_compact_token_limit = 9000"
FULL = Tokens(input=9_500)


@tool
async def look() -> str:
    """Looks."""
    return "a red door"


@asynccontextmanager
async def with_cheap(
    place: Path, model: ScriptedModel, *answers: Answer, **options: Any
) -> AsyncIterator[tuple[Thread, FakeServer]]:
    """A thread whose summaries another model writes, and that model's server."""
    async with FakeServer(Script(answers=answers)) as server:
        spare = ProviderConfig(api="responses", base_url=server.base_url, key="sk-of-the-spare")
        given = {"tools": (look,), "compaction_model": CHEAP, "providers": {"spare": spare}}
        async with open_thread(place, model, **(given | options)) as thread:
            yield thread, server


def bodies(server: FakeServer) -> list[str]:
    return [each.body.decode() for each in server.requests if each.method == "POST"]


def talked() -> list[Answer]:
    return [Answer(reasoning="Zebras.", calls=(call("look"),)), Answer(text=LONG)]


async def test_another_model_is_shown_the_conversation_as_text(tmp_path: Path):
    # Its own provider could compact, and is not asked to.
    model = scripted(*talked(), Answer(text="Yes."), remote_compaction="trigger")
    summary = Answer(text="They found a red door.", usage=Tokens(input=50, output=5))
    async with with_cheap(tmp_path, model, summary) as (thread, server):
        await hear(thread, "look around")
        await thread.compact()
        assert last(await hear(thread, "did you?")).text == "Yes."
        (body,) = bodies(server)
        assert '"model":"cheap-1"' in body
        assert "=== call of look" in body
        assert "a red door" in body
        sealed = '"encrypted_content":'
        for absent in ('"function_call"', sealed, '"tools":[{', "<environment_context>"):
            assert absent not in body
        assert b"They found a red door." in model.requests[-1].body
        assert len(model.requests) == 3
        # What it used is in the log, with its name.
        (paid,) = [
            entry
            for entry in await thread.store.read(thread.id)
            if entry.origin is not None and entry.origin.model == "cheap-1"
        ]
        assert isinstance(paid.control, ResponseMark)
        assert paid.control.usage is not None
        assert paid.control.usage.total_tokens == 55


@pytest.mark.parametrize(
    "failing",
    [
        Answer(error=ScriptedError(status=401, code="invalid_api_key", message="no such key")),
        Answer(error=ScriptedError(status=400, code="context_length_exceeded", message="too long")),
        Answer(text=" "),
    ],
    ids=["its key", "its window", "its words"],
)
async def test_where_it_fails_the_threads_own_model_writes_the_summary(
    tmp_path: Path, failing: Answer
):
    model = scripted(*talked(), Answer(text="A door was found."), Answer(text="Yes."))
    notices: list[str] = []
    async with with_cheap(tmp_path, model, failing) as (thread, server):
        await hear(thread, "look around")
        thread.observers.append(
            lambda event: notices.append(event.text) if isinstance(event, NoticeRaised) else None
        )
        await thread.compact()
        assert len(bodies(server)) == 1
        assert f"{CHEAP} did not write the summary: " in notices[0]
        assert notices[0].endswith("script writes it")
        assert last(await hear(thread, "did you?")).text == "Yes."
        assert b"A door was found." in model.requests[-1].body


async def test_the_lossless_engine_has_its_summaries_from_the_model_of_its_settings(
    tmp_path: Path,
):
    model = scripted(*(Answer(text=LONG) for _ in range(6)))
    wrote = Answer(text="They spoke of words.\nExpand for details about: words", times=0)
    async with with_cheap(
        tmp_path,
        model,
        wrote,
        engine="lossless",
        engine_config={"model": CHEAP},
        compaction_model=None,
    ) as (thread, server):
        for number in range(5):
            await hear(thread, f"say more, {number}")
        await thread.compact()
        assert bodies(server)
        assert all("Summarise the source now" in body for body in bodies(server))
        assert not any(b"Summarise the source now" in each.body for each in model.requests)


async def test_a_name_of_no_model_is_refused_before_a_thread_is_made(tmp_path: Path):
    lossless: dict[str, Any] = {"engine": "lossless", "engine_config": {"model": "openai:"}}
    for options in ({"compaction_model": "openai:"}, lossless):
        with pytest.raises(InvalidOption, match="names no model"):
            async with open_thread(tmp_path, scripted(), **options):
                raise AssertionError("it was opened")


async def test_what_a_summary_costs_counts_toward_the_limit_of_the_turn(tmp_path: Path):
    model = scripted(Answer(text=LONG, usage=FULL), Answer(calls=(call("look"),)), Answer(text="x"))
    summary = Answer(text="A summary.", usage=Tokens(input=1_000, output=0))
    prices = {"script": Price(input=0, output=0), "cheap-1": Price(input=2_000, output=0)}
    async with with_cheap(tmp_path, model, summary, facts=LIMIT, prices=prices) as (thread, _):
        await hear(thread, "one")
        events = await hear(thread, "next", limits=Limits(cost=1.5))
        assert len(of(events, CompactionFinished)) == 1
        end = last(events)
        assert end.limit is not None
        assert end.limit.limit == "cost"
        assert end.limit.spent == pytest.approx(2.0)


async def test_a_summary_that_nobody_can_charge_is_refused_with_a_limit_in_money(tmp_path: Path):
    prices = {"script": Price(input=1, output=1)}
    async with with_cheap(tmp_path, scripted(), prices=prices) as (thread, _):
        with pytest.raises(InvalidOption, match=r"the price of 'spare:cheap-1' is not known"):
            await hear(thread, "one", limits=Limits(cost=1.5))


@tool
async def read() -> str:
    """Reads a long report."""
    return "the door is red, and so on " * 800


@pytest.mark.parametrize(
    ("cached_price", "cached", "apart"),
    [(None, 8_000, True), (1.0, 8_000, False), (1.0, 0, True)],
    ids=["no discount", "a tenth for what was kept", "nothing was kept"],
)
async def test_a_summary_is_asked_for_the_way_that_costs_less(
    tmp_path: Path, cached_price: float | None, cached: int, apart: bool
):
    prices = {"script": Price(input=10, cached_input=cached_price, output=0)}
    usage = Tokens(input=9_500, cached=cached)
    model = scripted(
        Answer(calls=(call("read"),)),
        Answer(text="It says much.", usage=usage),
        Answer(text="They read of a red door."),
        Answer(text="Yes."),
    )
    facts = "auto_compact_token_limit = 9000"
    async with open_thread(tmp_path, model, tools=(read,), prices=prices, facts=facts) as thread:
        await hear(thread, "read it")
        answered = await hear(thread, "did you?", limits=Limits(cost=100.0))
        assert last(answered).text == "Yes."
    asked = model.requests[2].body
    assert (b"<source>" in asked) == apart
    assert (b'"name":"read"' in asked) != apart
    assert b"They read of a red door." in model.requests[3].body


async def test_where_no_price_is_known_the_summary_rides_the_prefix(tmp_path: Path):
    model = scripted(Answer(text=LONG, usage=FULL), Answer(text="Much."), Answer(text="Yes."))
    async with open_thread(tmp_path, model) as thread:
        await hear(thread, "read it")
        await thread.compact()
    assert b"<source>" not in model.requests[1].body
