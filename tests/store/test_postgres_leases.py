"""Leases across processes: what ends them, and what they stop."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys

import pytest

from tests.fork_server import Process
from treadle.core.errors import LeaseLost, StoreReplaced, ThreadBusy
from treadle.store import Change, Lease, PostgresStore
from treadle.testing.contracts.drafts import append, user_body, user_draft
from treadle.testing.postgres import PostgresServer

from .postgres_wires import SharedWire, parted, through

HOLD = """
import asyncio, sys
from treadle.core.errors import LeaseLost
from treadle.store import Change, PostgresStore
from treadle.testing.contracts.drafts import user_draft

async def main(address, thread, seconds):
    async with await PostgresStore.open(address, lease_seconds=float(seconds)) as store:
        lease = await store.acquire(thread)
        number = 0
        while True:
            try:
                await store.commit(lease, Change(entries=(user_draft(f"{number}"),)))
            except LeaseLost:
                print("lost", flush=True)
                return
            number += 1
            print(number, flush=True)
            await asyncio.sleep(0.01)

asyncio.run(main(*sys.argv[1:]))
"""


class Holder:
    """A process that writes a thread again and again."""

    def __init__(self, *arguments: object, script: str = HOLD) -> None:
        self.process = Process([sys.executable, "-c", script, *map(str, arguments)])

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def line(self) -> str:
        return (await asyncio.to_thread(self.process.stdout.readline)).decode().strip()


async def acquire_soon(store: PostgresStore, thread: str) -> Lease:
    while True:
        try:
            return await store.acquire(thread)
        except ThreadBusy:
            await asyncio.sleep(0.02)


async def continue_after(store: PostgresStore, thread: str) -> tuple[Lease, int]:
    """Take a thread over, and show that what the former holder was told of is there."""
    lease = await acquire_soon(store, thread)
    before = [entry.body for entry in await store.read(thread)]
    assert before == [user_body(f"{n}") for n in range(len(before))]
    await store.commit(lease, Change(entries=(user_draft("next"),)))
    return lease, len(before)


async def test_a_thread_is_free_as_soon_as_its_holder_was_killed(postgres_url):
    async with await PostgresStore.open(postgres_url) as store:
        thread = (await store.create()).id
        # A lease of an hour: nobody waits for it to run out.
        with Holder(postgres_url, thread, 3600) as holder:
            told = int(await holder.line())
            with pytest.raises(ThreadBusy, match=f"process {holder.process.pid} on "):
                await store.acquire(thread)
            assert (await store.holders([thread]))[thread].pid == holder.process.pid
            holder.kill()
            _, found = await continue_after(store, thread)
            assert found >= told


ADMIT = """
import asyncio, os, sys
from msgspec import Raw
from treadle.store import Change, PostgresStore
from treadle.store.contract import THIS_TURN, Admission, InboxDraft, TurnEnd
from treadle.testing.contracts.drafts import user_draft

async def main(address, thread, first):
    async with await PostgresStore.open(address) as store:
        lease = await store.acquire(thread)
        number = int(first)
        while True:
            number += 1
            mail = InboxDraft(key=f"{os.getpid()} {number}", kind="note", body=Raw(b"1"))
            told = await store.post(thread, mail)
            drafts = tuple(user_draft(f"{number}", turn=THIS_TURN) for _ in range(3))
            admit = Admission(id=f"t{number}", input=Raw(b"%d" % number))
            light = bool(number % 2)
            await store.commit(
                lease, Change(admit=admit, entries=drafts, take=(told.number,), light=light)
            )
            await store.commit(lease, Change(end=TurnEnd(number=number, state="completed")))
            print(number, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_writer_that_is_killed_at_any_moment_leaves_whole_changes(postgres_url):
    chance = random.Random(7)
    async with await PostgresStore.open(postgres_url) as store:
        thread = (await store.create()).id
        found = told = 0
        for _ in range(5):
            with Holder(postgres_url, thread, found, script=ADMIT) as writer:
                for _ in range(chance.randint(1, 12)):
                    told = int(await writer.line())
                await asyncio.sleep(chance.random() / 50)
                writer.kill()
            lease = await acquire_soon(store, thread)
            turns, entries = await store.turns(thread), await store.read(thread)
            found = len(turns)
            assert found >= told
            assert [turn.id for turn in turns] == [f"t{n}" for n in range(1, found + 1)]
            expected = [(n, user_body(f"{n}")) for n in range(1, found + 1) for _ in range(3)]
            assert [(entry.turn, entry.body) for entry in entries] == expected
            assert {turn.state for turn in turns[:told]} <= {"completed", "aborted"}
            # What a turn took is gone; at most the message waits that no turn took any more.
            assert len(await store.inbox(thread)) <= 1
            await store.commit(
                lease, Change(take=tuple(mail.number for mail in await store.inbox(thread)))
            )
            await lease.release()


async def test_a_holder_that_was_stopped_is_replaced_and_commits_nothing_when_it_wakes_up(
    postgres_url,
):
    async with await PostgresStore.open(postgres_url) as store:
        thread = (await store.create()).id
        with Holder(postgres_url, thread, 0.5) as holder:
            await holder.line()
            with pytest.raises(ThreadBusy):
                await store.acquire(thread)
            os.kill(holder.process.pid, signal.SIGSTOP)
            lease, found = await continue_after(store, thread)
            os.kill(holder.process.pid, signal.SIGCONT)
            while await holder.line() != "lost":
                pass
        await store.commit(lease, Change(entries=(user_draft("last"),)))
        bodies = [entry.body for entry in await store.read(thread)]
        assert bodies[found:] == [user_body("next"), user_body("last")]


@pytest.mark.timeout(120)
async def test_a_thread_is_free_when_the_host_of_its_holder_vanished_and_stays_so_when_it_is_back():
    with Process([sys.executable, "-m", "tests.store.vanishing_host"]) as host:

        async def line() -> str:
            return (await asyncio.to_thread(host.stdout.readline)).decode().strip()

        def say(words: str) -> None:
            host.stdin.write(f"{words}\n".encode())
            host.stdin.flush()

        async with await PostgresStore.open(await line()) as store:
            thread = (await store.create()).id
            say(f"hold {thread}")
            assert await line() == "1"
            with pytest.raises(ThreadBusy):
                await store.acquire(thread)
            say("cut")
            lease, found = await continue_after(store, thread)
            say("mend")
            told = ["1"]
            while told[-1] != "lost":
                told.append(await line())
            assert int(told[-2]) <= found
            await store.commit(lease, Change(entries=(user_draft("last"),)))
            bodies = [entry.body for entry in await store.read(thread)]
            assert bodies[found:] == [user_body("next"), user_body("last")]
            await lease.release()
        host.stdin.close()
        host.wait()


@pytest.mark.parametrize("stopped", [False, True])
async def test_behind_a_pooler_a_lease_runs_out(postgres_url, stopped):
    address, database = parted(postgres_url)
    with SharedWire(int(address.rpartition(":")[2]), database) as wire:
        pooled = through(wire, postgres_url)
        async with await PostgresStore.open(pooled) as store:
            thread = (await store.create()).id
            with Holder(pooled, thread, 0.9) as holder:
                await holder.line()
                # It is renewed: after that time it still holds.
                for _ in range(12):
                    await asyncio.sleep(0.1)
                    with pytest.raises(ThreadBusy):
                        await store.acquire(thread)
                if stopped:
                    os.kill(holder.process.pid, signal.SIGSTOP)
                else:
                    holder.kill()
                lease, found = await continue_after(store, thread)
                if stopped:
                    os.kill(holder.process.pid, signal.SIGCONT)
                    while await holder.line() != "lost":
                        pass
            assert len(await store.read(thread)) == found + 1
            await lease.release()


async def test_stores_before_and_behind_a_pooler_respect_each_other(postgres_url):
    address, database = parted(postgres_url)
    with SharedWire(int(address.rpartition(":")[2]), database) as wire:
        async with (
            await PostgresStore.open(postgres_url) as direct,
            await PostgresStore.open(through(wire, postgres_url)) as pooled,
        ):
            thread = (await direct.create()).id
            for one, other in ((direct, pooled), (pooled, direct)):
                lease = await one.acquire(thread)
                with pytest.raises(ThreadBusy):
                    await other.acquire(thread)
                with pytest.raises(ThreadBusy):
                    await other.delete(thread)
                assert await other.waiting(limit=5) == []
                await lease.release()
            await append(pooled, thread, Change(entries=(user_draft("free"),)))


async def test_the_bell_wakes_who_waits_for_work(postgres_url):
    async with (
        await PostgresStore.open(postgres_url) as one,
        await PostgresStore.open(postgres_url) as other,
    ):
        waits = asyncio.create_task(one.wait_for_work(60))
        while not waits.done():
            await other.announce_work()
            await asyncio.sleep(0.02)
        await waits
        await one.wait_for_work(0.01)
        gone = asyncio.create_task(one.wait_for_work(60))
        await asyncio.sleep(0.02)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone


@pytest.fixture(scope="module")
def careless_server():
    """A server that writes what did not have to be durable to its disk only after ten seconds."""
    server = PostgresServer(
        settings=("fsync=off", "wal_writer_delay=10s", "wal_writer_flush_after=1GB")
    )
    yield server
    server.close()


async def test_a_server_that_crashes_keeps_what_it_said_and_leases_go_on(careless_server):
    address = careless_server.create("crash")
    async with await PostgresStore.open(address) as store:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        light = Change(entries=(user_draft("light"),), light=True)
        await store.commit(lease, light)
        # A durable change of another thread makes it durable, too.
        await append(store, (await store.create()).id, Change(entries=(user_draft("other"),)))
        await asyncio.to_thread(careless_server.restart, how="immediate")
        await store.commit(lease, Change(entries=(user_draft("durable"),)))
        expected = [user_body("light"), user_body("durable")]
        assert [entry.body for entry in await store.read(thread)] == expected
        async with await PostgresStore.open(address) as other:
            # The lock was lost with the server; the next renewal or lease takes it again.
            await (await store.acquire((await store.create()).id)).release()
            with pytest.raises(ThreadBusy):
                await other.acquire(thread)


async def test_what_was_light_may_be_lost_in_a_crash_and_is_then_told(careless_server):
    address = careless_server.create("lost")
    async with await PostgresStore.open(address) as store:
        thread = (await store.create()).id
        lease = await store.acquire(thread)
        await store.commit(lease, Change(entries=(user_draft("durable"),)))
        await store.commit(lease, Change(entries=(user_draft("light"),), light=True))
        await asyncio.to_thread(careless_server.restart, how="immediate")
        with pytest.raises(StoreReplaced, match="lost the last 1 changes"):
            await store.commit(lease, Change(entries=(user_draft("next"),)))
        with pytest.raises(LeaseLost):
            await store.commit(lease, Change(entries=(user_draft("next"),)))
        await lease.release()
        await append(store, thread, Change(entries=(user_draft("again"),)))
        expected = [user_body("durable"), user_body("again")]
        assert [entry.body for entry in await store.read(thread)] == expected
