"""What becomes of commits when the wire to the server breaks."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from treadle.core.errors import LeaseLost, OutcomeUnknown, StoreUnreachable, ThreadBusy
from treadle.core.wire import Json
from treadle.store import Change, PostgresStore
from treadle.store.contract import ChangeResult, InboxDraft, OutboxDraft, TurnEnd
from treadle.testing.contracts.drafts import append, turn_change, user_body, user_draft

from .postgres_wires import CutWire

ROW = OutboxDraft(topic="t", key="k", body=Json(b"1"))
CHANGES = {
    "entries": Change(entries=(user_draft("new"), user_draft("newer"))),
    "light": Change(entries=(user_draft("new"),), light=True),
    "turn": turn_change("t9", "new"),
    "nothing else": Change(title="renamed", outbox=(ROW,)),
    "end": Change(end=TurnEnd(number=1, state="completed", outcome=Json(b'"x"'))),
}


@pytest.fixture
def wire(postgres_url):
    with CutWire(int(postgres_url.rpartition(":")[2].partition("/")[0])) as wire:
        yield wire


@pytest.fixture
async def store(postgres_url, wire):
    base, _, database = postgres_url.rpartition("/")
    address = f"{base.rpartition(':')[0]}:{wire.port}/{database}"
    # Renewals would speak on the wire at times of their own.
    async with await PostgresStore.open(address, lease_seconds=600) as store:
        yield store


async def bodies(store: PostgresStore, thread: str) -> list[bytes]:
    return [entry.body for entry in await store.read(thread)]


@pytest.mark.parametrize("cut", ["before", "during", "after"])
@pytest.mark.parametrize("kind", ["entries", "light", "turn", "nothing else"])
async def test_a_commit_whose_answer_is_lost_is_there_once(store, wire, kind, cut):
    thread = (await store.create()).id
    lease = await store.acquire(thread)
    await store.commit(lease, Change(entries=(user_draft("old"),)))
    wire.cut = cut
    committed = await store.commit(lease, CHANGES[kind])
    assert wire.was_cut.is_set()
    entries = await store.read(thread)
    assert tuple(entries[1:]) == committed.entries
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    if kind == "turn":
        assert committed.turn == await store.turn(thread, 1)
        assert not committed.repeated
    if kind == "nothing else":
        assert (await store.info(thread)).title == "renamed"
        assert len(await store.outbox(thread=thread)) == 1
    await store.commit(lease, Change(entries=(user_draft("last"),)))
    assert (await bodies(store, thread))[-1] == user_body("last")


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_what_needs_no_lease_is_done_once_too(store, wire, cut):
    wire.cut = cut
    thread = (await store.create(title="one")).id
    assert [info.id for info in await store.threads()] == [thread]
    lease = await store.acquire(thread)
    wire.cut = cut
    posted = await store.post(thread, InboxDraft(key="k", kind="input", body=Json(b"1")))
    assert await store.inbox(thread) == [posted]
    await store.commit(lease, Change(outbox=(ROW,)))
    (kept,) = await store.outbox()
    wire.cut = cut
    await store.retry(kept.number, "no answer")
    assert [each.attempts for each in await store.outbox()] == [1]
    wire.cut = cut
    digest = await store.put_blob(thread, b"bytes")
    wire.cut = cut
    assert await store.blob(digest) == b"bytes"
    await store.commit(lease, Change(entries=(user_draft("a"),)))
    wire.cut = cut
    fork = (await store.fork(thread, 1)).id
    assert {info.id for info in await store.threads()} == {thread, fork}
    wire.cut = cut
    await store.delete(fork)
    assert [info.id for info in await store.threads()] == [thread]


async def take_over(store: PostgresStore, thread: str, change: Change) -> list[ChangeResult]:
    """Write once the server has noticed that whoever held the thread hung up."""
    while True:
        with suppress(ThreadBusy):
            return await append(store, thread, change)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", ["entries", "turn", "end"])
async def test_a_commit_is_found_also_after_somebody_took_the_thread_over(
    store, wire, postgres_url, kind
):
    thread = (await store.create()).id
    await append(store, thread, turn_change("t1", "old"))
    lease = await store.acquire(thread)
    wire.cut = "after"
    wire.refuses.set()
    work = asyncio.create_task(store.commit(lease, CHANGES[kind]))
    await asyncio.to_thread(wire.was_cut.wait)
    wire.drop()
    async with await PostgresStore.open(postgres_url) as other:
        await take_over(other, thread, Change(entries=(user_draft("theirs"),)))
        wire.refuses.clear()
        committed = await work
        found = await other.read(thread)
        assert committed.entries == tuple(found[1:-1])
        if kind == "end":
            assert (await other.turn(thread, 1)).state == "completed"
    with pytest.raises(LeaseLost):
        await store.commit(lease, Change(entries=(user_draft("late"),)))


async def test_a_commit_that_did_not_land_before_the_thread_was_taken_over_never_does(
    store, wire, postgres_url
):
    thread = (await store.create()).id
    lease = await store.acquire(thread)
    wire.cut = "before"
    wire.refuses.set()
    work = asyncio.create_task(store.commit(lease, CHANGES["entries"]))
    await asyncio.to_thread(wire.was_cut.wait)
    wire.drop()
    async with await PostgresStore.open(postgres_url) as other:
        await take_over(other, thread, Change(entries=(user_draft("theirs"),)))
        wire.refuses.clear()
        with pytest.raises(LeaseLost):
            await work
        assert await bodies(other, thread) == [user_body("theirs")]


async def test_an_outcome_that_nobody_can_be_asked_for_is_told_as_unknown(wire, postgres_url):
    base, _, database = postgres_url.rpartition("/")
    address = f"{base.rpartition(':')[0]}:{wire.port}/{database}"
    async with await PostgresStore.open(address, lease_seconds=600, patience_seconds=0.2) as store:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        wire.cut = "after"
        wire.refuses.set()
        with pytest.raises(OutcomeUnknown, match="whole, or not at all"):
            await store.commit(lease, CHANGES["entries"])
        with pytest.raises(StoreUnreachable, match="cannot be reached"):
            await store.read(thread)
        wire.refuses.clear()
        with pytest.raises(LeaseLost):
            await store.commit(lease, CHANGES["entries"])
        assert len(await store.read(thread)) == 2


async def test_a_new_turn_that_was_admitted_is_not_admitted_again_by_its_own_echo(store, wire):
    thread = (await store.create()).id
    lease = await store.acquire(thread)
    wire.cut = "after"
    first = await store.commit(lease, turn_change("t1", "a"))
    again = await store.commit(lease, turn_change("t1", "a"))
    assert (first.repeated, again.repeated) == (False, True)
    assert first.turn == again.turn
    assert len(await store.read(thread)) == 1
