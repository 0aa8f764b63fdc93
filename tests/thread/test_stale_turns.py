from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from msgspec import Raw

from tests.harness.scenes import hear, last, open_thread, scripted
from treadle.core.items import encode_item
from treadle.harness.events import TurnStarted
from treadle.prompt.input import user_message
from treadle.store import SqliteStore
from treadle.store.contract import Admission, Change, TurnEnd
from treadle.testing.contracts.drafts import append
from treadle.testing.script import Answer, Call
from treadle.tools.contract import Tool
from treadle.tools.decorator import tool


def admission(turn: str, said: str) -> Change:
    return Change(admit=Admission(id=turn, input=Raw(encode_item(user_message(said)))))


def deeds() -> tuple[Tool, list[str]]:
    done: list[str] = []

    @tool
    async def act(what: str) -> str:
        """Acts."""
        done.append(what)
        return "ok"

    return act, done


@pytest.mark.parametrize("engine", ["linear", "lossless"])
async def test_a_turn_that_a_crash_left_behind_is_never_run_when_it_is_asked_for_again(
    tmp_path, engine
):
    async with open_thread(tmp_path, scripted(Answer(text="hello"))) as thread:
        await hear(thread, "hello")
    # As far as three processes got that were killed right after they had admitted their inputs,
    # or after one of them had ended the turn of another.
    ended = Change(end=TurnEnd(number=3, state="aborted"))
    admitted = [admission(name, f"do {name}") for name in "ABC"]
    async with await SqliteStore.open(tmp_path / "home") as store:
        await append(store, thread.id, *admitted[:2], ended, admitted[2])
    act, done = deeds()
    model = scripted(Answer(calls=(Call(name="act", arguments={"what": "A"}),)), Answer(text="did"))
    async with open_thread(
        tmp_path, model, thread=thread.id, tools=(act,), engine=engine
    ) as thread:
        for _ in range(2):
            events = await hear(thread, "do A", turn_id="A")
            assert last(events).status == "interrupted"
            assert not [event for event in events if isinstance(event, TurnStarted)]
        states = {turn.id: turn.state for turn in await thread.store.turns(thread.id)}
    assert (done, model.requests, states["A"]) == ([], [], "aborted")


async def test_a_stale_turn_in_an_old_home_is_never_run(tmp_path):
    async with open_thread(tmp_path, scripted(Answer(text="hello"))) as thread:
        await hear(thread, "hello")
    async with await SqliteStore.open(tmp_path / "home") as store:
        await append(store, thread.id, admission("A", "do A"), admission("B", "do B"))
    with closing(sqlite3.connect(tmp_path / "home" / "log.db")) as connection, connection:
        connection.execute("UPDATE turns SET state = 'admitted', ended = NULL WHERE turn = 'A'")
    model = scripted(Answer(text="did it"))
    async with open_thread(tmp_path, model, thread=thread.id) as thread:
        assert last(await hear(thread, "do A", turn_id="A")).status == "interrupted"
        assert last(await hear(thread, "do B", turn_id="B")).text == "did it"
        states = [turn.state for turn in await thread.store.turns(thread.id)]
    assert states == ["completed", "aborted", "completed"]


async def test_a_fork_never_runs_the_turn_that_its_parent_has_open(tmp_path):
    async with open_thread(tmp_path, scripted()) as thread:
        await thread.log.turns.admit("do A", turn_id="A")
        fork = await thread.fork()
    model = scripted(Answer(text="B is done"))
    async with open_thread(tmp_path, model, thread=fork) as forked:
        for _ in range(2):
            assert last(await hear(forked, "do A", turn_id="A")).status == "interrupted"
        assert last(await hear(forked, "do B", turn_id="B")).text == "B is done"
        assert last(await hear(forked, "do A", turn_id="A")).status == "interrupted"
    assert len(model.requests) == 1
    # The parent goes on with it.
    async with open_thread(
        tmp_path, scripted(Answer(text="A is done")), thread=thread.id
    ) as thread:
        assert last(await hear(thread, "do A", turn_id="A")).text == "A is done"
