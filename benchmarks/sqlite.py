"""Which SQLite driver writes the log: the standard library's or apsw?

Every round measures all candidates, one after the other, so that a busy machine
slows all of them; what counts is the median of each round's ratio.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from treadle.core.entries import Draft
from treadle.store import Change, SqliteStore

ROUNDS = 60
COMMITS = 50
GROUP = 16
BODY = b'{"type":"message","role":"user","content":"%s"}' % (b"x" * 2_000)

SETUP = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, kind TEXT, time INTEGER, body BLOB) STRICT",
)
INSERT = "INSERT INTO entries VALUES (?, 'item', 0, ?)"
SELECT = "SELECT id, kind, time, body FROM entries WHERE id <= 1000 ORDER BY id"


def commits(execute: Callable[..., Any], start: int, group: int) -> float:
    """Seconds for one durable transaction of `group` rows."""
    began = time.perf_counter()
    for first in range(start, start + COMMITS * group, group):
        execute("BEGIN IMMEDIATE")
        for number in range(first, first + group):
            execute(INSERT, (number, BODY))
        execute("COMMIT")
    return (time.perf_counter() - began) / COMMITS


def reading(execute: Callable[..., Any]) -> float:
    """Seconds to read a thousand rows."""
    began = time.perf_counter()
    assert len(list(execute(SELECT))) == 1_000
    return time.perf_counter() - began


def syncs(path: Path) -> float:
    """Seconds to append and sync as many bytes: what no store can go below."""
    with path.open("ab", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(COMMITS):
            file.write(BODY * 2)
            os.fdatasync(file.fileno())
        return (time.perf_counter() - began) / COMMITS


async def store_commits(store: SqliteStore, thread: str, group: int) -> float:
    """Seconds for one group of changes through the store."""
    lease = await store.acquire(thread)
    change = Change(entries=(Draft(body=BODY),))
    began = time.perf_counter()
    for _ in range(COMMITS):
        await asyncio.gather(*(store.commit(lease, change) for _ in range(group)))
    took = time.perf_counter() - began
    await lease.release()
    return took / COMMITS


async def store_reading(store: SqliteStore, thread: str) -> float:
    """Seconds to read a thousand entries through the store."""
    began = time.perf_counter()
    assert len(await store.read(thread, 1, 1_000)) == 1_000
    return time.perf_counter() - began


@contextmanager
def drivers(directory: Path) -> Iterator[dict[str, Callable[..., Any]]]:
    """How to run a statement with either driver."""
    import apsw

    with closing(sqlite3.connect(directory / "stdlib.db", isolation_level=None)) as stdlib:
        other = apsw.Connection(str(directory / "apsw.db"))
        try:
            for execute in (stdlib.execute, other.execute):
                for statement in SETUP:
                    list(execute(statement))
            yield {f"sqlite3 {sqlite3.sqlite_version}": stdlib.execute, "apsw": other.execute}
        finally:
            other.close()


async def measure(directory: Path) -> dict[str, dict[str, list[float]]]:
    """Every figure of every candidate, once per round."""
    found: dict[str, dict[str, list[float]]] = {}

    def note(figure: str, candidate: str, seconds: float) -> None:
        found.setdefault(figure, {}).setdefault(candidate, []).append(seconds)

    async with await SqliteStore.open(directory / "treadle") as store:
        thread = (await store.create()).id
        await store_commits(store, thread, 1_000 // COMMITS)
        with drivers(directory) as candidates:
            for execute in candidates.values():
                commits(execute, 1, 1_000 // COMMITS)
            for round_ in range(ROUNDS):
                start = round_ * COMMITS * (GROUP + 1) + 1_001
                note("1 row", "fdatasync alone", syncs(directory / "plain"))
                for name, execute in candidates.items():
                    note("1 row", name, commits(execute, start, 1))
                    note(f"{GROUP} rows", name, commits(execute, start + COMMITS, GROUP))
                    note("read 1,000", name, reading(execute))
                note("1 row", "SqliteStore", await store_commits(store, thread, 1))
                note(f"{GROUP} rows", "SqliteStore", await store_commits(store, thread, GROUP))
                note("read 1,000", "SqliteStore", await store_reading(store, thread))
    return found


def report(found: dict[str, dict[str, list[float]]]) -> None:
    """One line per figure and candidate, with the ratio to the standard library."""
    for figure, candidates in found.items():
        base = next(times for name, times in candidates.items() if name.startswith("sqlite3"))
        for name, times in candidates.items():
            ratio = statistics.median(a / b for a, b in zip(times, base, strict=True))
            print(
                f"{figure:>10}  {name:<16} {statistics.median(times) * 1e6:9.0f} µs  {ratio:5.2f}"
            )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        report(asyncio.run(measure(Path(temporary))))
