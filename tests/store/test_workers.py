from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from operator import methodcaller
from pathlib import Path

from treadle.store.database import open_writer
from treadle.store.workers import LogWriter

NORMAL, FULL = 1, 2


def synced(connection: sqlite3.Connection) -> int:
    (mode,) = connection.execute("PRAGMA synchronous").fetchone()
    return int(mode)


async def test_only_light_jobs_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    writer = await asyncio.to_thread(lambda: LogWriter(open_writer(path), path))
    modes = [await writer.run(synced, light=light) for light in (False, True, True, False)]
    assert modes == [FULL, NORMAL, NORMAL, FULL]
    await asyncio.to_thread(writer.close)


async def test_a_light_job_in_company_waits_for_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    writer = await asyncio.to_thread(lambda: LogWriter(open_writer(path), path))
    begun, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(_: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go.wait(), loop).result()

    first = asyncio.create_task(writer.run(hold))
    await begun.wait()
    others = [asyncio.create_task(writer.run(synced, light=light)) for light in (True, False)]
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*others) == [FULL, FULL]
    await first
    await asyncio.to_thread(writer.close)


WAITS_ALONE = """
import asyncio, pathlib, sys, threading
from treadle.store.database import open_writer
from treadle.store.workers import LogWriter

path, opened = pathlib.Path(sys.argv[1]), threading.Event()

def hear(event, given):
    if event == "open" and str(given[0]) == f"{path}-wal":
        opened.set()

async def main():
    writer = LogWriter(open_writer(path), path)
    sys.addaudithook(hear)
    await writer.run(lambda db: db.execute("CREATE TABLE t (a)"), light=True)
    print(await asyncio.to_thread(opened.wait, 20))
    opened.clear()
    await writer.run(lambda db: db.execute("INSERT INTO t VALUES (1)"))
    print(await asyncio.to_thread(opened.wait, 0.2))
    await writer.run(lambda db: db.execute("INSERT INTO t VALUES (2)"), light=True)
    await writer.run(lambda db: None)
    print(await asyncio.to_thread(opened.wait, 20))
    writer.close()

asyncio.run(main())
"""


def test_a_light_job_that_stays_alone_is_handed_to_the_disk_a_moment_later(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WAITS_ALONE, str(tmp_path / "log.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.split(), done.stderr) == (["True", "False", "True"], "")


async def insert(writer: LogWriter, first: int, last: int) -> None:
    for number in range(first, last):
        await writer.run(methodcaller("execute", f"INSERT INTO t VALUES ({number})"))


async def test_the_write_ahead_log_is_made_as_long_as_usual_and_loses_nothing(tmp_path: Path):
    path, wal = tmp_path / "log.db", tmp_path / "log.db-wal"
    writers = [
        await asyncio.to_thread(lambda: LogWriter(open_writer(path), path)) for _ in range(2)
    ]
    await writers[0].run(lambda db: db.execute("CREATE TABLE t (a)"))
    await insert(writers[0], 0, 10)
    assert wal.stat().st_size < 1 << 20
    # The other one writes meanwhile, as another process would.
    await asyncio.gather(*(insert(each, n, n + 40) for n, each in enumerate(writers, 100)))
    size = wal.stat().st_size
    assert size > 4_000_000
    await insert(writers[1], 200, 210)
    assert wal.stat().st_size == size
    # What a crash leaves behind: the files as they are now.
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for file in (path, wal):
        shutil.copy(file, crashed / file.name)
    with closing(sqlite3.connect(crashed / "log.db")) as found:
        rows = [row for (row,) in found.execute("SELECT a FROM t ORDER BY a")]
        assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert rows == sorted([*range(10), *range(100, 140), *range(101, 141), *range(200, 210)])
    for each in writers:
        await asyncio.to_thread(each.close)
