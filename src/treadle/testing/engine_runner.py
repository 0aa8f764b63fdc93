"""A process that runs turns with an engine, prints its progress, and can be killed there.

    python -m treadle.testing.engine_runner FACTORY PLACE THREAD TURNS STOP

Owns the lines it prints: ``thread ID``, then for each commit ``commit N`` before and
``committed N`` or ``duplicate N`` after the engine did it. With STOP ``before`` or
``after`` the last commit goes no further than there.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..engines.contract import ContextEngine
from ..engines.loading import EngineContext, EngineRegistry
from .engine_fixture import EngineFixture, run_turn
from .wrapping import Work

__all__ = ["main"]


@dataclass(slots=True)
class _CommitWatcher:
    """Prints the commits, and stops at one of them."""

    stop: str
    last: int = 0

    async def __call__(self, call: str, given: Any, work: Work, /) -> Any:
        if call != "commit_turn":
            return await work(given)
        say(f"commit {given.number}")
        await self._stop_here("before", given.number)
        result = await work(given)
        say(f"{result.status} {given.number}")
        await self._stop_here("after", given.number)
        return result

    async def _stop_here(self, where: str, number: int) -> None:
        if self.stop == where and number == self.last:
            await asyncio.Event().wait()


def say(line: str) -> None:
    """Print a line for the parent process."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main(factory: str, place: str, thread: str, turns: str, stop: str) -> None:
    """Run some turns of a thread, a new one if it has no name yet."""

    async def make(home: Path) -> ContextEngine:
        found = await EngineRegistry().examine(factory, EngineContext(home=home))
        assert found.engine is not None, found.problem
        return found.engine

    watcher = _CommitWatcher(stop)
    async with EngineFixture(Path(place), make).open_thread(
        thread or None, around=watcher
    ) as opened:
        say(f"thread {opened.id}")
        watcher.last = opened.log.turn + int(turns)
        for _ in range(int(turns)):
            await run_turn(opened)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
