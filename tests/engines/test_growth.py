from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.engines.scenes import Following, Probe, actions, notices, past, shows
from tests.harness.scenes import call, hear, last, open_thread, scripted
from treadle import Thread
from treadle.context.row import Row
from treadle.engines.contract import EngineInfo
from treadle.engines.values import AssembleParams, AssembleResult
from treadle.harness.events import Event, StepStarted
from treadle.store.contract import Change, ChangeResult, Lease, Turn
from treadle.store.sqlite import SqliteStore
from treadle.testing.script import Answer
from treadle.tools.decorator import tool

OWNER = EngineInfo(id="owner", name="Owner", owns_compaction=True)


@tool(parallel=True)
async def look(at: int = 0) -> str:  # noqa: ARG001 - no two calls are the same
    """Looks."""
    return "seen"


class Watched(list[Row]):
    """The rows of a view, which count how often they are read for an engine."""

    reads = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self._count(len(found) if isinstance(at, slice) else 1)
        return found

    def __iter__(self) -> Iterator[Row]:
        return self._told(super().__iter__(), counts=_by_engines())

    def __reversed__(self) -> Iterator[Row]:
        return self._told(super().__reversed__(), counts=_by_engines())

    def _told(self, rows: Iterator[Row], *, counts: bool) -> Iterator[Row]:
        for row in rows:
            self.reads += counts
            yield row

    def _count(self, rows: int) -> None:
        if _by_engines(3):
            self.reads += rows


def _by_engines(depth: int = 2) -> bool:
    """Whether the code that reads belongs to the engines."""
    return "/treadle/engines/" in sys._getframe(depth).f_code.co_filename


def watch(thread: Thread) -> Watched:
    """Count from now on."""
    rows = Watched(thread.view.rows)
    thread.view.rows = rows
    return rows


@pytest.mark.parametrize("engine", ["lossless", Probe(OWNER)])
async def test_a_step_costs_an_engine_what_is_new_however_long_the_view_is(
    tmp_path: Path, engine: Any
):
    rounds = 40
    model = scripted(
        Answer(text="Hello."),
        *(Answer(calls=(call("look", at=at),)) for at in range(rounds)),
        Answer(),
    )
    async with open_thread(tmp_path, model, tools=(look,), engine=engine) as thread:
        await hear(thread, "first")
        rows, reads = watch(thread), list[int]()

        def note(event: Event) -> None:
            if isinstance(event, StepStarted):
                reads.append(rows.reads)

        heard = await hear(thread, "second", at=note)
        assert thread.view.rows is rows
    assert (last(heard).status, notices(heard)) == ("completed", [])
    assert actions(heard).count("assemble.applied") == rounds + 1
    costs = [after - before for before, after in pairwise(reads[1:])]
    assert len(set(costs)) == 1
    assert 0 < costs[0] <= 8


async def test_a_turn_costs_the_lossless_engine_what_is_new_however_long_the_view_is(
    tmp_path: Path,
):
    turns = 24
    model = scripted(*(Answer(text=f"Answer {number}.") for number in range(turns)))
    costs: list[int] = []
    async with open_thread(tmp_path, model, engine="lossless") as thread:
        await hear(thread, "first")
        rows = watch(thread)
        for number in range(1, turns):
            before = rows.reads
            heard = await hear(thread, f"question {number}")
            assert (last(heard).status, notices(heard)) == ("completed", [])
            await thread.wait_for_engine(10.0)
            costs.append(rows.reads - before)
    assert len(set(costs[1:])) == 1
    assert 0 < costs[-1] <= 20


class CountingStore(SqliteStore):
    """A store that notes what it is asked beside a turn."""

    asked: list[str]

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        if change.settle or change.outbox or (change.done and change.admit is None):
            self._note("+".join(sorted({row.state for row in change.outbox}) or ["settle"]))
        return await super().commit(lease, change)

    async def outbox(self, **which: Any) -> Any:
        self._note("outbox")
        return await super().outbox(**which)

    async def turn(self, thread: str, number: int) -> Turn:
        self._note("turn")
        return await super().turn(thread, number)

    async def read_ranges(self, thread: str, ranges: Any) -> Any:
        self._note("read_ranges")
        return await super().read_ranges(thread, ranges)

    async def rollbacks(self, thread: str) -> Any:
        self._note("rollbacks")
        return await super().rollbacks(thread)

    def _note(self, what: str) -> None:
        self.asked.append(what)


async def test_a_turn_is_handed_over_without_a_write_of_its_own_and_nothing_is_read_again(
    tmp_path: Path,
):
    store = await CountingStore.open(tmp_path / "home")
    assert isinstance(store, CountingStore)
    store.asked = []
    model = scripted(Answer(text="a"), Answer(text="b"))
    async with open_thread(tmp_path, model, engine="lossless", store=store) as thread:
        await hear(thread, "first")
        store.asked.clear()
        heard = await hear(thread, "second")
        assert (last(heard).status, notices(heard)) == ("completed", [])
        assert store.asked == ["admitted", "accepted"]
    assert await SqliteStore.outbox(store, thread=thread.id) == []
    await store.close()


async def test_a_turn_whose_beginning_was_compacted_is_read_from_the_log(tmp_path: Path):
    def compacts(given: AssembleParams) -> AssembleResult:
        if given.prompt is not None or len(given.items) < 6:
            return AssembleResult(items=given.items)
        return AssembleResult(items=given.items[given.pre_prompt_count :])

    engine = Following(OWNER, assemble=compacts)
    thread = await past(tmp_path, "rain", "snow")
    model = scripted(Answer(calls=(call("look"),)), Answer(text="done"))
    async with open_thread(tmp_path, model, thread=thread, tools=(look,), engine=engine) as again:
        heard = await hear(again, "now")
        assert again.view.base > 0
    assert notices(heard) == []
    (given,) = engine.given("after_turn")
    assert [item.turn for item in given.items] == [3] * 4
    assert (given.pre_prompt_count, given.outcomes) == (0, ("accepted",) * 4)


async def test_what_an_engine_was_given_earlier_is_judged_like_anything_else(tmp_path: Path):
    earlier: list[AssembleParams] = []

    def stale(given: AssembleParams) -> AssembleResult:
        earlier.append(given)
        return AssembleResult(items=earlier[max(0, len(earlier) - 2)].items)

    engine = Probe(OWNER, assemble=stale)
    model = scripted(Answer(calls=(call("look"),)), Answer(text="done"))
    async with open_thread(tmp_path, model, tools=(look,), engine=engine) as thread:
        heard = await hear(thread, "first")
    assert len(notices(heard)) == 1
    assert shows(model.requests[-1])[0] == "first"
