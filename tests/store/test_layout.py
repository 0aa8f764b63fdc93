from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from msgspec import Raw

from treadle.core.entries import Draft, Flags, FragmentMark, Origin
from treadle.core.errors import ConfigError
from treadle.store import Change, SqliteStore
from treadle.store.contract import Admission, InboxDraft, OutboxDraft, TurnEnd
from treadle.testing.contracts.drafts import append, turn_change, user_body, user_draft

TABLES = ("threads", "origins", "blobs", "blob_users", "entries", "turns", "inbox", "outbox")


def rows(directory: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(directory / "log.db")) as connection:
        return connection.execute(query).fetchall()


def counts(directory: Path) -> dict[str, int]:
    return {name: rows(directory, f"SELECT count(*) FROM {name}")[0][0] for name in TABLES}


async def test_an_entry_on_disk(tmp_path):
    async with await SqliteStore.open(tmp_path, clock=lambda: 1_700_000_000.5) as store:
        thread = (await store.create()).id
        rich = Draft(
            body=user_body("hi"),
            id="msg_1",
            turn=1,
            step=2,
            tokens=3,
            flags=Flags.CONTEXTUAL,
            fragments=(FragmentMark("environment", Raw(b'{"cwd":"/"}'), 0),),
            origin=Origin("openai", "responses", "m"),
            source_id="srv_1",
        )
        plain = Draft(body=user_body("x"), id="msg_2")
        admit = Admission(id="t1", input=Raw(b'{"text":"hi"}'))
        await append(store, thread, Change(admit=admit, entries=(rich, plain)))
    assert rows(tmp_path, "SELECT id >> 32, id & 0xffffffff, * FROM entries") == snapshot(
        [
            (
                1,
                1,
                4294967297,
                "item",
                "msg_1",
                1,
                2,
                1700000000500,
                3,
                1,
                '[{"id":"environment","snapshot":{"cwd":"/"},"part":0}]',
                None,
                None,
                1,
                "srv_1",
                None,
                b'{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}',
                2874227477,
            ),
            (
                1,
                2,
                4294967298,
                "item",
                "msg_2",
                0,
                0,
                1700000000500,
                0,
                0,
                None,
                None,
                None,
                None,
                None,
                None,
                b'{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}',
                3894797376,
            ),
        ]
    )
    assert rows(tmp_path, "SELECT * FROM origins") == snapshot(
        [(1, '{"provider":"openai","api":"responses","model":"m"}')]
    )
    assert rows(tmp_path, "SELECT * FROM turns") == snapshot(
        [(4294967297, 1, "t1", 1, "admitted", 1700000000500, None, None, None, '{"text":"hi"}')]
    )
    marks = [rows(tmp_path, f"PRAGMA {name}")[0][0] for name in ("application_id", "user_version")]
    assert marks == snapshot([1464157780, 3])


async def test_a_large_body_is_stored_once(tmp_path):
    large = user_body("x" * 70_000)
    async with await SqliteStore.open(tmp_path) as store:
        for _ in range(2):
            thread = (await store.create()).id
            await append(store, thread, *([Change(entries=(Draft(body=large),))] * 2))
        assert [entry.body for entry in await store.read(thread)] == [large, large]
    assert rows(tmp_path, "SELECT data FROM blobs") == [(large,)]
    assert rows(tmp_path, "SELECT DISTINCT body, blob FROM entries") == [(None, 1)]


async def test_a_fork_copies_nothing(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        await append(store, thread, *(turn_change(f"t{n}", "x") for n in range(10)))
        await append(store, thread, Change(end=TurnEnd(number=10, state="completed")))
        before = counts(tmp_path)
        await store.fork(thread, 10)
    assert counts(tmp_path) == before | {"threads": 2}


async def test_what_nobody_shares_is_purged_from_the_file(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        root = (await store.create(cwd="/inherited", title="private")).id
        await append(store, root, turn_change("t1", "shared"), turn_change("t2", "private words"))
        await append(store, root, Change(entries=(user_draft("private " * 10_000),)))
        await store.put_blob(root, b"private bytes")
        await store.post(root, InboxDraft(key="k", kind="steer", body=Raw(b'"private"')))
        work = OutboxDraft(topic="t", key="k", body=Raw(b'"private"'))
        await append(store, root, Change(outbox=(work,)))
        fork = await store.fork(root, 1)
        await store.delete(root)
        assert [entry.body for entry in await store.read(fork.id)] == [user_body("shared")]
    assert counts(tmp_path) == {
        "threads": 2,
        "origins": 0,
        "blobs": 0,
        "blob_users": 0,
        "entries": 1,
        "turns": 1,
        "inbox": 0,
        "outbox": 0,
    }
    assert b"private" not in (tmp_path / "log.db").read_bytes()
    async with await SqliteStore.open(tmp_path) as store:
        await store.delete(fork.id)
    assert set(counts(tmp_path).values()) == {0}
    assert list((tmp_path / "locks").iterdir()) == []


async def test_a_chain_of_deleted_forks_goes_with_its_last_leaf(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        line = [(await store.create()).id]
        for _ in range(4):
            await append(store, line[-1], turn_change(f"t{len(line)}", "x"))
            last = (await store.info(line[-1])).last
            line.append((await store.fork(line[-1], last)).id)
        side = (await store.fork(line[2], 1)).id
        for thread in (*line[:-1], side):
            await store.delete(thread)
        assert len(await store.read(line[-1])) == 4
        assert counts(tmp_path)["threads"] == 5
        await store.delete(line[-1])
    assert set(counts(tmp_path).values()) == {0}


async def test_a_clock_that_is_set_back_does_not_turn_the_log(tmp_path):
    times = iter([100.0, 200.0, 150.0, 90.0, 80.0])
    now = [100.0]
    async with await SqliteStore.open(tmp_path, clock=lambda: now[0]) as store:
        thread = (await store.create()).id
        for now[0] in times:
            await append(store, thread, Change(entries=(user_draft("x"),)))
        fork = await store.fork(thread, 5)
        await append(store, fork.id, Change(entries=(user_draft("y"),)))
        stamps = [entry.time for entry in await store.read(fork.id)]
    assert stamps == [100_000, 200_000, 200_000, 200_000, 200_000, 200_000]


async def test_the_log_is_for_its_owner_only(tmp_path):
    async with await SqliteStore.open(tmp_path / "home") as store:
        await store.create()
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "home").iterdir()
        }
    assert modes == {"log.db": 0o600, "log.db-wal": 0o600, "log.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


async def test_the_default_directory_is_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "treadle"))
    async with await SqliteStore.open() as store:
        assert store.directory == tmp_path / "treadle"
    assert stat.S_IMODE((tmp_path / "treadle").stat().st_mode) == 0o700
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "file" / "treadle"))
    with pytest.raises(ConfigError, match="TREADLE_HOME"):
        await SqliteStore.open()


async def test_without_treadle_home_the_platform_decides(tmp_path, monkeypatch):
    monkeypatch.delenv("TREADLE_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    async with await SqliteStore.open() as store:
        assert store.directory.is_relative_to(tmp_path)
        assert store.directory.name == "treadle"
