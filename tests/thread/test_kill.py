from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests import fork_server
from treadle.store import SqliteStore
from treadle.store.contract import Change
from treadle.testing.contracts.drafts import user_draft

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "16"))
APPENDS = 1_000

CHILD = """
import asyncio, sys
from pathlib import Path
from msgspec import Raw
from treadle.core.entries import Draft
from treadle.store import SqliteStore
from treadle.store.contract import THIS_TURN, Admission, Change

directory, thread, manner, appends = sys.argv[1:]


def draft(number):
    filling = "x" * (200_000 if manner == "large" and number % 20 == 0 else 300)
    body = b'{"type":"message","number":%d,"filling":"%s"}' % (number, filling.encode())
    return Draft(body=body, turn=THIS_TURN if manner == "admits" else 0)


def change(numbers):
    admit = None
    if manner == "admits":
        admit = Admission(id=f"turn-{numbers[0]}", input=Raw(b"%d" % numbers[0]))
    return Change(admit=admit, entries=tuple(map(draft, numbers)))


async def main():
    store = await SqliteStore.open(Path(directory))
    lease = await store.acquire(thread)
    start = (await store.info(thread)).last + 1
    size = 7 if manner == "batches" else 1
    print("ready", flush=True)
    for first in range(start, start + int(appends), size):
        numbers = list(range(first, first + size))
        await store.commit(lease, change(numbers))
        print(numbers[-1], flush=True)
    await asyncio.Event().wait()  # on a busy machine the kill comes after the last of them


asyncio.run(main())
"""


def killed_after(acks: int, grace: float, command: list[str]) -> int:
    """Kill a child a moment after its `acks`th acknowledgement; the last entry it acknowledged."""
    with fork_server.Process(command) as child:
        assert child.stdout.readline() == b"ready\n"
        told = [child.stdout.readline() for _ in range(acks)]
        time.sleep(grace)
        child.send_signal(signal.SIGKILL)
        told += child.stdout.read().splitlines(keepends=True)
        assert child.wait() == -signal.SIGKILL
    return max((int(line) for line in told if line.endswith(b"\n")), default=0)


async def log_after_the_kill(directory: Path, thread: str) -> list[bytes]:
    """The log as the next writer finds it, after it took the lease and appended."""
    async with await SqliteStore.open(directory) as store:
        lease = await store.acquire(thread)
        entries = await store.read(thread)
        turns = await store.turns(thread)
        assert [turn.id for turn in turns] == [
            f"turn-{entry.seq}" for entry in entries if entry.turn
        ]
        await store.commit(lease, Change(entries=(user_draft("next writer"),)))
        return [entry.body for entry in entries]


def integrity(directory: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(directory / "log.db")) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return connection.execute("PRAGMA integrity_check").fetchall()


@pytest.mark.parametrize("manner", ["single", "batches", "large", "admits"])
@pytest.mark.parametrize("round_", range(-(-ROUNDS // 4)))
def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path, manner, round_):
    thread = asyncio.run(new_thread(tmp_path))
    chance = random.Random(f"{manner}{round_}")
    changes = APPENDS // (7 if manner == "batches" else 1)
    command = [sys.executable, "-c", CHILD, str(tmp_path), thread, manner, str(APPENDS)]
    acks = chance.randrange(changes * 9 // 10)
    acknowledged = killed_after(acks, chance.uniform(0, 0.003), command)
    bodies = asyncio.run(log_after_the_kill(tmp_path, thread))
    # No upper bound: on a busy machine the kill may come after the last of them.
    assert acks <= acknowledged <= len(bodies)
    if manner == "batches":
        assert len(bodies) % 7 == 0
    for number, body in enumerate(bodies, 1):
        assert body.startswith(b'{"type":"message","number":%d,"filling":"' % number)
        assert body.endswith(b'x"}')
    assert integrity(tmp_path) == [("ok",)]


async def new_thread(directory: Path) -> str:
    async with await SqliteStore.open(directory) as store:
        return (await store.create()).id
