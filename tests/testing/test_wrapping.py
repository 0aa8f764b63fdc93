from __future__ import annotations

from typing import Any

import pytest

from tests.engines.sample_engines import MinimalEngine, SummingEngine
from treadle.engines.contract import CommitsTurns, ContextEngine, FollowsTurns
from treadle.engines.defects import defects, optional_powers
from treadle.testing.conversations import FakeConversation
from treadle.testing.wrapping import RecordedCalls, Work, wrap_engine


@pytest.mark.parametrize("engine", [MinimalEngine(), SummingEngine()])
def test_what_is_wrapped_is_the_same_engine_to_everybody(engine: ContextEngine):
    outside = wrap_engine(engine, RecordedCalls())
    assert defects(outside) == ()
    assert optional_powers(outside) == optional_powers(engine)
    assert outside.info == engine.info
    assert isinstance(outside, FollowsTurns) == isinstance(engine, FollowsTurns)
    assert not isinstance(outside, CommitsTurns)


async def test_calls_are_noted_with_what_they_were_given():
    calls, given = RecordedCalls(), FakeConversation().assemble_params("zebra")
    result = await wrap_engine(MinimalEngine(), calls).assemble(given)
    assert result.items == given.items
    assert calls == [("assemble", given)]
    assert calls.given_to("assemble") == [given]
    assert calls.given_to("compact", "ingest") == []


async def test_a_call_that_failed_is_not_noted():
    async def fails(call: str, _: Any, __: Work, /) -> Any:
        raise RuntimeError(call)

    calls = RecordedCalls()
    with pytest.raises(RuntimeError, match="assemble"):
        await wrap_engine(wrap_engine(MinimalEngine(), fails), calls).assemble(
            FakeConversation().assemble_params("zebra")
        )
    assert calls == []


async def test_what_stands_around_decides_what_is_given():
    async def nothing_more(_: str, __: Any, work: Work, /) -> Any:
        return await work(FakeConversation().assemble_params(None))

    result = await wrap_engine(MinimalEngine(), nothing_more).assemble(
        FakeConversation().assemble_params("zebra")
    )
    assert result.items == ()
