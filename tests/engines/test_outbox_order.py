from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.scenes import unpaired_calls
from treadle import Thread
from treadle.context.rebuild import rebuild_ledger
from treadle.core.entries import Epoch, Reason
from treadle.core.errors import IllegalCut, StoreClosed
from treadle.engines.conversation import visible_rows
from treadle.harness.events import Event, StepStarted
from treadle.store.contract import Change, ChangeResult, Lease
from treadle.store.sqlite import SqliteStore
from treadle.testing.script import Answer, Script, ScriptedError
from treadle.testing.scripted import ScriptedModel

from .notebook import Notebook
from .scenes import notices

SCRIPT = Script(
    answers=(
        Answer(when="plum", text="Done.", times=0),
        Answer(when="quince", delay=60.0, times=0),
        Answer(when="rowan", error=ScriptedError(status=400, message="no"), times=0),
    )
)
FATES = {"completed": "accepted", "aborted": "aborted", "failed": "failed"}


class MortalStore(SqliteStore):
    """A store that can stop writing, as if its process had died."""

    left: int | None = None
    """How many transactions it lives for; None for ever."""

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        """Write, while it lives."""
        if self.left is not None:
            if self.left <= 0:
                raise StoreClosed("this process is dead")
            self.left -= 1
        return await super().commit(lease, change)


class Locked:
    """Whether the notebook can be written."""

    def __init__(self) -> None:
        self.down = False

    def __call__(self, point: str) -> None:
        if self.down and point == "before commit":
            raise OSError("the notebook is locked")


@asynccontextmanager
async def opened(
    place: Path, locked: Locked, thread: str | None = None, left: int | None = None
) -> AsyncIterator[Thread]:
    """A thread with a notebook, on a store that may die."""
    store, model = await MortalStore.open(place), ScriptedModel(SCRIPT)
    assert isinstance(store, MortalStore)
    store.left = left
    try:
        async with Thread.open(
            thread,
            model=model,
            home=place,
            cwd=place,
            tools=(),
            store=store,
            engine=Notebook(place / "notebook.db", locked),
        ) as opened_thread:
            yield opened_thread
    finally:
        await store.close()
        await model.close()


async def turn(thread: Thread, said: str) -> list[Event]:
    """One turn; that of a quince is broken off."""
    heard = []
    async for event in thread.run(said):
        heard.append(event)
        if isinstance(event, StepStarted) and said == "quince":
            thread.interrupt()
    return heard


async def knows_what_can_be_seen(thread: Thread, notebook: Notebook) -> None:
    """The engine has every accepted turn once, in order, and of those what was not hidden."""
    turns = {each.number: each for each in await thread.store.turns(thread.id)}
    accepted = [number for number, each in turns.items() if each.state == "completed"]
    assert [noted.number for noted in notebook.commits] == accepted
    rows = await visible_rows(thread.store, thread.id, await newest_reset(thread))
    assert notebook.known == [
        (row.seq, FATES[turns[row.turn].state])
        for row in rows
        if not (row.contextual or row.volatile) and row.turn <= accepted[-1]
    ]
    await thread.log.done.settle()
    assert await thread.store.outbox(thread=thread.id) == []
    assert await unpaired_calls(thread) == []
    assert not [row for row in await thread.index.rows(thread.id) if row.unexplained]
    rebuilt = await rebuild_ledger(thread.store, thread.index, thread.id, thread.registry)
    assert rebuilt.differing == ()


async def newest_reset(thread: Thread) -> int:
    """From where on an engine was told nothing of a reset."""
    entries = [entry for entry in await thread.store.read(thread.id) if entry.kind == "epoch"]
    resets = [
        entry.seq
        for entry in entries
        if isinstance(entry.control, Epoch) and entry.control.reason is Reason.RESET
    ]
    return max(resets, default=1)


async def lived(place: Path, deeds: list[str | int]) -> None:
    """Do some deeds in one thread, then make sure of everything; numbers are crashes."""
    locked, name = Locked(), None
    deeds = [*deeds, "up", "plum", "plum"]
    while deeds:
        crash = next((deed for deed in deeds if isinstance(deed, int)), None)
        async with opened(place, locked, name) as thread:
            name = thread.id
            while deeds and not isinstance(deeds[0], int):
                await do(thread, locked, str(deeds.pop(0)))
            if not deeds:
                await knows_what_can_be_seen(thread, Notebook(place / "notebook.db"))
        if deeds:
            assert crash is not None
            deeds.pop(0)
            await crashed(place, locked, name, crash)


async def do(thread: Thread, locked: Locked, deed: str) -> None:
    match deed:
        case "down" | "up":
            locked.down = deed == "down"
        case "rollback":
            with suppress(IllegalCut):  # there may be nothing left to hide
                await thread.rollback()
        case "reset":
            await thread.reset()
        case _:
            await turn(thread, deed)


async def crashed(place: Path, locked: Locked, thread: str | None, after: int) -> None:
    """A turn whose process dies after some transactions."""
    try:
        async with opened(place, locked, thread, after) as dying:
            await turn(dying, "plum")
    except StoreClosed:
        return


DEEDS = st.one_of(
    st.sampled_from(["plum", "plum", "quince", "rowan", "rollback", "reset", "down", "up"]),
    st.integers(0, 9),
)


@settings(max_examples=10)
@given(st.lists(DEEDS, max_size=8))
def test_whatever_becomes_of_turns_an_engine_knows_what_can_be_seen(deeds: list[str | int]):
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(lived(Path(place), deeds))


async def test_an_engine_that_was_down_for_long_catches_up_in_order(tmp_path: Path):
    locked = Locked()
    notebook = Notebook(tmp_path / "notebook.db")
    async with opened(tmp_path, locked) as thread:
        locked.down = True
        for _ in range(20):
            (line,) = notices(await turn(thread, "plum"))
            assert "commit_turn" in line
        assert notebook.commits == []
        locked.down = False
        (line,) = notices(await turn(thread, "plum"))
        assert line.startswith("4 turns still wait for it; this turn runs without engine")
        assert [noted.number for noted in notebook.commits] == [*range(1, 17)]
        assert notices(await turn(thread, "plum")) == []
        assert [noted.number for noted in notebook.commits] == [*range(1, 23)]
        await knows_what_can_be_seen(thread, notebook)
