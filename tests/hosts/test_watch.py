from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from treadle import Thread
from treadle.core.entries import Entry
from treadle.core.errors import ConfigError, NotFound
from treadle.harness.events import TextDelta, TurnCompleted
from treadle.hosts import LiveFeed, Watched, Worker, WorkerBounds, watch_thread
from treadle.hosts.live_serving import LiveServer, make_live_token
from treadle.hosts.watch import find_live_token
from treadle.models.transport import AsyncTransport
from treadle.store import SqliteStore
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer

from .scripts import Place

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
async def place(tmp_path):
    model = ScriptedModel([Answer(text="one two three four five six", pace=0.05, times=0)])
    async with await SqliteStore.open(tmp_path) as store:
        yield Place(tmp_path, store, model)
    await model.close()


async def follow(
    store: SqliteStore, thread: str, *, token: str = TOKEN, turns: int = 1
) -> list[Watched]:
    """What somebody with a store of their own sees until so many turns are over."""
    news: list[Watched] = []
    async with aclosing(watch_thread(store, thread, token=token)) as watching:
        async for each in watching:
            news.append(each)
            ended = [one for one in news if isinstance(one, Entry) and one.kind == "response"]
            if len(ended) == turns:
                return news
    raise AssertionError


@pytest.mark.parametrize("token", [TOKEN, "another-token-that-is-wrong", ""])
async def test_entries_come_from_the_log_and_live_events_from_whoever_has_the_turn(place, token):
    thread = await place.thread("count")
    feed = LiveFeed()
    server = LiveServer(feed, TOKEN)
    place.store.address = server.address
    serving = asyncio.create_task(server.serve())
    async with await SqliteStore.open(place.path) as elsewhere, asyncio.timeout(60):
        bounds = WorkerBounds(sweep=(0.01, 0.02))
        watching = asyncio.create_task(follow(elsewhere, thread, token=token))
        await Worker(place.store, place.open, bounds=bounds, live=feed).run(once=True)
        news = await watching
        log = await elsewhere.read(thread)
    server.stop()
    await serving
    entries = [each for each in news if isinstance(each, Entry)]
    assert entries == log[: len(entries)]
    live = [each for each in news if not isinstance(each, Entry)]
    if token == TOKEN:
        spoken = "".join(each.text for each in live if isinstance(each, TextDelta))
        # Whoever comes late hears the rest: all of it is in the log.
        assert spoken
        assert "one two three four five six".endswith(spoken)
    else:
        assert live == []


async def test_a_watcher_goes_on_with_the_next_worker(place):
    thread = await place.thread("count")
    async with await SqliteStore.open(place.path) as elsewhere, asyncio.timeout(60):
        watching = asyncio.create_task(follow(elsewhere, thread, turns=2))
        for _ in range(2):
            feed = LiveFeed()
            server = LiveServer(feed, TOKEN)
            place.store.address = server.address
            serving = asyncio.create_task(server.serve())
            bounds = WorkerBounds(sweep=(0.01, 0.02))
            await Worker(place.store, place.open, bounds=bounds, live=feed).run(once=True)
            server.stop()
            await serving
            await Thread.post(thread, "again", store=place.store)
        news = await watching
    live = [each for each in news if isinstance(each, TextDelta | TurnCompleted)]
    assert live
    sequence = [each.seq for each in news if isinstance(each, Entry)]
    assert sequence == list(range(1, len(sequence) + 1))


async def test_the_figures_of_a_worker_are_read_with_the_token(place):
    await place.thread("count")
    feed = LiveFeed()
    server = LiveServer(feed, TOKEN)
    serving = asyncio.create_task(server.serve())
    await Worker(place.store, place.open, live=feed).run(once=True)
    async with AsyncTransport() as transport:
        async with await transport.get(f"{server.address}/metrics", {}) as refused:
            assert refused.status == 401
        shown = {"authorization": f"Bearer {TOKEN}"}
        async with await transport.get(f"{server.address}/metrics", shown) as response:
            text = (await response.read(1 << 16)).decode()
    server.stop()
    await serving
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    told = dict(line.rsplit(" ", 1) for line in lines)
    assert told['treadle_turns_total{status="completed"}'] == "1"
    assert told["treadle_turns_running"] == told["treadle_shared_bytes_total"] == "0"
    assert told["treadle_requests_total"] == "1"
    assert not [name for name in told if "prefix_breaks" in name]  # the first request breaks none
    assert int(told['treadle_tokens_total{kind="output"}']) > 0


async def test_nothing_is_served_without_the_token():
    server = LiveServer(LiveFeed(), TOKEN)
    serving = asyncio.create_task(server.serve())
    async with AsyncTransport() as transport:
        for shown in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
            async with await transport.get(f"{server.address}/live/thr_1", shown) as response:
                assert response.status == 401
    server.stop()
    await serving


async def test_a_thread_that_is_not_there_cannot_be_watched(place):
    with pytest.raises(NotFound):
        await anext(watch_thread(place.store, "thr_none"))


def test_the_token_is_made_once_and_no_weak_one_is_taken(tmp_path):
    assert find_live_token(tmp_path, {}) == ""
    token = make_live_token(tmp_path, {})
    assert make_live_token(tmp_path, {}) == token == find_live_token(tmp_path, {})
    assert (tmp_path / "live.token").stat().st_mode & 0o077 == 0
    assert find_live_token(tmp_path, {"TREADLE_LIVE_TOKEN": TOKEN}) == TOKEN
    with pytest.raises(ConfigError, match="TREADLE_LIVE_TOKEN"):
        make_live_token(tmp_path, {"TREADLE_LIVE_TOKEN": "guess"})
