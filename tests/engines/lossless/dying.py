"""A process that runs turns with the lossless engine and kills itself where it is told to.

    python -m tests.engines.lossless.dying PLACE POINT TIMES

Owns the points: ``before`` or ``after`` one of the writes that preparing, publishing and
compacting are made of; the process ends when it meets its point for the TIMES-th time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.scenes import hear, open_thread
from treadle.engines.lossless.call_limits import CallLimiter, CallLimits
from treadle.engines.lossless.chunks import Thresholds
from treadle.engines.lossless.engine import LosslessEngine
from treadle.engines.lossless.library import Library, SummaryJob
from treadle.engines.lossless.nodes import SummaryNode
from treadle.store.contract import Change, ChangeResult, Lease
from treadle.store.sqlite import SqliteStore

from .scenes import FOREGROUND, WINDOW, Speaker, look, words

__all__ = ["POINTS", "Fate", "main"]

POINTS = [
    f"{side} {what}"
    for what in (
        "add_jobs",
        "lease_job",
        "add_node",
        "return_job",
        "commit_turn",
        "publish",
        "compact",
    )
    for side in ("before", "after")
]
TURNS = 30


class Fate:
    """Counts how often its point was met, and ends this process."""

    def __init__(self, point: str, times: int) -> None:
        self.point, self.times = point, times

    def __call__(self, point: str) -> None:
        self.times -= point == self.point
        if not self.times:
            os.kill(os.getpid(), signal.SIGKILL)


class DyingLibrary(Library):
    """A library beside whose writes the process can die."""

    fate: Fate

    async def add_node(self, node: SummaryNode) -> SummaryNode:
        """Keep a node."""
        self.fate("before add_node")
        kept = await super().add_node(node)
        self.fate("after add_node")
        return kept

    async def add_jobs(self, jobs: Sequence[SummaryJob]) -> None:
        """Note work."""
        self.fate("before add_jobs")
        await super().add_jobs(jobs)
        self.fate("after add_jobs")

    async def lease_job(
        self, thread: str, key: str, owner: str, *, at_once: bool = False
    ) -> SummaryJob | None:
        """Lease a job."""
        self.fate("before lease_job")
        job = await super().lease_job(thread, key, owner, at_once=at_once)
        self.fate("after lease_job")
        return job

    async def return_job(self, job: SummaryJob, error: str, wait: float = 0.0) -> None:
        """Give a job back."""
        self.fate("before return_job")
        await super().return_job(job, error, wait)
        self.fate("after return_job")

    async def commit_turn(self, key: str, thread: str, number: int, first: int, last: int) -> bool:
        """Note a turn."""
        self.fate("before commit_turn")
        new = await super().commit_turn(key, thread, number, first, last)
        self.fate("after commit_turn")
        return new


class DyingStore(SqliteStore):
    """A store beside whose epochs the process can die."""

    fate: Fate

    async def commit(self, lease: Lease, change: Change) -> ChangeResult:
        """Write, unless this is where it ends."""
        met = {b"publish": "publish", b"compaction": "compact"}
        epochs = [draft.body for draft in change.entries if draft.kind == "epoch"]
        points = [name for word, name in met.items() if any(word in body for body in epochs)]
        for point in points:
            self.fate(f"before {point}")
        committed = await super().commit(lease, change)
        for point in points:
            self.fate(f"after {point}")
        return committed


async def main(place: Path, point: str, times: int) -> None:
    """Run turns until the process ends."""
    fate = Fate(point, times)
    (place / "home").mkdir()
    store = await DyingStore.open(place / "home")
    assert isinstance(store, DyingStore)
    library = DyingLibrary(place / "lossless.db")
    store.fate = library.fate = fate
    limiter = CallLimiter(limits=CallLimits(calls=10_000))
    engine = LosslessEngine(library, Thresholds(), limiter, FOREGROUND)
    model: Any = Speaker(mood="good")
    async with open_thread(
        place,
        model,
        facts=f"context_window = {WINDOW}",
        tools=(look,),
        engine=engine,
        store=store,
    ) as thread:
        for number in range(TURNS):
            # An extract, too, is kept and its job put back.
            model.mood = "failing" if number % 2 else "good"
            await hear(thread, f"{number} of src/part_{number}.py: {words(number, 200)} look")
            if number % 6 == 5:
                await thread.compact()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
