from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.context.reference import assert_paired, shown_items
from tests.context.scenes import Scene, answer, call, open_thread, output, scene
from tests.strategies import context_changes, items, origins, rows, texts
from treadle.context.compose import item_draft
from treadle.context.request import RequestEncoder
from treadle.context.row import Row
from treadle.context.rules import closed_length, legal_cuts, nearest_legal_cut, normalise
from treadle.context.view import load_view
from treadle.core.entries import Draft, Entry, Head, Origin
from treadle.core.items import Item, encode_item
from treadle.store.contract import Change, Store
from treadle.store.memory import MemoryStore
from treadle.store.sqlite import SqliteStore

HEADS = st.sampled_from(
    [Head(model="m"), Head(provider="acme", model="m"), Head(model="m", images=False)]
)


@given(rows)
def test_normalising_twice_equals_once(log):
    once = normalise(log)
    assert normalise(once) == once


@given(rows, HEADS)
def test_in_a_request_every_call_has_exactly_one_output(log, head):
    request = RequestEncoder(head).encode(log, epoch=1, upto=9)
    sent = msgspec.json.decode(request.body)["input"]
    assert len(sent) == request.items
    assert_paired(sent)


@given(rows)
def test_normalising_keeps_what_needs_no_repair(log):
    kept = [row for row in normalise(log) if row in log]
    assert kept == [row for row in log if row in kept]
    others = [row for row in log if row.shape.type in ("message", "reasoning", "compaction")]
    assert [row for row in kept if row in others] == others


@given(rows, HEADS)
def test_encoding_step_by_step_equals_encoding_at_once(log, head):
    encoder = RequestEncoder(head)
    for length in range(len(log) + 1):
        at_once = RequestEncoder(head).encode(log[:length], epoch=1, upto=9)
        assert encoder.encode(log[:length], epoch=1, upto=9) == at_once


@given(rows, rows, HEADS)
def test_more_rows_extend_the_bytes_of_a_list_that_is_closed(log, more, head):
    closed = log[: closed_length(log)]
    before = RequestEncoder(head).encode(closed, epoch=1, upto=9)
    # Only what is sent can be paired; where all is sent, closed means closed.
    if before.items != len(normalise(closed)):
        return
    after = RequestEncoder(head).encode([*closed, *more], epoch=1, upto=9)
    assert after.body.startswith(before.body[:-2])
    assert after.segments[: len(before.segments)] == before.segments


@given(rows)
def test_a_legal_cut_parts_no_pair(log):
    for cut in legal_cuts(log):
        whole = normalise(log)
        halves = [*normalise(log[:cut]), *normalise(log[cut:])]
        assert halves == whole


@given(rows, st.integers(-2, 20))
def test_the_nearest_legal_cut_is_legal_and_not_too_far(log, wish):
    cut = nearest_legal_cut(log, wish)
    assert cut in legal_cuts(log)
    assert not [other for other in legal_cuts(log) if cut < other <= wish]


async def stored(store: Store, drafts: Sequence[Draft]) -> list[Entry]:
    info = await store.create()
    lease = await store.acquire(info.id)
    await store.commit(lease, Change(entries=tuple(drafts)))
    await lease.release()
    return await store.read(info.id)


def assert_kept(drafts: Sequence[Draft], entries: Sequence[Entry]) -> None:
    """Bytes come back as they were, and nothing is lost when an item is read and written."""
    assert [entry.body for entry in entries] == [draft.body for draft in drafts]
    for entry in entries:
        again = encode_item(entry.item)
        assert msgspec.json.decode(again) == msgspec.json.decode(entry.body)


@given(st.lists(items, max_size=8), origins)
def test_items_come_back_from_the_log_as_they_were(made, origin):
    drafts = [item_draft(item, origin=origin) for item in made]
    assert_kept(drafts, asyncio.run(stored(MemoryStore(), drafts)))


def test_items_come_back_from_the_disk_as_they_were(tmp_path):
    async def kept(drafts: Sequence[Draft]) -> list[Entry]:
        async with await SqliteStore.open(tmp_path) as store:
            return await stored(store, drafts)

    @given(st.lists(items, max_size=8), origins)
    def check(made: list[Item], origin: Origin | None) -> None:
        drafts = [item_draft(item, origin=origin) for item in made]
        assert_kept(drafts, asyncio.run(kept(drafts)))

    check()


turns = st.lists(
    st.tuples(texts.filter(str.strip), st.integers(0, 2), context_changes), min_size=1, max_size=4
)
"""What is said, how many tools that takes, and what is different then."""


async def played(found: Scene, script: Sequence[tuple[str, int, dict[str, Any]]]) -> None:
    for said, calls, change in script:
        found.change(**change)
        await found.say(said)
        for n in range(calls):
            await found.step(call(n))
            await found.thread.log.append(output(n))
        await found.step(answer())
        await found.thread.log.turns.finish()


@given(turns, turns, turns)
def test_after_a_rollback_nothing_is_left_of_the_turns(kept, lost, next_turns):
    async def main() -> None:
        async with scene() as one, scene() as other:
            await played(one, kept)
            await played(other, kept)
            context = one.context
            await played(one, lost)
            await one.thread.rollback(len(lost))
            one.context = context
            for _ in range(2):
                assert shown_items(one.thread.view) == shown_items(other.thread.view)
                assert one.thread.view.baselines == other.thread.view.baselines
                assert one.thread.view.head == other.thread.view.head
                await played(one, next_turns)
                await played(other, next_turns)

    asyncio.run(main())


@given(turns, turns, st.booleans())
def test_a_rollback_past_a_new_base_leaves_nothing_of_it_either(kept, lost, summarised):
    async def main() -> None:
        async with scene() as one, scene() as other:
            await played(one, kept)
            await played(other, kept)
            await played(one, lost)
            node = await one.summary(1, 1, 9)
            await one.thread.log.epochs.rebase(
                len(one.thread.view.rows), before=[node] if summarised else ()
            )
            await one.thread.rollback(len(lost))
            assert shown_items(one.thread.view) == shown_items(other.thread.view)
            assert one.thread.view.baselines == other.thread.view.baselines

    asyncio.run(main())


@given(turns, st.floats(0, 1))
def test_a_fork_shows_what_its_parent_showed_at_the_cut(script, where):
    async def main() -> None:
        async with scene() as found:
            await played(found, script)
            thread = found.thread
            cut = round(where * thread.view.upto)
            child = await thread.store.fork(thread.id, cut)
            async with open_thread(thread.store, child.id) as forked:
                then = await load_view(thread.store, thread.id, thread.registry, upto=cut)
                then.thread = child.id
                assert forked.view == then

    asyncio.run(main())


@given(turns, st.integers(0, 20), st.booleans())
def test_a_new_base_keeps_every_live_row_once_and_in_order(script, at, summarised):
    async def main() -> None:
        async with scene() as found:
            await played(found, script)
            thread = found.thread
            cut = nearest_legal_cut(thread.view.rows, at)
            before = list(thread.view.rows)
            opening = sum(1 for _ in _first_context(before))
            node = await found.summary(1, 1, 9)
            await thread.log.epochs.rebase(cut, before=[node] if summarised else ())
            live = [row for row in thread.view.rows if row.seq is not None]
            assert live == [*before[:opening], *before[max(cut, opening) :]]
            await thread.log.epochs.rebase(len(thread.view.rows))
            settled = len(thread.view.rows)
            await found.say("go on")
            (said,) = thread.view.rows[settled:]
            assert (said.contextual, said.fragments) == (False, ())

    asyncio.run(main())


def _first_context(listed: list[Row]) -> list[Row]:
    return listed[: next(at for at, row in enumerate(listed) if not row.contextual)]
