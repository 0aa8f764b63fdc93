from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from msgspec import Raw

from treadle import Thread
from treadle.core.errors import ConfigError, NotFound
from treadle.hosts import LiveFeed, Worker, WorkerBounds
from treadle.hosts.failed_turns import find_waiting
from treadle.hosts.news import News, TurnEnded, TurnFailed, TurnHandedBack, TurnTaken, Yielded
from treadle.store import SqliteStore, Store
from treadle.store.contract import Change, TurnEnd
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call
from treadle.tools.decorator import tool

from .scripts import Place

T = TypeVar("T")
QUICK = (0.01, 0.03)


@pytest.fixture
async def place(tmp_path):
    model = ScriptedModel(
        [
            Answer(when="please", calls=(Call(name="act", arguments={}),), times=0),
            Answer(when="acted", text="It is done.", times=0),
            Answer(when="Outcome unknown", text="I cannot know.", times=0),
            Answer(text="fine", times=0),
        ]
    )
    async with await SqliteStore.open(tmp_path) as store:
        yield Place(tmp_path, store, model)
    await model.close()


def worker(place: Place, news: list[News], **bounds: Any) -> Worker:
    chosen = WorkerBounds(**{"sweep": QUICK, "grace": 0.2, **bounds})
    return Worker(place.store, place.open, bounds=chosen, report=news.append)


def of(kind: type[T], news: list[News]) -> list[T]:
    return [each for each in news if isinstance(each, kind)]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - news come to no event
            await asyncio.sleep(0.005)


async def test_messages_become_turns_one_after_the_other_in_each_thread(place):
    threads = [await place.thread("one", "two"), await place.thread("three")]
    await Thread.post(threads[0], "four", store=place.store, key="once")
    await Thread.post(threads[0], "four", store=place.store, key="once")
    news: list[News] = []
    await worker(place, news).run(once=True)
    turns = [await place.store.turns(thread) for thread in threads]
    # What waited together is one turn, as it is for whoever is there.
    assert [[turn.state for turn in each] for each in turns] == [["completed"], ["completed"]]
    assert [await place.store.inbox(thread) for thread in threads] == [[], []]
    assert {each.thread for each in of(TurnEnded, news)} == set(threads)
    assert await place.store.waiting(limit=9) == []


async def test_the_longest_waiting_goes_first_and_no_more_run_than_are_allowed(place):
    running, most = 0, 0

    @tool
    async def act() -> str:
        """Act."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return "acted"

    place.tools = (act,)
    threads = [await place.thread("please") for _ in range(6)]
    busy = await place.store.acquire(threads[3])
    news: list[News] = []
    await worker(place, news, turns=1).run(once=True)
    free = [thread for thread in threads if thread != threads[3]]
    assert [each.thread for each in of(TurnTaken, news)] == free
    assert most == 1
    for thread in free:
        await Thread.post(thread, "please", store=place.store)
    await worker(place, news, turns=2).run(once=True)
    await busy.release()
    assert most == 2


async def test_two_workers_share_what_waits_and_run_nothing_twice(place):
    threads = [await place.thread(f"task {number}") for number in range(12)]
    news: tuple[list[News], list[News]] = [], []
    async with await SqliteStore.open(place.path) as other:
        second = Place(place.path, other, place.model)
        await asyncio.gather(
            worker(place, news[0]).run(once=True), worker(second, news[1]).run(once=True)
        )
    ended = [each.thread for each in (*of(TurnEnded, news[0]), *of(TurnEnded, news[1]))]
    assert sorted(ended) == sorted(threads)
    assert len(place.model.requests) == len(threads)


async def test_one_profile_has_its_own_bound_and_the_others_go_on(place):
    threads = [await place.thread(f"task {number}") for number in range(5)]
    news: list[News] = []
    await worker(place, news, turns=4, per_profile=1).run(once=True)
    order = [type(each).__name__ for each in news]
    assert order == ["TurnTaken", "TurnEnded"] * len(threads)


async def test_a_drained_worker_leaves_turns_after_the_step_and_the_next_one_goes_on(place):
    acting, go_on = asyncio.Event(), asyncio.Event()

    @tool
    async def act() -> str:
        """Act."""
        acting.set()
        await go_on.wait()
        return "acted"

    place.tools = (act,)
    thread = await place.thread("please")
    news: list[News] = []
    first = worker(place, news, grace=30)
    working = asyncio.create_task(first.run())
    await acting.wait()
    first.drain()
    go_on.set()
    await working
    assert [type(each) for each in news] == [TurnTaken, TurnHandedBack]
    (turn,) = await place.store.turns(thread)
    assert turn.state in {"admitted", "running"}
    asked = len(place.model.requests)
    await worker(place, news).run(once=True)
    (turn,) = await place.store.turns(thread)
    assert turn.state == "completed"
    (output,) = await place.outputs(thread)
    assert "acted" in output
    assert len(place.model.requests) == asked + 1  # what the log had was not asked for again
    assert await place.store.outbox(thread=thread) == []


async def test_a_stopped_worker_breaks_the_step_off_and_every_call_has_one_result(place):
    acting = asyncio.Event()

    @tool
    async def act() -> str:
        """Act."""
        acting.set()
        await asyncio.Event().wait()
        return "never"

    place.tools = (act,)
    thread = await place.thread("please")
    news: list[News] = []
    first = worker(place, news, grace=0.05)
    working = asyncio.create_task(first.run())
    await acting.wait()
    first.drain()  # the step does not end by itself, so that the worker hands it back at last
    await working
    assert of(TurnHandedBack, news)
    assert (await place.store.turns(thread))[0].state in {"admitted", "running"}
    await worker(place, news).run(once=True)
    assert (await place.store.turns(thread))[0].state == "completed"
    assert len(await place.outputs(thread)) == 1


async def test_what_cannot_be_opened_is_tried_again_and_then_failed_with_its_reason(place):
    thread = await place.thread("please")

    @asynccontextmanager
    async def broken(_info):
        if not Path("/gone").exists():
            raise NotFound("directory", "/gone", "make it")
        yield cast(Thread, None)

    bounds = WorkerBounds(sweep=QUICK, attempts=2)
    news: list[News] = []
    failing = Worker(place.store, broken, bounds=bounds, report=news.append)
    working = asyncio.create_task(failing.run())
    await until(lambda: len(of(TurnFailed, news)) == 2)
    failing.stop()
    await working
    assert [(each.attempts, each.gave_up) for each in of(TurnFailed, news)] == [
        (1, False),
        (2, True),
    ]
    (turn,) = await place.store.turns(thread)
    assert turn.state == "failed"
    assert "/gone" in str(bytes(turn.outcome))
    notices = [entry for entry in await place.store.read(thread) if entry.kind == "notice"]
    assert "/gone" in notices[-1].control.text
    assert await place.store.outbox(thread=thread) == []
    # Nothing of it was lost, and the thread goes on as soon as it can be opened.
    await Thread.post(thread, "again", store=place.store)
    place.model.requests.clear()
    await worker(place, news).run(once=True)
    assert (await place.store.turns(thread))[-1].state == "completed"
    assert "please" in str(place.model.requests[-1].payload)


async def count_and_die(place: Place, thread: str) -> int:
    """Take the turn of a thread, ask the model, and get no further; return the attempt."""
    async with place.open(await place.store.info(thread)) as opened:
        waiting = await find_waiting(place.store, thread)
        assert waiting is not None
        attempt = await Worker(place.store, place.open)._count_taken(opened, waiting)
        await opened.log.requests.record(opened.request())
        return attempt


async def test_every_attempt_at_a_turn_counts_once(place):
    thread = await place.thread()
    async with place.open(await place.store.info(thread)) as opened:
        await opened.log.turns.admit("hello")
    assert [await count_and_die(place, thread) for _ in range(3)] == [1, 2, 3]


async def test_a_turn_that_takes_its_worker_down_again_and_again_is_given_up(place):
    thread = await place.thread()
    async with place.open(await place.store.info(thread)) as opened:
        await opened.log.turns.admit("hello")
        await opened.log.requests.record(opened.request())
    for _ in range(2):
        # As one does that counts an attempt, and dies.
        await count_and_die(place, thread)
    news: list[News] = []
    lasting = worker(place, news, attempts=3)
    working = asyncio.create_task(lasting.run())
    await until(lambda: of(TurnFailed, news))
    lasting.stop()
    await working
    (failed,) = of(TurnFailed, news)
    assert failed.gave_up
    assert (await place.store.turns(thread))[-1].state == "failed"
    assert of(TurnTaken, news) == []


async def test_a_thread_that_somebody_took_is_theirs(place):
    thread = await place.thread("hello")

    @asynccontextmanager
    async def too_late(info):
        lease = await place.store.acquire(info.id)
        try:
            async with place.open(info) as opened:
                yield opened
        finally:
            async with asyncio.timeout(5):
                await place.store.commit(lease, Change())
            await lease.release()

    news: list[News] = []
    late = Worker(place.store, too_late, bounds=WorkerBounds(sweep=QUICK), report=news.append)
    working = asyncio.create_task(late.run())
    await until(lambda: of(Yielded, news))
    late.stop()
    await working
    assert await place.store.outbox(thread=thread) == []
    assert await place.store.turns(thread) == []


async def test_agents_are_left_to_the_thread_that_started_them(place):
    from treadle.core.entries import SettingsChange, control_draft
    from treadle.core.wire import json_bytes
    from treadle.subagents.records import LINEAGE, Lineage

    child = await place.thread("hello")
    lease = await place.store.acquire(child)
    lineage = Lineage(thread=child, parent="thr_parent", nickname="Ada", depth=1)
    setting = SettingsChange({LINEAGE: Raw(json_bytes(lineage))})
    await place.store.commit(lease, Change(entries=(control_draft(setting, turn=0, step=0),)))
    await lease.release()
    other = await place.thread("hello")
    news: list[News] = []
    await worker(place, news, turns=1).run(once=True)
    assert [each.thread for each in of(TurnEnded, news)] == [other]
    assert [message.kind for message in await place.store.inbox(child)] == ["input"]


async def test_what_a_worker_does_is_heard_live(place):
    thread = await place.thread("hello")
    live = LiveFeed()
    with live.listen(thread) as listener, live.listen("another") as deaf:
        bounds = WorkerBounds(sweep=QUICK)
        await Worker(place.store, place.open, bounds=bounds, live=live).run(once=True)
        live.close()
        heard = []
        while (event := await listener.next()) is not None:
            heard.append(event)
        assert await deaf.next() is None
    assert b'"turn.started"' in heard[0]
    assert any(b'"fine"' in event for event in heard)
    assert b'"turn.completed"' in heard[-1]


async def test_a_turn_that_was_ended_by_hand_is_not_run(place):
    thread = await place.thread()
    async with place.open(await place.store.info(thread)) as opened:
        turn = await opened.log.turns.admit("hello")
        await opened.log.commit(Change(end=TurnEnd(number=turn.number, state="aborted")))
    news: list[News] = []
    await worker(place, news).run(once=True)
    assert news == []
    assert place.model.requests == []


async def test_a_store_that_finds_no_work_has_no_worker(place):
    class Blind:
        """A store without the power."""

    with pytest.raises(ConfigError, match="Blind"):
        Worker(cast(Store, Blind()), place.open)
