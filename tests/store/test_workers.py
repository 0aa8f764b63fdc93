from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
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
