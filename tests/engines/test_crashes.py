from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import run
from tests.harness.scenes import unpaired_calls
from treadle import Rights, Thread
from treadle.context.ledger import watch
from treadle.context.rebuild import rebuild_ledger
from treadle.context.row import Row
from treadle.core.entries import Entry
from treadle.engines.conversation import visible_rows
from treadle.harness.events import TurnCompleted
from treadle.prompt.engine_fragments import Recall
from treadle.store import SqliteStore
from treadle.store.contract import LedgerRow
from treadle.testing.wrapping import CallWrapper, Work, wrap_engine

from .crash_child import BOUNDARIES, TURNS, look, model
from .notebook import Notebook

ROOT = Path(__file__).parents[2]
POINTS = [f"{side} {boundary}" for boundary in BOUNDARIES for side in ("before", "after")]
_FATES = {"completed": "accepted", "aborted": "aborted", "failed": "failed"}


def killed(
    place: Path,
    point: str,
    *,
    turn: str = "cherry",
    mode: str = "foreground",
    surely: bool = True,
) -> None:
    """A process ran turns in `place` until it killed itself at `point`, if it came to that."""
    (place / "home").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.engines.crash_child", str(place), point, turn, mode]
    done = run(command, cwd=ROOT)
    expected = (-signal.SIGKILL,) if surely else (-signal.SIGKILL, 0)
    assert done.returncode in expected, done.stderr.decode()


class Stuck:
    """Lets one call of an engine hang while it is armed."""

    def __init__(self, call: str = "") -> None:
        self.call, self.armed, self.reached = call, call == "bootstrap", asyncio.Event()

    async def __call__(self, call: str, given: Any, work: Work, /) -> Any:
        if self.armed and call == self.call:
            self.reached.set()
            await asyncio.Event().wait()
        return await work(given)


@asynccontextmanager
async def reopened(
    place: Path, around: CallWrapper | None = None
) -> AsyncIterator[tuple[Thread, Notebook]]:
    """The thread that the process has left, with the engine that it had."""
    broken: list[LedgerRow] = []
    engine, answering = Notebook(place / "notebook.db"), model()
    try:
        with watch(broken.append):
            async with Thread.open(
                await the_thread(place),
                model=answering,
                home=place / "home",
                cwd=place,
                tools=(look,),
                rights=Rights(sandbox="danger-full-access", approval="never"),
                engine=wrap_engine(engine, around or Stuck()),
            ) as thread:
                yield thread, engine
    finally:
        await answering.close()
    assert broken == []


async def the_thread(place: Path) -> str:
    async with await SqliteStore.open(place / "home") as store:
        (found,) = await store.threads()
        return found.id


async def ended(thread: Thread, said: str) -> str:
    """How a turn ended that was run to its end."""
    end = [event async for event in thread.run(said, turn_id=said)][-1]
    assert isinstance(end, TurnCompleted)
    return end.status


async def conversation(thread: Thread) -> list[Row]:
    """What an engine may be told of: the visible conversation that is not volatile."""
    rows = await visible_rows(thread.store, thread.id)
    return [row for row in rows if not (row.contextual or row.volatile)]


async def knows_every_turn_once(thread: Thread, engine: Notebook) -> None:
    """The engine has each accepted turn once, in order, with what was carried along, marked."""
    turns = {turn.number: turn for turn in await thread.store.turns(thread.id)}
    accepted = [number for number, turn in turns.items() if turn.state == "completed"]
    assert [noted.number for noted in engine.commits] == accepted
    assert [noted.key for noted in engine.commits] == [f"{thread.id}/{each}" for each in accepted]
    told = [item for noted in engine.commits for item in noted.items]
    assert engine.known == told
    rows = [row for row in await conversation(thread) if row.turn <= accepted[-1]]
    assert told == [(row.seq, _FATES[turns[row.turn].state]) for row in rows]
    await thread.log.done.settle()
    assert await thread.store.outbox(thread=thread.id) == []
    assert {turn.state for turn in turns.values()} <= set(_FATES)


async def is_sound(thread: Thread) -> None:
    """Calls are paired, inputs and memories stand once, and every request can be proved."""
    assert await unpaired_calls(thread) == []
    entries = [entry for entry in await thread.store.read(thread.id) if entry.kind == "item"]
    assert max(Counter(entry.turn for entry in entries if is_recall(entry)).values()) == 1
    inputs = [entry.turn for entry in entries if entry.turn and is_input(entry)]
    assert inputs == sorted(set(inputs))
    assert not [row for row in await thread.index.rows(thread.id) if row.unexplained]
    rebuilt = await rebuild_ledger(thread.store, thread.index, thread.id, thread.registry)
    assert rebuilt.requests
    assert rebuilt.differing == ()
    assert not [row for row in await thread.index.rows(thread.id) if row.unexplained]


def is_recall(entry: Entry) -> bool:
    assert Recall.markers is not None
    return Recall.markers.start.encode() in entry.body


def is_input(entry: Entry) -> bool:
    return b'"role":"user"' in entry.body and not Row.of_entry(entry).contextual


async def goes_on(place: Path, *turns: str) -> Notebook:
    """The thread can be opened and gone on with, and nothing was lost or came twice."""
    async with reopened(place) as (thread, engine):
        for said in turns:
            assert await ended(thread, said) == "completed"
        await knows_every_turn_once(thread, engine)
        await is_sound(thread)
        return engine


@pytest.mark.parametrize("point", POINTS)
async def test_a_turn_can_be_killed_at_every_boundary(tmp_path: Path, point: str):
    place = tmp_path / "same"
    place.mkdir()
    await asyncio.to_thread(killed, place, point)
    shutil.copytree(place, tmp_path / "other")
    engine = await goes_on(place, "cherry", "damson")
    # What was said in the turn that the user broke off came with the next one, marked.
    assert [fate for _, fate in engine.commits[1].items][:2] == ["aborted", "accepted"]
    await goes_on(tmp_path / "other", "damson", "elder")


FIRST = ("after admit", "after open", "after call", "after result", "after end", "after commit")
SECOND = [
    f"{side} {boundary}"
    for boundary in ("admit", "bootstrap", "open", "call", "end", "ready", "commit", "settle")
    for side in ("before", "after")
]
TWICE = random.Random(4).sample([*product(FIRST, SECOND, ("cherry", "damson"))], 12)


@pytest.mark.parametrize(("first", "second", "turn"), TWICE)
async def test_who_takes_a_turn_up_can_be_killed_too(
    tmp_path: Path, first: str, second: str, turn: str
):
    place = tmp_path / "same"
    place.mkdir()
    await asyncio.to_thread(killed, place, first)
    await asyncio.to_thread(killed, place, second, turn=turn, surely=False)
    shutil.copytree(place, tmp_path / "other")
    await goes_on(place, turn, "elder")
    await goes_on(tmp_path / "other", "elder")


async def test_a_turn_is_ended_even_if_each_of_two_others_was_killed_at_once(tmp_path: Path):
    await asyncio.to_thread(killed, tmp_path, "after call")
    await asyncio.to_thread(killed, tmp_path, "after admit", turn="damson")
    async with reopened(tmp_path) as (thread, engine):
        assert await ended(thread, "cherry") == "interrupted"
        assert await ended(thread, "elder") == "completed"
        await knows_every_turn_once(thread, engine)
        await is_sound(thread)
        states = [turn.state for turn in await thread.store.turns(thread.id)]
        assert states == ["completed", "aborted", "aborted", "aborted", "completed"]


@pytest.mark.parametrize("point", ["before maintain", "after maintain"])
async def test_maintenance_beside_the_turns_can_be_killed(tmp_path: Path, point: str):
    await asyncio.to_thread(killed, tmp_path, point, mode="background")
    engine = await goes_on(tmp_path, "damson", "elder")
    assert engine.calls["maintain"] > len(TURNS) - 3


@pytest.mark.parametrize("point", ["before commit", "after commit", "after ready", "after settle"])
async def test_catching_up_with_many_turns_can_be_killed(tmp_path: Path, point: str):
    await asyncio.to_thread(killed, tmp_path, "after settle", turn="apricot")
    async with reopened(tmp_path) as (thread, engine):
        engine.at = refusing
        for number in range(5):
            assert await ended(thread, f"apricot {number}") == "completed"
        assert len(engine.commits) == 1
    await asyncio.to_thread(killed, tmp_path, point, turn="damson")
    await goes_on(tmp_path, "damson", "elder")


def refusing(point: str) -> None:
    """An engine that cannot be told of turns."""
    if point == "before commit":
        raise OSError("the notebook is locked")


INTERRUPTED = {
    "bootstrap": "interrupted",
    "assemble": "interrupted",
    "commit_turn": "completed",
    "maintain": "completed",
}


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
@pytest.mark.parametrize("call", INTERRUPTED)
async def test_whatever_an_engine_is_asked_can_be_broken_off(tmp_path: Path, call: str, how: str):
    await asyncio.to_thread(killed, tmp_path, "after commit", turn="apricot")
    stuck = Stuck(call)
    async with reopened(tmp_path, stuck) as (thread, engine):
        if call != "bootstrap":
            assert await ended(thread, "damson") == "completed"
        stuck.armed = True
        turn = asyncio.create_task(ended(thread, "elder"))
        await stuck.reached.wait()
        if how == "interrupt":
            thread.interrupt()
            assert await turn == INTERRUPTED[call]
        else:
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
        stuck.armed = False
        assert await ended(thread, "damson once more") == "completed"
        await knows_every_turn_once(thread, engine)
        await is_sound(thread)
