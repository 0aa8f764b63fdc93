from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from treadle.core.errors import ConfigError
from treadle.core.items import Item
from treadle.engines.loading import EngineContext
from treadle.engines.lossless.chunks import Thresholds
from treadle.engines.lossless.engine import LosslessEngine, create_engine, thresholds_from
from treadle.engines.lossless.library import Library
from treadle.engines.values import (
    AssembleResult,
    CommitResult,
    CompactParams,
    ContextItem,
    MaintainParams,
    ResetParams,
    RuntimeContext,
)
from treadle.testing.conversations import FakeConversation

from .scenes import words

BUDGET = 8_000


class Writer:
    """Answers what it was given, and counts."""

    purpose = "context-engine.turn.maintenance"

    def __init__(self, *, waits: bool = False) -> None:
        self.calls, self.waits, self.begun = 0, waits, asyncio.Event()

    async def __call__(
        self, prompt: str, *, items: Sequence[Item] = (), instructions: str = ""
    ) -> str:
        assert prompt
        assert instructions
        assert not items
        self.calls += 1
        self.begun.set()
        if self.waits:
            await asyncio.Event().wait()
        return "They spoke of words.\nExpand for details about: words"


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LosslessEngine]:
    made = LosslessEngine(Library(tmp_path / "lossless.db"))
    yield made
    await made.dispose()


def past(turns: int, size: int = 120) -> FakeConversation:
    """Turns of about 300 tokens."""
    made = FakeConversation()
    for number in range(turns):
        made.turn(f"{number}: {words(number, size)}", f"On {number}: {words(number + 1, size)}")
    return made


def filled(part: float, made: FakeConversation | None = None) -> FakeConversation:
    """A past that takes a bit more than a part of the budget."""
    made = made or FakeConversation()
    while sum(said.item.tokens for said in made.rows) <= part * BUDGET:
        made.turn(f"{made.turns}: {words(made.turns, 120)}", words(made.turns + 1, 120))
    return made


def maintaining(
    said: FakeConversation, complete: Writer | None = None, **how: Any
) -> MaintainParams:
    given = said.assemble_params(None)
    return MaintainParams(
        thread=given.thread,
        log=given.log,
        items=given.items,
        provenance=given.provenance,
        internal_events=given.internal_events,
        persist=given.persist,
        context=RuntimeContext(token_budget=BUDGET, complete=complete),
        **how,
    )


def compacting(said: FakeConversation, complete: Writer | None = None, **how: Any) -> CompactParams:
    given = maintaining(said, complete)
    return CompactParams(
        thread=given.thread,
        log=given.log,
        items=given.items,
        provenance=given.provenance,
        internal_events=given.internal_events,
        persist=given.persist,
        context=given.context,
        token_budget=BUDGET,
        **how,
    )


def names(items: Sequence[ContextItem]) -> list[str]:
    return [item.name for item in items if item.name is not None]


async def assembled(
    engine: LosslessEngine, said: FakeConversation, prompt: str = "On?"
) -> AssembleResult:
    return await engine.assemble(said.assemble_params(prompt, token_budget=BUDGET))


async def test_a_new_conversation_is_shown_as_it_is(engine: LosslessEngine):
    said = FakeConversation()
    given = said.assemble_params("Hello.", token_budget=BUDGET)
    result = await engine.assemble(given)
    assert (result.items, result.system_prompt_addition) == (given.items, None)


async def test_nothing_is_prepared_below_the_mark(engine: LosslessEngine):
    writer = Writer()
    done = await engine.maintain(maintaining(past(6), writer))
    assert (done.changed, done.rebase, writer.calls) == (False, None, 0)


async def test_summaries_are_prepared_unseen_and_published_when_it_is_time(
    engine: LosslessEngine,
):
    writer, said = Writer(), filled(0.7)
    done = await engine.maintain(maintaining(said, writer))
    assert (done.changed, done.rebase) == (True, None)
    assert writer.calls
    prepared = await engine.library.nodes_of_thread(said.thread)
    filled(engine.thresholds.high, said)
    result = await assembled(engine, said)
    assert set(names(result.items)) <= {node.id for node in prepared}
    assert result.estimated_tokens <= BUDGET * engine.thresholds.low
    assert result.items[-1].id == f"{said.thread}:prompt"


async def test_a_view_is_not_brought_down_by_halves(engine: LosslessEngine):
    result = await assembled(engine, filled(engine.thresholds.high))
    assert names(result.items) == []


async def test_above_the_hard_mark_nothing_is_waited_for(engine: LosslessEngine):
    said = past(34)
    result = await assembled(engine, said)
    assert names(result.items)
    assert result.estimated_tokens <= BUDGET
    nodes = await engine.library.nodes(names(result.items))
    assert all(node.degraded for node in nodes.values())


async def test_without_a_model_the_engine_works_whole(engine: LosslessEngine):
    said = past(24)
    done = await engine.maintain(maintaining(said))
    assert done.rebase is not None
    assert sum(item.tokens for item in done.rebase.items) <= BUDGET * engine.thresholds.low
    known = await engine.library.nodes(names(done.rebase.items))
    spans = [
        known[item.name].spans if item.name else ((item.seq, item.seq),)
        for item in done.rebase.items
    ]
    entries = [
        seq for each in spans for low, high in each for seq in range(low or 0, (high or 0) + 1)
    ]
    assert entries == list(range(1, len(said.rows) + 1))


async def test_the_projection_changes_with_the_summaries_and_not_with_the_tail(
    engine: LosslessEngine,
):
    said = past(6)
    first = await assembled(engine, said)
    said.turn("more", "of it")
    second = await assembled(engine, said)
    assert first.projection == second.projection
    for number in range(40):
        said.turn(f"{number}: {words(number, 120)}", words(number, 120))
    third = await assembled(engine, said)
    assert third.projection.epoch != second.projection.epoch
    assert {result.projection.mode for result in (first, second, third)} == {"per_epoch"}


async def test_assembling_twice_gives_the_same_bytes(engine: LosslessEngine):
    said = past(34)
    assert (await assembled(engine, said)).items == (await assembled(engine, said)).items


async def test_two_engines_over_two_libraries_show_the_same(tmp_path: Path):
    shown = []
    for name in ("one", "two"):
        engine = LosslessEngine(Library(tmp_path / f"{name}.db"))
        shown.append((await assembled(engine, past(34))).items)
        await engine.dispose()
    assert shown[0] == shown[1]


async def test_a_call_that_nobody_waits_for_is_not_made(engine: LosslessEngine):
    writer, nobody = Writer(), asyncio.Event()
    nobody.set()
    done = await engine.compact(compacting(past(20), writer, cancelled=nobody))
    assert (done.ok, writer.calls) == (False, 0)


async def test_a_call_that_nobody_waits_for_any_more_is_broken_off(engine: LosslessEngine):
    writer, nobody = Writer(waits=True), asyncio.Event()
    said = past(20)
    compacts = asyncio.create_task(engine.compact(compacting(said, writer, cancelled=nobody)))
    await writer.begun.wait()
    nobody.set()
    with pytest.raises(asyncio.CancelledError):
        await compacts
    assert await engine.library.nodes_of_thread(said.thread) == []


async def test_after_an_overflow_the_view_is_compacted_to_low_water_and_no_further(
    engine: LosslessEngine,
):
    done = await engine.compact(compacting(past(34), Writer(), trigger="overflow"))
    assert done.tokens_before is not None
    assert done.tokens_after is not None
    low = BUDGET * engine.thresholds.low
    assert low - BUDGET / 8 < done.tokens_after <= low < done.tokens_before


async def test_a_turn_under_way_beside_maintenance_keeps_its_input(engine: LosslessEngine):
    said = past(20)
    await engine.commit_turn(said.turn("one that is over", words(1, 400)))
    running = said.turn(f"RUNNING {words(2, 400)}", words(2, 400))
    done = await engine.maintain(maintaining(said, Writer()))
    assert done.rebase is not None
    assert running.items[0] in done.rebase.items


async def test_a_turn_is_committed_once(engine: LosslessEngine):
    turn = past(0).turn("one", "two")
    assert await engine.commit_turn(turn) == CommitResult("committed")
    assert await engine.commit_turn(turn) == CommitResult("duplicate")


async def test_what_was_rolled_back_is_no_longer_worked_on(engine: LosslessEngine):
    said = past(20)
    await engine.maintain(maintaining(said))
    assert await engine.library.jobs(said.thread)
    await engine.thread_reset(ResetParams(thread=said.ref, log=said, first=1, last=80))
    assert await engine.library.jobs(said.thread) == []


async def test_the_factory_makes_an_engine_from_its_table(tmp_path: Path):
    engine = create_engine(EngineContext(home=tmp_path / "own", config={"high": 0.6, "low": 0.3}))
    assert engine.thresholds == Thresholds(high=0.6, low=0.3)
    await assembled(engine, past(2))
    file = tmp_path / "own" / "lossless.db"
    assert not file.exists(), "there is nothing to keep yet"
    await engine.commit_turn(past(0).turn("one", "two"))
    assert file.exists()
    await engine.dispose()


async def test_without_a_home_summaries_end_with_the_engine():
    for _ in range(2):
        engine = create_engine(EngineContext(home=None))
        said = past(34)
        assert await engine.library.nodes_of_thread(said.thread) == []
        assert names((await assembled(engine, said)).items)
        assert await engine.library.nodes_of_thread(said.thread) != []
        await engine.dispose()


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"hight": 0.6}, "no key 'hight'; the known keys are prepare, high"),
        ({"high": "much"}, "correct the value"),
        ({"high": 0.95}, "0 < prepare <= high <= hard <= 1"),
        ({"low": 0.8}, "low below high"),
    ],
)
def test_a_table_that_cannot_be_used_is_named(table: dict[str, object], told: str):
    with pytest.raises(ConfigError, match=told):
        thresholds_from(table)
