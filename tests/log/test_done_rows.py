"""What is done leaves the outbox: with the next change, by itself, and when it is asked to."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from tests.context.scenes import scene
from treadle.core.errors import NotFound
from treadle.log.done_rows import DoneRows
from treadle.log.thread_log import ThreadLog
from treadle.store.contract import Change, OutboxDraft

ROW = ("deliver", "a")


async def leave(log: ThreadLog) -> None:
    await log.queue(OutboxDraft(topic=ROW[0], key=ROW[1], body=Raw(b"1"), state="ready"))


async def test_what_is_done_leaves_with_the_next_change():
    async with scene() as found:
        log = found.thread.log
        await leave(log)
        log.done.add(ROW)
        assert len(await log.store.outbox()) == 1
        await log.note("something else")
        assert await log.store.outbox() == []
        assert [entry.kind for entry in await log.store.read(log.id)] == ["notice"]


async def test_what_is_done_leaves_by_itself_where_nothing_else_changes():
    async with scene() as found:
        log = found.thread.log
        await leave(log)
        log.done = DoneRows(log, 0.001)
        log.done.add(ROW)
        async with asyncio.timeout(10.0):
            while await log.store.outbox():  # noqa: ASYNC110 - nobody says when
                await asyncio.sleep(0.001)
        await log.done.close()


@pytest.mark.parametrize("way", ["settle", "close"])
async def test_what_is_done_leaves_when_it_is_asked_to(way: str):
    async with scene() as found:
        log = found.thread.log
        await leave(log)
        log.done.add(ROW)
        await getattr(log.done, way)()
        assert await log.store.outbox() == []


async def test_what_a_change_that_fails_would_have_taken_along_leaves_later():
    async with scene() as found:
        log = found.thread.log
        await leave(log)
        log.done.add(ROW)
        with pytest.raises(NotFound):
            await log.commit(Change(take=(999,)))
        assert len(await log.store.outbox()) == 1
        await log.done.settle()
        assert await log.store.outbox() == []


async def test_whoever_lost_the_thread_closes_without_an_error():
    async with scene() as found:
        log = found.thread.log
        await leave(log)
        log.done.add(ROW)
        await log.lease.release()
        await log.done.close()
        assert len(await log.store.outbox()) == 1
