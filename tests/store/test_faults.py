from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from treadle.core.errors import (
    NotFound,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
)
from treadle.store import Change, SqliteStore
from treadle.store.database import translate_error
from treadle.testing.contracts.drafts import append, user_body, user_draft

from .children import Child

FILL = """
import json, resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, resource.RLIM_INFINITY))

async def main():
    store = await SqliteStore.open(directory)
    lease = await store.acquire(thread)
    acknowledged, number, errors = [], 0, []
    while not errors:
        batch = range(number, number + 5)
        changes = (Change(entries=(user_draft(f"{n} " + "x" * 20_000),)) for n in batch)
        work = (store.commit(lease, change) for change in changes)
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        number += 5
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                errors.append(f"{type(outcome).__name__}: {outcome}")
            else:
                acknowledged.append(outcome.entries[0].seq)
    readable = len(await store.read(thread))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    await store.commit(lease, Change(entries=(user_draft("room again"),)))
    print(json.dumps([acknowledged, errors, readable]))
    await store.close()

asyncio.run(main())
"""

FULL = """
import json, resource
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, resource.RLIM_INFINITY))

async def main():
    async with await SqliteStore.open(directory) as store:
        told = [len(await store.read(thread))]
        for write in (store.create(), store.acquire(thread)):
            try:
                await write
            except StoreError as error:
                told.append(f"{type(error).__name__}: {error}")
    print(json.dumps(told))

asyncio.run(main())
"""

UNPRIVILEGED = """
# What loads at first use must not have to be read by nobody.
import treadle.store.search.searcher
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)

async def main():
    store = await SqliteStore.open(directory)
    entries = await store.read(thread)
    same = [entry.body == user_body(f"{entry.seq}") for entry in entries]
    print(store.read_only, same, flush=True)
    for work in (store.create(), store.acquire(thread), store.put_blob(thread, b"x")):
        try:
            await work
        except StoreReadOnly as error:
            print(type(error).__name__, str(directory) in str(error))
    index = SqliteIndex(store, directory)
    print([hit.seq for hit in await index.search("2")])
    await index.close()
    await store.close()

asyncio.run(main())
"""

NOWHERE = """
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    asyncio.run(SqliteStore.open(directory))
except StoreReadOnly as error:
    print(error)
"""

CRASH = """
import signal

async def main():
    store = await SqliteStore.open(directory)
    await append(store, thread, Change(entries=(user_draft("only in the WAL"),)))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

NO_LOCKS = """
async def main():
    async with await SqliteStore.open(directory) as store:
        sys.modules["fcntl"] = None
        try:
            await store.acquire(thread)
        except StoreError as error:
            print(error)

asyncio.run(main())
"""


@pytest.fixture
def open_directory():
    # pytest's own directories are closed to other users.
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    directory.chmod(0o755)
    shutil.rmtree(directory)


async def written(directory: Path, count: int = 3) -> str:
    async with await SqliteStore.open(directory) as store:
        thread = (await store.create()).id
        await append(
            store, thread, *(Change(entries=(user_draft(f"{n}"),)) for n in range(1, count + 1))
        )
    return thread


async def test_a_full_disk_stops_the_writer_and_loses_nothing(tmp_path):
    thread = await written(tmp_path, 0)
    with Child(FILL, tmp_path, thread) as child:
        acknowledged, errors, readable = json.loads(child.result())
    assert errors
    assert all(error.startswith("StoreFull: no room to write") for error in errors)
    assert readable == len(acknowledged)
    async with await SqliteStore.open(tmp_path) as store:
        entries = await store.read(thread)
        assert [entry.seq for entry in entries] == [*acknowledged, len(acknowledged) + 1]
        assert entries[-1].body == user_body("room again")
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_log_on_a_full_disk_can_be_read(tmp_path):
    thread = await written(tmp_path)
    before = (tmp_path / "log.db").read_bytes()
    with Child(FULL, tmp_path, thread) as child:
        readable, *errors = json.loads(child.result())
    assert readable == 3
    assert [error.partition(" '")[0] for error in errors] == ["StoreFull: no room to write"] * 2
    assert (tmp_path / "log.db").read_bytes() == before


async def test_a_directory_without_write_permission_can_be_read(open_directory):
    thread = await written(open_directory)
    for path in (open_directory / "log.db", open_directory / "locks"):
        path.chmod(path.stat().st_mode | 0o055 | 0o044)
    open_directory.chmod(0o555)
    before = (open_directory / "log.db").read_bytes()
    with Child(UNPRIVILEGED, open_directory, thread) as child:
        assert child.result().splitlines() == [
            "True [True, True, True]",
            "StoreReadOnly True",
            "StoreReadOnly True",
            "StoreReadOnly True",
            "[2]",
        ]
    assert (open_directory / "log.db").read_bytes() == before


async def test_a_directory_is_readable_while_its_owner_writes(open_directory):
    async with await SqliteStore.open(open_directory) as store:
        thread = (await store.create()).id
        await append(store, thread, *(Change(entries=(user_draft(f"{n}"),)) for n in range(1, 4)))
        for path in open_directory.iterdir():
            path.chmod(path.stat().st_mode | 0o055)
        with Child(UNPRIVILEGED, open_directory, thread) as child:
            assert child.line() == "True [True, True, True]"


async def test_a_pending_wal_that_cannot_be_read_is_never_overlooked(open_directory):
    thread = await written(open_directory)
    with Child(CRASH, open_directory, thread) as child:
        child.process.wait()
    (open_directory / "log.db-shm").unlink()
    for path in open_directory.iterdir():
        path.chmod(path.stat().st_mode | 0o055)
    open_directory.chmod(0o555)
    with Child(NOWHERE, open_directory, thread) as child:
        assert "cannot be written" in child.result()
    open_directory.chmod(0o755)
    async with await SqliteStore.open(open_directory) as store:
        assert (await store.read(thread))[-1].body == user_body("only in the WAL")


CLOSED_MEANWHILE = """
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)

async def main():
    store = await SqliteStore.open(directory)
    directory.chmod(0o000)
    try:
        await store.read(thread)
    except StoreReadOnly as error:
        print(str(directory) in str(error))
    directory.chmod(0o755)
    print(len(await store.read(thread)))
    await store.close()

asyncio.run(main())
"""


async def test_a_directory_that_is_closed_while_it_is_read_is_named(open_directory):
    thread = await written(open_directory)
    if os.getuid() == 0:
        for path in (open_directory, *open_directory.rglob("*")):
            os.chown(path, 65534, 65534)
    with Child(CLOSED_MEANWHILE, open_directory, thread) as child:
        assert child.result().splitlines() == ["True", "3"]


async def test_no_log_and_no_right_to_make_one_is_read_only(open_directory):
    open_directory.chmod(0o555)
    with Child(NOWHERE, open_directory / "home", "-") as child:
        assert "cannot be written" in child.result()
    assert list(open_directory.iterdir()) == []


async def test_a_platform_without_file_locks_is_named(tmp_path):
    thread = await written(tmp_path)
    with Child(NO_LOCKS, tmp_path, thread) as child:
        assert "no POSIX file locks" in child.result()


def overwritten(data: bytes) -> bytes:
    return b"this is not a database, but somebody's notes\n" * (len(data) // 45)


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2 + 100]


def scrambled(data: bytes) -> bytes:
    return data[:4096] + bytes(len(data) - 4096)


@pytest.mark.parametrize("damage", [overwritten, truncated, scrambled])
async def test_a_damaged_file_is_corrupt_and_stays_as_it_was(tmp_path, damage):
    thread = await written(tmp_path, 200)
    path = tmp_path / "log.db"
    path.write_bytes(damaged := damage(path.read_bytes()))
    with pytest.raises(StoreCorrupt, match=r"log\.db"):
        async with await SqliteStore.open(tmp_path) as store:
            await store.read(thread)
    assert path.read_bytes() == damaged


async def test_a_foreign_database_is_refused_and_stays_as_it_was(tmp_path):
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="no Treadle log"):
        await SqliteStore.open(tmp_path)
    assert path.read_bytes() == before


async def test_a_log_of_a_newer_treadle_is_refused_and_stays_as_it_was(tmp_path):
    await written(tmp_path)
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="layout 99"):
        await SqliteStore.open(tmp_path)
    assert path.read_bytes() == before


async def test_a_blob_whose_bytes_changed_is_corrupt(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        thread = (await store.create()).id
        digest = await store.put_blob(thread, b"right")
        with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as connection:
            connection.execute("UPDATE blobs SET data = x'00'")
        with pytest.raises(StoreCorrupt, match=digest):
            await store.blob(digest)


@pytest.mark.parametrize("column", ["fragments", "provenance", "events"])
async def test_a_column_that_cannot_be_read_is_corrupt(tmp_path, column):
    thread = await written(tmp_path)
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as connection:
        connection.execute(f"UPDATE entries SET {column} = 'no JSON', checksum = NULL")
    async with await SqliteStore.open(tmp_path) as store:
        with pytest.raises(StoreCorrupt, match=r"log\.db.* is damaged"):
            await store.read(thread)


async def test_a_name_in_the_file_that_is_no_text_is_corrupt(tmp_path):
    await written(tmp_path)
    path = tmp_path / "log.db"
    path.write_bytes(
        path.read_bytes().replace(b"CREATE TABLE threads", b"CREATE \xff\xfe\xfd threads")
    )
    with pytest.raises(StoreCorrupt, match=r"log\.db"):
        await SqliteStore.open(tmp_path)


async def test_an_error_of_one_job_reaches_its_caller_unchanged(tmp_path):
    async with await SqliteStore.open(tmp_path) as store:
        with pytest.raises(UnicodeEncodeError):
            await store.create(title="\ud800")
        with pytest.raises(NotFound):
            await store.acquire("../escape")
        assert await store.threads() == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_IOERR_WRITE, StoreFull),
        (sqlite3.SQLITE_IOERR_SHMSIZE, StoreFull),
        (sqlite3.SQLITE_IOERR_FSYNC, StoreError),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreReadOnly),
        (sqlite3.SQLITE_CANTOPEN, StoreReadOnly),
        (sqlite3.SQLITE_CORRUPT_VTAB, StoreCorrupt),
        (sqlite3.SQLITE_NOTADB, StoreCorrupt),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusy),
        (sqlite3.SQLITE_LOCKED, StoreBusy),
        (sqlite3.SQLITE_CONSTRAINT, StoreError),
    ],
)
def test_result_codes_become_our_errors(code, kind):
    error = sqlite3.OperationalError("boom")
    error.sqlite_errorcode = code
    told = translate_error(error, Path("somewhere") / "log.db")
    assert type(told) is kind
    assert repr(str(Path("somewhere") / "log.db")) in str(told)
