"""An engine that writes down every turn it is told of, in a SQLite file of its own.

Owns the file: which turns were committed, in which order, with which items, and how often
the engine was asked for anything. A commit is one transaction under its key.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from treadle.engines.contract import EngineInfo, MaintenanceMode, TranscriptPromise
from treadle.engines.values import (
    AssembleParams,
    AssembleResult,
    BootstrapParams,
    BootstrapResult,
    CommitParams,
    CommitResult,
    CompactParams,
    CompactResult,
    IngestParams,
    IngestResult,
    MaintainParams,
    MaintainResult,
    ResetParams,
    recall_item,
)

__all__ = ["Notebook", "Noted"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS commits
    (place INTEGER PRIMARY KEY, key TEXT UNIQUE, number INTEGER, items TEXT);
CREATE TABLE IF NOT EXISTS known (place INTEGER PRIMARY KEY, seq INTEGER, fate TEXT);
CREATE TABLE IF NOT EXISTS calls (name TEXT PRIMARY KEY, times INTEGER);
"""


class Noted(NamedTuple):
    """A turn as it was committed."""

    key: str
    number: int
    items: list[tuple[int, str]]
    """The entries handed over, each with what became of its turn."""


class Notebook:
    """Recalls something at each turn, and commits each turn once."""

    def __init__(
        self,
        path: Path,
        at: Callable[[str], None] = lambda _: None,
        mode: MaintenanceMode = "foreground",
    ) -> None:
        """`at` is called with ``before`` or ``after`` and the name of what is done."""
        self.path, self.at = path, at
        self.info = EngineInfo(
            id="notebook",
            name="Notebook",
            turn_maintenance_mode=mode,
            transcript=TranscriptPromise(turn_advancement="atomic-idempotent-v1"),
        )

    @property
    def commits(self) -> list[Noted]:
        """The turns that were committed, in order."""
        with self._open() as database:
            rows = database.execute("SELECT key, number, items FROM commits ORDER BY place")
            return [
                Noted(key, number, [(seq, fate) for seq, fate in json.loads(items)])
                for key, number, items in rows
            ]

    @property
    def known(self) -> list[tuple[int, str]]:
        """The items it was handed and not told to forget, in the order they came."""
        with self._open() as database:
            return list(database.execute("SELECT seq, fate FROM known ORDER BY place"))

    @property
    def calls(self) -> dict[str, int]:
        """How often each thing was asked for."""
        with self._open() as database:
            return dict(database.execute("SELECT name, times FROM calls ORDER BY name"))

    async def ingest(self, _: IngestParams, /) -> IngestResult:
        return IngestResult(ingested=False)

    async def bootstrap(self, given: BootstrapParams, /) -> BootstrapResult:
        self._count("bootstrap")
        self.at("before bootstrap")
        past = await given.log.read()
        self.at("after bootstrap")
        return BootstrapResult(bootstrapped=True, imported=len(past.items))

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        self._count("assemble")
        self.at("before assemble")
        memory = recall_item(f"{len(self.commits)} turns are known")
        self.at("after assemble")
        return AssembleResult(items=(*given.items[:-1], memory, *given.items[-1:]))

    async def compact(self, given: CompactParams, /) -> CompactResult:
        assert given.delegate is not None
        return await given.delegate()

    async def commit_turn(self, given: CommitParams, /) -> CommitResult:
        self._count("commit_turn")
        self.at("before commit")
        pairs = zip(given.items, given.outcomes, strict=True)
        items = [(item.seq, outcome) for item, outcome in pairs]
        with self._open() as database:
            new = database.execute(
                "INSERT OR IGNORE INTO commits (key, number, items) VALUES (?, ?, ?)",
                (given.key, given.number, json.dumps(items)),
            ).rowcount
            if new:
                database.executemany("INSERT INTO known (seq, fate) VALUES (?, ?)", items)
        self.at("after commit")
        return CommitResult("committed" if new else "duplicate")

    async def thread_reset(self, given: ResetParams, /) -> None:
        with self._open() as database:
            database.execute(
                "DELETE FROM known WHERE seq BETWEEN ? AND ?", (given.first, given.last)
            )

    async def maintain(self, _: MaintainParams, /) -> MaintainResult:
        self._count("maintain")
        self.at("before maintain")
        self.at("after maintain")
        return MaintainResult()

    def _count(self, name: str) -> None:
        with self._open() as database:
            database.execute(
                "INSERT INTO calls VALUES (?, 1) "
                "ON CONFLICT (name) DO UPDATE SET times = times + 1",
                (name,),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self.path)
        try:
            database.executescript(_SCHEMA)
            with database:
                yield database
        finally:
            database.close()
