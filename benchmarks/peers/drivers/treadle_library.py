"""Treadle with everything on: a log in a real file, the ledger, fragments, hooks, lossless."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
from common import MODEL, Job, Scenarios, drive

from treadle import Hooks, Rights, Routing, SqliteStore, Thread, TurnCompleted, tool
from treadle.hooks.payloads import AfterToolCall, BeforePromptBuild, BeforeToolCall, OnTurnEnd
from treadle.models.providers import ProviderConfig
from treadle.store.index import SqliteIndex

NAMES: dict[str, str] = {}
"""Threads of this process by the names that scenarios give them."""


@tool
async def tick(number: int) -> int:
    """Counts."""
    return common.tick(number)


async def watch(_: object) -> None:
    """A hook that has nothing to say."""


def hooks() -> Hooks:
    """A hook of each kind that turns and calls meet."""
    watched = Hooks()
    for event in (BeforePromptBuild, BeforeToolCall, AfterToolCall, OnTurnEnd):
        watched.on(event, watch)
    return watched


class Treadle:
    """A thread that is open."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread

    async def turn(self, said: str) -> None:
        """A turn, heard to its end."""
        async for event in self.thread.run(said):
            if isinstance(event, TurnCompleted) and event.status != "completed":
                raise RuntimeError(event.error)


@dataclass(slots=True)
class Shared:
    """What many threads of one host have in common."""

    store: SqliteStore
    index: SqliteIndex

    @classmethod
    async def of(cls, home: Path) -> Shared:
        store = await SqliteStore.open(home)
        return cls(store, SqliteIndex(store, home))


SHARED: list[Shared] = []


@asynccontextmanager
async def opened(
    job: Job, script: str, name: str, *, engine: str = "lossless"
) -> AsyncIterator[Treadle]:
    """A thread as a host opens it."""
    project, home = job.scratch / "project", job.scratch / "home"
    project.mkdir(exist_ok=True)
    provider = ProviderConfig(api="responses", base_url=job.base(script), key="none")
    settings: dict[str, Any] = {}
    if job.scenario == "tool_loop":
        settings["tools"] = (tick,)
    if job.scenario in ("threads", "threads_many"):
        # One log for all, as a host of many threads has it.
        if not SHARED:
            SHARED.append(await Shared.of(home))
        settings |= {"store": SHARED[0].store, "index": SHARED[0].index}
    async with Thread.open(
        NAMES.get(name),
        model=f"openai:{MODEL}",
        engine=engine,
        hooks=hooks(),
        cwd=project,
        home=home,
        routing=Routing(providers={"openai": provider}),
        rights=Rights(approval="never"),
        **settings,
    ) as thread:
        NAMES[name] = thread.id
        yield Treadle(thread)


@dataclass(slots=True)
class TreadleScenarios(Scenarios):
    """Turns are run one and all; a past comes in as turns that happened elsewhere."""

    async def closed(self) -> None:
        for shared in SHARED:
            await shared.index.close()
            await shared.store.close()

    async def resume(self, job: Job) -> None:
        from treadle_past import write_past

        await self.cold_start(job)
        NAMES["long"] = NAMES.pop("first")
        await write_past(job.scratch / "home", NAMES["long"], job.sizes["past"])
        await self.reopened(job)

    async def resume_long(self, job: Job) -> None:
        """As `resume`, with far more than any window holds."""
        await self._resume_after(job, job.sizes["long_past"])

    async def resume_huge(self, job: Job) -> None:
        """As `resume_long`, with ten times as much."""
        await self._resume_after(job, job.sizes["huge_past"])

    async def _resume_after(self, job: Job, items: int) -> None:
        from benchmarks.lossless import grow

        NAMES["long"], _ = await grow(job.scratch / "home", items)
        await self.cold_start(job)
        await self.reopened(job)


if __name__ == "__main__":
    drive("treadle", TreadleScenarios(opened, command="exec_command"))
