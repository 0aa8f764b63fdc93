from __future__ import annotations

import logging

import msgspec
import pytest
from inline_snapshot import snapshot

from tests.context.scenes import (
    OTHER_MODEL,
    Scene,
    answer,
    call,
    open_thread,
    output,
    scene,
    verdict,
)
from treadle.context.head import Choices
from treadle.context.ledger import Comparison, compare, watch
from treadle.core.entries import Reason
from treadle.core.errors import StaleEpoch
from treadle.core.specs import FunctionTool, parameters
from treadle.core.usage import TokenUsage
from treadle.store.contract import LedgerRow, Segment, SegmentKind
from treadle.store.sqlite import SqliteStore
from treadle.thread.thread import Thread


def segments(*digests: str) -> list[Segment]:
    head: tuple[SegmentKind, ...] = ("params", "tools", "instructions")
    return [
        Segment(at, head[at], 1, digest) if at < 3 else Segment(at, "item", 1, digest, at * 10)
        for at, digest in enumerate(digests)
    ]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("", "abc", Comparison(0)),
        ("abcd", "abcd", Comparison(4)),
        ("abcd", "abcde", Comparison(4)),
        ("abcd", "xyzu", Comparison(0, "params")),
        ("abcd", "ayzu", Comparison(1, "tools")),
        ("abcd", "abzu", Comparison(2, "instructions")),
        ("abcde", "abcdx", Comparison(4, "item 1 (entry 40)")),
        ("abcde", "abcd", Comparison(4, "item 1 (entry 40) is gone")),
        ("abcdefgh", "abcxyzuvw", Comparison(3, "item 0 (entry 30)")),
    ],
)
def test_two_requests_are_compared_up_to_the_first_difference(before, now, expected):
    assert compare(segments(*before), segments(*now)) == expected


async def test_a_request_that_extends_the_last_shares_all_of_it_but_the_brackets():
    async with scene() as found:
        first = await found.turn("u1")
        second = await found.turn("u2")
        assert (first.number, first.reason, first.shared_size) == (1, "start", 0)
        assert second == LedgerRow(
            thread=found.thread.id,
            number=2,
            seq=second.seq,
            turn=2,
            step=1,
            time=second.time,
            epoch=first.epoch,
            segments=first.segments + 2,
            size=second.size,
            digest=second.digest,
            shared_segments=first.segments,
            shared_size=first.size - 2,
        )


async def test_every_reason_for_a_break_is_named():
    async with scene() as found:
        await found.turn("u1")
        found.thread.log.setup.use_model(OTHER_MODEL)
        await found.turn("u2")
        found.thread.log.setup.choices = Choices(effort="high")
        await found.turn("u3")
        found.thread.log.setup.tools = (
            FunctionTool(name="look", description="Looks.", parameters=parameters({})),
        )
        await found.turn("u4")
        await found.thread.log.epochs.rebase(len(found.thread.view.rows))
        await found.turn("u5")
        node = await found.summary(1, 1, 9)
        await found.thread.log.epochs.rebase(
            len(found.thread.view.rows), reason=Reason.PUBLISH, before=[node]
        )
        await found.turn("u6")
        await found.thread.rollback()
        await found.turn("u7")
        assert [verdict(row) for row in found.ledger] == snapshot(
            [
                "epoch 1; 0 items shared",
                "epoch 9; 0 items shared; model at params",
                "epoch 14; 0 items shared; params at params",
                "epoch 19; 0 items shared; tools at tools",
                "epoch 24; 3 items shared; compaction at item 3 (entry 5)",
                "epoch 29; 3 items shared; publish at item 3 (entry 25)",
                "epoch 34; 4 items shared; rollback at item 4 (entry 30)",
            ]
        )


async def test_two_breaks_between_two_requests_are_both_named():
    async with scene() as found:
        await found.turn("u1")
        await found.turn("u2")
        await found.thread.rollback()
        found.thread.log.setup.choices = Choices(effort="low")
        row = await found.turn("u3")
        assert (row.reason, row.difference) == ("rollback+params", "params")


async def test_a_rollback_that_takes_back_what_was_never_sent_breaks_nothing():
    async with scene() as found:
        await found.turn("u1")
        await found.say("u2")
        await found.thread.rollback()
        row = await found.turn("u3")
        assert (row.reason, row.difference) == (None, None)
        assert row.epoch > found.ledger[0].epoch


async def broken(found: Scene) -> LedgerRow:
    """A request is sent while a call runs, and its output changes what was sent."""
    await found.say("u1")
    await found.step(call(1))
    await found.send()
    await found.thread.log.append(output(1))
    return await found.send()


@pytest.mark.moves_cache_prefix(reason="a call is answered after a request went without it")
async def test_a_break_that_no_entry_explains_is_loud(caplog):
    seen: list[LedgerRow] = []
    async with scene() as found:
        with caplog.at_level(logging.ERROR, "treadle.ledger"), watch(seen.append):
            row = await broken(found)
        assert row.unexplained
        assert (row.reason, row.difference) == (None, "item 5")
        assert seen == [row]
        (record,) = caplog.records
        assert record.getMessage().startswith(
            f"request 3 of thread {found.thread.id} broke its prefix at item 5 and no epoch entry"
        )
        assert (await found.thread.index.rows(found.thread.id))[-1] == row


@pytest.mark.moves_cache_prefix(reason="shows that nobody is told after the watch ended")
async def test_a_watcher_hears_nothing_after_its_watch():
    seen: list[LedgerRow] = []
    with watch(seen.append):
        pass
    async with scene() as found:
        await broken(found)
    assert seen == []


async def test_a_request_of_an_epoch_that_ended_cannot_be_sent():
    async with scene() as found:
        await found.turn("u1")
        stale = found.thread.request()
        await found.thread.log.epochs.rebase(0)
        with pytest.raises(StaleEpoch, match="render it again"):
            await found.thread.log.requests.record(stale)


async def test_what_the_provider_reports_stands_beside_the_request():
    async with scene() as found:
        await found.say("u1")
        await found.send()
        usage = TokenUsage(input_tokens=900, cached_input_tokens=640, total_tokens=910)
        await found.thread.log.requests.record_answer([answer()], usage=usage)
        (row,) = await found.thread.index.rows(found.thread.id)
        assert (row.input_tokens, row.cached_tokens) == (900, 640)


async def test_a_fork_keeps_a_ledger_of_its_own():
    async with scene() as found:
        await found.turn("u1")
        child = await found.thread.store.fork(found.thread.id, found.thread.view.upto)
        async with open_thread(found.thread.store, child.id) as thread:
            row = await Scene(thread).turn("u2")
            assert (row.number, row.reason, row.thread) == (1, "start", child.id)


async def test_the_ledger_goes_on_after_reopening(tmp_path):
    async def told(thread: Thread, text: str) -> LedgerRow:
        await thread.log.turns.admit(text)
        row = await thread.log.requests.record(thread.request())
        await thread.log.requests.record_answer([answer()])
        return row

    async with Thread.open(model="openai:gpt-5.5", home=tmp_path, cwd=tmp_path) as thread:
        first = await told(thread, "u1")
    async with Thread.open(thread.id, home=tmp_path, cwd=tmp_path) as again:
        second = await told(again, "u2")
        await again.rollback()
        third = await told(again, "u3")
        assert [first, second, third] == await again.index.rows(thread.id)
    assert (second.number, second.reason, second.epoch) == (2, None, first.epoch)
    assert second.shared_size == first.size - 2
    assert (third.reason, third.difference) == ("rollback", "item 4 (entry 8)")


async def test_a_lost_index_starts_a_new_count_and_loses_no_request(tmp_path):
    store = await SqliteStore.open(tmp_path)
    async with scene(store) as found:
        await found.turn("u1")
        name = found.thread.id
    async with scene(store, thread=name) as found:
        row = await found.turn("u2")
    marks = [e for e in await store.read(name) if e.kind == "request"]
    await store.close()
    assert (row.number, row.reason) == (1, "start")
    assert len(marks) == 2


async def test_rows_are_plain_values():
    async with scene() as found:
        row = await found.turn("u1")
        assert msgspec.json.decode(msgspec.json.encode(row), type=LedgerRow) == row
