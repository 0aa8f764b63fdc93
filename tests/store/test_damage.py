from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.scenes import hear, last, open_thread, scripted
from treadle.cli.probes import examine
from treadle.core.entries import Origin
from treadle.core.errors import StoreClosed, StoreCorrupt, StoreReplaced
from treadle.store import Change, SqliteStore
from treadle.store.contract import InboxDraft, OutboxDraft
from treadle.store.index import SCHEMA, SqliteIndex, create_tables, schema_checksum
from treadle.store.shared_store import open_shared
from treadle.testing.contracts.drafts import append, turn_change, user_body, user_draft
from treadle.testing.script import Answer

ORIGIN = Origin("openai", "responses", "m", "a", "treadle")


def edit(home: Path, *statement: Any) -> None:
    with closing(sqlite3.connect(home / "log.db")) as connection, connection:
        connection.execute(*statement)


async def make_log(home: Path, *texts: str) -> str:
    async with await SqliteStore.open(home) as store:
        thread = (await store.create()).id
        await append(store, thread, turn_change("t1", *texts))
    return thread


async def log_check(home: Path) -> Any:
    def examined() -> Any:
        return next(check for check in examine(home, {}, lambda _: None) if check.name == "log")

    return await asyncio.to_thread(examined)


@pytest.mark.parametrize("length", [20, 70_000])
async def test_a_flipped_bit_in_a_text_is_found_when_it_is_read_and_by_the_doctor(tmp_path, length):
    text = "x" * length
    thread = await make_log(tmp_path, "before", text, "after")
    assert (await log_check(tmp_path)).status == "ok"
    table, column = ("blobs", "data") if length > 65_536 else ("entries", "body")
    flipped = user_body(text).replace(b"xxx", b"xyx", 1)
    edit(
        tmp_path, f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (flipped, user_body(text))
    )
    async with await SqliteStore.open(tmp_path) as store:
        before, damaged, after = await store.read(thread)
        assert (before.body, after.body) == (user_body("before"), user_body("after"))
        with pytest.raises(StoreCorrupt, match=f"entry 2 of thread '{thread}' .* checksum"):
            _ = damaged.item
        assert f"entry 2 of thread {thread}" in await store.find_damaged()
    check = await log_check(tmp_path)
    assert check.status == "fail"
    assert f"entry 2 of thread {thread}" in check.detail


@pytest.mark.parametrize(
    "change",
    [
        "turn = 2",
        "step = 1",
        "time = time + 1",
        "tokens = 5",
        "flags = 2",
        "item = 'msg_2'",
        "fragments = '[]'",
        "provenance = '{}'",
        "events = '[]'",
        "source_id = 'x'",
        "origin = NULL",
        "kind = 'itel'",
        "id = id + 7",
        "checksum = checksum + 1",
    ],
)
async def test_the_checksum_covers_all_that_an_entry_says(tmp_path, change):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        draft = user_draft("hello")
        await append(store, thread, Change(entries=(type(draft)(body=draft.body, origin=ORIGIN),)))
    edit(tmp_path, f"UPDATE entries SET {change}")
    async with await SqliteStore.open(tmp_path) as store:
        assert len(await store.find_damaged()) == 1
        (entry,) = await store.read(thread)
        with pytest.raises(StoreCorrupt):
            _ = entry.item


async def test_a_thread_with_a_damaged_entry_names_it_and_goes_on_from_before_it(tmp_path):
    async with open_thread(
        tmp_path, scripted(Answer(text="one"), Answer(text="number two"))
    ) as thread:
        await hear(thread, "first")
        kept = thread.view.upto
        await hear(thread, "second")
    changed = "CAST(replace(CAST(body AS TEXT), 'number two', 'number twp') AS BLOB)"
    edit(
        tmp_path / "home",
        f"UPDATE entries SET body = {changed} WHERE CAST(body AS TEXT) LIKE '%number two%'",
    )
    with pytest.raises(StoreCorrupt, match="checksum does not fit; go on from an earlier step"):
        async with open_thread(tmp_path, scripted(), thread=thread.id):
            pass
    async with await SqliteStore.open(tmp_path / "home") as store:
        fork = (await store.fork(thread.id, kept)).id
    async with open_thread(tmp_path, scripted(Answer(text="three")), thread=fork) as forked:
        assert last(await hear(forked, "go on")).text == "three"


async def test_an_old_log_that_can_only_be_read_is_read_as_before(tmp_path):
    thread = await make_log(tmp_path, "a", "b")
    edit(tmp_path, "DROP INDEX turns_open")
    edit(tmp_path, "ALTER TABLE entries DROP COLUMN checksum")
    edit(tmp_path, "PRAGMA user_version = 2")
    shutil.copytree(tmp_path, tmp_path / "read-only")
    # As where nobody may write: there is no writer that could bring it up to date.
    store = SqliteStore(tmp_path / "read-only", StoreCorrupt("nobody writes"), lambda: 0.0)
    assert [entry.body for entry in await store.read(thread)] == [user_body("a"), user_body("b")]
    await store.close()
    async with await SqliteStore.open(tmp_path) as migrated:
        assert [entry.body for entry in await migrated.read(thread)] == [
            user_body("a"),
            user_body("b"),
        ]
        assert await migrated.find_damaged() == []
    edit(tmp_path, "UPDATE entries SET tokens = 9 WHERE id & 1")
    async with await SqliteStore.open(tmp_path) as store:
        assert await store.find_damaged() == [f"entry 1 of thread {thread}"]


NULLS = {
    "entries": ("kind", "turn", "step", "time", "tokens", "flags"),
    "turns": ("turn", "first", "state", "admitted", "input"),
    "threads": ("cwd", "title", "created", "updated", "last", "turns"),
    "inbox": ("key", "kind", "time", "body"),
    "outbox": ("topic", "key", "state", "attempts", "created", "updated", "body"),
}


@pytest.mark.parametrize(
    ("table", "column"), [(table, name) for table, names in NULLS.items() for name in names]
)
async def test_null_where_a_value_must_be_is_a_clear_error(tmp_path, table, column):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        row = OutboxDraft(topic="x", key="k", body=b"{}")  # type: ignore[arg-type]
        change = turn_change("t1", "a")
        await append(store, thread, type(change)(admit=change.admit, entries=change.entries))
        await store.post(thread, InboxDraft(key="k", kind="input", body=b"{}"))  # type: ignore[arg-type]
        await append(store, thread, Change(outbox=(row,)))
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '        ') WHERE name = ?",
            (table,),
        )
        connection.commit()
    checked = ", checksum = NULL" if table == "entries" else ""
    edit(tmp_path, f"UPDATE {table} SET {column} = NULL{checked}")
    async with await SqliteStore.open(tmp_path) as store:
        reads = {
            "entries": store.read(thread),
            "turns": store.turns(thread),
            "threads": store.threads(),
            "inbox": store.inbox(thread),
            "outbox": store.outbox(thread=thread),
        }
        read = reads.pop(table)
        for other in reads.values():
            other.close()
        with pytest.raises(StoreCorrupt, match="null where a value must be"):
            await read


def delete_log(home: Path) -> None:
    (home / "log.db").unlink()


def delete_wal(home: Path) -> None:
    (home / "log.db-wal").unlink()


def replace_log(home: Path) -> None:
    shutil.copy(home / "log.db", home / "copy")
    (home / "copy").replace(home / "log.db")


def delete_home(home: Path) -> None:
    home.rename(home.with_name("elsewhere"))


@pytest.mark.parametrize("how", [delete_log, delete_wal, replace_log, delete_home])
async def test_nothing_is_acknowledged_into_a_log_that_is_gone(tmp_path, how):
    home = tmp_path / "home"
    store = await SqliteStore.open(home)
    thread = (await store.create()).id
    lease = await store.acquire(thread)
    await store.commit(lease, Change(entries=(user_draft("a"),)))
    how(home)
    for light in (False, True):
        with pytest.raises(StoreReplaced, match="deleted or replaced while it was open"):
            await store.commit(lease, Change(entries=(user_draft("b"),), light=light))
    with pytest.raises(StoreReplaced):
        await store.close()
    with pytest.raises(StoreClosed):
        await store.info(thread)


async def test_a_log_that_comes_back_takes_nothing_twice(tmp_path):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    store = await SqliteStore.open(home)
    thread = (await store.create()).id
    lease = await store.acquire(thread)
    said = Change(entries=(user_draft("b"),))
    home.rename(elsewhere)
    with pytest.raises(StoreReplaced):
        await store.commit(lease, said)
    elsewhere.rename(home)
    with pytest.raises(StoreReplaced):  # whoever tries again would say it twice
        await store.commit(lease, said)
    with pytest.raises(StoreReplaced):
        await store.close()
    async with await SqliteStore.open(home) as again:
        assert len(await again.read(thread)) == 1


@contextmanager
def somebody_else(place: Path) -> Iterator[None]:
    """Be an ordinary user, to whom `place` belongs; root passes by all permissions."""
    if os.geteuid():
        yield
        return
    os.chown(place, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_a_directory_that_nobody_may_enter_is_no_log_that_is_gone():
    with (
        tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as place,
        somebody_else(Path(place)),
    ):
        home = Path(place, "home")
        async with await SqliteStore.open(home) as store:
            thread = (await store.create()).id
            lease = await store.acquire(thread)
            home.chmod(0)
            try:
                await store.commit(lease, Change(entries=(user_draft("a"),)))
            finally:
                home.chmod(0o700)
            assert len(await store.read(thread)) == 1


async def test_who_opens_a_replaced_log_anew_can_write_it(tmp_path):
    async with open_shared(tmp_path) as shared:
        thread = (await shared.store.create()).id
        replace_log(tmp_path)
        with pytest.raises(StoreReplaced):
            await shared.store.create()
        async with open_shared(tmp_path) as again:
            assert again.store is not shared.store
            assert (await again.store.info(thread)).id == thread
            assert (await again.store.create()).last == 0


async def test_an_index_with_a_flipped_bit_in_its_schema_is_built_again(tmp_path, caplog):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        await append(store, thread, Change(entries=(user_draft("findable"),)))
        index = SqliteIndex(store, tmp_path)
        assert len(await index.search("findable")) == 1
        await index.close()
        path = tmp_path / "index.db"
        path.write_bytes(path.read_bytes().replace(b"turn            INT", b"turo            INT"))
        index = SqliteIndex(store, tmp_path)
        assert await index.rows(thread) == []
        assert [hit.seq for hit in await index.search("findable")] == [1]
        await index.close()
    assert list(tmp_path.glob("index.db.broken-*"))
    assert "built anew" in caplog.text


async def test_an_index_that_sqlite_has_counted_for_its_plans_stays(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        await append(store, thread, Change(entries=(user_draft("findable"),)))
        index = SqliteIndex(store, tmp_path)
        assert len(await index.search("findable")) == 1
        await index.close()
        with closing(sqlite3.connect(tmp_path / "index.db")) as connection:
            connection.execute("ANALYZE")
            assert connection.execute("SELECT 1 FROM sqlite_stat1").fetchone()
        index = SqliteIndex(store, tmp_path)
        assert [hit.seq for hit in await index.search("findable")] == [1]
        await index.close()
    assert not list(tmp_path.glob("index.db.broken-*"))


def test_the_checksum_of_the_index_is_that_of_its_tables():
    with closing(sqlite3.connect(":memory:")) as connection:
        create_tables(connection)
        assert schema_checksum(connection) == SCHEMA
