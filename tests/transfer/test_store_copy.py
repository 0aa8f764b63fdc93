"""Threads that move between stores stay what they are, byte for byte."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from treadle.context.request import Renderer
from treadle.context.view import load_view
from treadle.core.entries import Draft, RequestMark
from treadle.core.errors import NotFound, StoreCorrupt, StoreError, ThreadBusy
from treadle.core.wire import Json
from treadle.prompt.registry import Registry, installed_registry
from treadle.store import Change, Index, PostgresStore, SqliteStore, Store
from treadle.store.contract import InboxDraft, OutboxDraft
from treadle.store.index import MemoryIndex
from treadle.store.postgres import PostgresIndex
from treadle.testing import ScriptedModel
from treadle.testing.contracts.drafts import append, user_body, user_draft
from treadle.testing.script import Answer, Call
from treadle.thread.thread import Thread
from treadle.transfer.store_copy import copy_family


@pytest.fixture
def registry() -> Registry:
    return installed_registry()


async def requests_of(store: Store, thread: str, registry: Registry) -> list[bytes]:
    """The bytes of every request of a thread, rendered from its log."""
    found = []
    for entry in await store.read(thread):
        if entry.kind == "request" and isinstance(mark := entry.control, RequestMark):
            view = await load_view(store, thread, registry, upto=mark.upto)
            request = Renderer().render(view)
            assert request.digest == mark.digest
            found.append(request.body)
    return found


async def all_of(store: Store, thread: str) -> object:
    return (
        await store.info(thread),
        await store.read(thread),
        [msgspec.to_builtins(turn, enc_hook=bytes) for turn in await store.turns(thread)],
        await store.lineage(thread),
    )


async def converse(store: Store, place: Path) -> tuple[str, str]:
    """A thread with turns, large outputs, a rollback and a fork that went on."""
    model = ScriptedModel(
        [
            Answer(calls=(Call(name="exec_command", arguments={"cmd": "echo hello"}),)),
            Answer(text="It says hello."),
            Answer(text="No."),
            Answer(text="Elsewhere."),
        ]
    )
    async with Thread.open(model=model, store=store, cwd=place, title="ä title") as thread:
        async for _ in thread.run("say hello"):
            pass
        async for _ in thread.run("what of " + "x" * 70_000):
            pass
        await thread.rollback(1)
        fork, name = await thread.fork(), thread.id
    async with Thread.open(fork, model=model, store=store, cwd=place) as thread:
        async for _ in thread.run("and there?"):
            pass
    await model.close()
    await store.put_blob(name, b"\x00picture")
    await store.post(name, InboxDraft(key="k", kind="note", body=Json(b'"waits"')))
    await append(store, name, Change(outbox=(OutboxDraft(topic="t", key="k", body=Json(b"1")),)))
    return name, fork


async def test_a_thread_that_moves_to_a_database_and_back_renders_identical_requests(
    postgres_url, tmp_path, registry
):
    async with (
        await SqliteStore.open(tmp_path / "one") as first,
        await PostgresStore.open(postgres_url) as database,
        await SqliteStore.open(tmp_path / "two") as last,
    ):
        root, fork = await converse(first, tmp_path)
        before = {name: await all_of(first, name) for name in (root, fork)}
        bodies = {name: await requests_of(first, name, registry) for name in (root, fork)}
        assert [len(each) for each in bodies.values()] == [3, 4]
        index: Index = PostgresIndex(database, None)
        moved = await copy_family(first, database, index, fork, registry, keep=False)
        assert [(each.id, each.requests) for each in moved] == [(root, 3), (fork, 1)]
        assert await first.threads() == []
        assert [row.number for row in await index.rows(root)] == [1, 2, 3]
        await index.close()
        index = MemoryIndex(last)
        for store in (database, last):
            if store is last:
                await copy_family(database, last, index, root, registry, keep=True)
            for name in (root, fork):
                assert await all_of(store, name) == before[name]
                assert await requests_of(store, name, registry) == bodies[name]
            assert await store.find_damaged() == []
        # What waits is done once: it went with the thread that moved, not with the copy.
        assert [message.key for message in await database.inbox(root)] == ["k"]
        assert [row.topic for row in await database.outbox()] == ["t"]
        assert (await last.inbox(root), await last.outbox()) == ([], [])
        await index.close()
        await append(database, root, Change(entries=(user_draft("goes on"),)))


async def test_what_cannot_move_stays_whole_where_it_is(postgres_url, tmp_path, registry):
    async with (
        await SqliteStore.open(tmp_path) as source,
        await PostgresStore.open(postgres_url) as target,
    ):
        thread = (await source.create()).id
        await append(source, thread, Change(entries=(Draft(body=user_body("a" * 70_000)),)))
        index = PostgresIndex(target, None)

        async def move(keep: bool = False) -> None:
            await copy_family(source, target, index, thread, registry, keep=keep)

        lease = await source.acquire(thread)
        with pytest.raises(ThreadBusy):
            await move()
        await lease.release()
        await source.write_rows(
            lambda db: db.execute("UPDATE blobs SET data = ?", (user_body("b" * 70_000),))
        )
        with pytest.raises(StoreCorrupt, match="entry 1 is damaged"):
            await move()
        with pytest.raises(NotFound):
            await target.info(thread)
        await source.write_rows(
            lambda db: db.execute("UPDATE blobs SET data = ?", (user_body("a" * 70_000),))
        )
        await move(keep=True)  # over what the first try left
        assert await target.read(thread) == await source.read(thread)
        with pytest.raises(StoreError, match="in the other store already"):
            await move()
        assert len(await source.read(thread)) == 1
        await index.close()
