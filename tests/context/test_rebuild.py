from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.context.scenes import OTHER_MODEL, Scene, answer, call, open_thread, output, scene
from treadle.context.rebuild import Rebuilt, rebuild_ledger
from treadle.context.request import Renderer
from treadle.context.view import load_view
from treadle.core.entries import RequestMark, control_draft
from treadle.core.usage import TokenUsage
from treadle.store.contract import Change, LedgerRow, Segment
from treadle.store.index import MemoryIndex
from treadle.thread.thread import Thread


async def rebuilt(thread: Thread) -> tuple[Rebuilt, list[LedgerRow]]:
    """What a rebuild makes of the log alone."""
    index = MemoryIndex(thread.store)
    result = await rebuild_ledger(thread.store, index, thread.id, thread.registry)
    rows = await index.rows(thread.id)
    await index.close()
    return result, rows


async def eventful(found: Scene) -> None:
    await found.turn("u1")
    found.change(cwd="/elsewhere")
    await found.say("u2")
    await found.call_tool(2)
    await found.send()
    usage = TokenUsage(input_tokens=700, cached_input_tokens=512, total_tokens=720)
    await found.thread.log.requests.record_answer([answer()], usage=usage)
    await found.thread.log.epochs.rebase(
        len(found.thread.view.rows), before=[await found.summary(1, 1, 9)]
    )
    await found.turn("u3")
    await found.thread.rollback(2)
    found.thread.log.setup.use_model(OTHER_MODEL)
    await found.turn("u4")
    await found.thread.log.configure(goal="Ship it")
    await found.thread.log.epochs.rebase(0)
    await found.turn("u5")


async def test_the_log_alone_gives_the_same_ledger():
    async with scene() as found:
        await eventful(found)
        kept = await found.thread.index.rows(found.thread.id)
        assert len(kept) == 6
        assert await rebuilt(found.thread) == (Rebuilt(6), kept)


async def test_a_fork_rebuilds_its_own_requests_only():
    async with scene() as found:
        await eventful(found)
        child = await found.thread.store.fork(found.thread.id, found.thread.view.upto)
        async with open_thread(found.thread.store, child.id, model=OTHER_MODEL) as thread:
            forked = Scene(thread, found.context)
            await forked.turn("u6")
            await forked.turn("u7")
            kept = await thread.index.rows(child.id)
            assert [row.number for row in kept] == [1, 2]
            assert await rebuilt(thread) == (Rebuilt(2), kept)


async def test_a_request_is_made_again_from_the_log_it_was_made_from():
    async with scene() as found:
        await found.say("u1")
        request = found.thread.request()
        await found.thread.log.append(answer("a thought in between"))
        await found.thread.log.requests.record(request)
        await found.thread.log.requests.record_answer([answer()])
        await found.turn("u2")
        kept = await found.thread.index.rows(found.thread.id)
        assert await rebuilt(found.thread) == (Rebuilt(2), kept)


async def test_a_request_that_renders_otherwise_is_reported():
    async with scene() as found:
        thread = found.thread
        await found.turn("u1")
        upto, epoch = thread.view.upto, thread.view.epoch
        forged = RequestMark(upto=upto, epoch=epoch, digest="of another time", size=1, items=1)
        draft = control_draft(forged, turn=thread.log.turn, step=9)
        committed = await thread.store.commit(thread.log.lease, Change(entries=(draft,)))
        result, rows = await rebuilt(thread)
        assert result == Rebuilt(2, (committed.entries[0].seq,))
        assert len(rows) == 2


@pytest.mark.moves_cache_prefix(reason="a call is answered after a request went without it")
async def test_an_unexplained_break_stays_unexplained():
    async with scene() as found:
        await found.say("u1")
        await found.step(call(1))
        await found.send()
        await found.thread.log.append(output(1))
        await found.send()
        kept = await found.thread.index.rows(found.thread.id)
        assert await rebuilt(found.thread) == (Rebuilt(3), kept)
        assert [row.unexplained for row in kept] == [False, False, True]


async def test_requests_that_a_crash_kept_out_are_recorded_before_the_next_one():
    async with scene() as found:
        await eventful(found)
        thread = found.thread
        known = (await thread.index.rows(thread.id))[:2]
        new = [(await segments_at(thread, row))[row.shared_segments :] for row in known]
    index = MemoryIndex(thread.store)
    for row, segments in zip(known, new, strict=True):
        await index.record(row, segments)
    options: dict[str, Any] = {
        "store": thread.store,
        "index": index,
        "model": OTHER_MODEL,
        "cwd": "/repo",
    }
    async with Thread.open(thread.id, **options) as again:
        await Scene(again, found.context).turn("u6")
        assert await rebuilt(again) == (Rebuilt(7), await index.rows(thread.id))
    await index.close()


async def segments_at(thread: Thread, row: LedgerRow) -> Sequence[Segment]:
    view = await load_view(thread.store, thread.id, thread.registry, upto=row.seq)
    return Renderer().render(view).segments


async def test_rebuilding_in_place_replaces_what_was_there():
    async with scene() as found:
        await eventful(found)
        thread = found.thread
        kept = await thread.index.rows(thread.id)
        await rebuild_ledger(thread.store, thread.index, thread.id, thread.registry)
        assert await thread.index.rows(thread.id) == kept
