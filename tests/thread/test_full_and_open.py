"""A thread that a crash left with a full view and an open call goes on, whatever comes next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.scenes import hear, last, open_thread, scripted
from treadle.core.items import FunctionCall
from treadle.testing.script import Answer, ScriptedError

LONG = "many words " * 3_000
LIMIT = "auto_compact_token_limit = 6000"


async def crashed(place: Path, engine: str) -> str:
    """A thread whose view is full, and whose newest step has two calls and no result."""
    model = scripted(Answer(text=LONG), Answer(text=LONG))
    async with open_thread(place, model, facts=LIMIT, engine=engine) as thread:
        await hear(thread, "write much")
        await hear(thread, "write more")
        await thread.log.turns.admit("and look", turn_id="crashed")
        await thread.log.requests.record(thread.request())
        lost = [
            FunctionCall(id=f"fc_{n}", call_id=f"call_{n}", name="look", arguments="{}")
            for n in range(2)
        ]
        await thread.log.requests.record_answer(lost)
        return thread.id


@pytest.mark.parametrize("engine", ["linear", "lossless"])
@pytest.mark.parametrize("how", ["run", "again", "fork", "rollback", "revert", "reset", "other"])
async def test_a_thread_with_a_full_view_and_an_open_call_goes_on(tmp_path, engine, how):
    name = await crashed(tmp_path, engine)
    used = {"linear": "lossless", "lossless": "linear"}[engine] if how == "other" else engine
    model = scripted(Answer(text="It goes on.", times=0))
    async with open_thread(tmp_path, model, thread=name, facts=LIMIT, engine=used) as thread:
        match how:
            case "fork":
                name = await thread.fork()
            case "rollback":
                await thread.rollback()
            case "revert":
                await thread.revert(thread.view.upto - 1)
            case "reset":
                await thread.reset()
    turn_id = "crashed" if how == "again" else None
    model = scripted(Answer(text="It goes on.", times=0))
    async with open_thread(tmp_path, model, thread=name, facts=LIMIT, engine=used) as thread:
        heard = await hear(thread, "and look", turn_id=turn_id)
        assert last(heard).text == "It goes on."
        assert not thread.view.open_calls
        assert last(await hear(thread, "and again")).text == "It goes on."


async def test_a_thread_goes_on_where_compacting_does_not_help(tmp_path):
    name = await crashed(tmp_path, "linear")
    refused = ScriptedError(status=400, code="invalid_request", message="no summaries here")
    model = scripted(Answer(error=refused), Answer(text="It goes on.", times=0))
    async with open_thread(tmp_path, model, thread=name, facts=LIMIT) as thread:
        assert last(await hear(thread, "go on")).text == "It goes on."
        assert not thread.view.open_calls
