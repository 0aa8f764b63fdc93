"""A turn in a process of its own, for `pasts`: says where it is and waits to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from treadle import Thread

from .basics import forever, weigh
from .drive import Stage, TextDelta, ToolStarted, provided, recorded_so_far, surroundings


async def has_answer(thread: Thread, *, step: int) -> bool:
    """Whether the log has all that the model said in a step."""
    entries = await thread.store.read(thread.id)
    return any((entry.kind, entry.step) == ("response", step) for entry in entries)


async def main(place: str, url: str, moment: str) -> None:
    """Run a turn until the moment, and then for ever."""
    stage = Stage(Path(place))
    providers = {"alpha": provided("responses", url)}
    async with stage.thread("alpha:gpt-5.5", tools=(forever, weigh), providers=providers) as thread:
        print(thread.id, flush=True)  # noqa: T201

        async def tell(event: Any) -> None:
            there = TextDelta if moment == "text" else ToolStarted
            if isinstance(event, there) and getattr(event, "name", "forever") == "forever":
                # A call may start while its answer still streams; each look waits for the store.
                while moment == "tool" and not await has_answer(thread, step=2):
                    pass
                await recorded_so_far(thread)
                print(moment, flush=True)  # noqa: T201
                await asyncio.Event().wait()

        await stage.turn(thread, "Weigh and wait.", at=tell)


if __name__ == "__main__":
    with surroundings():
        asyncio.run(main(*sys.argv[1:]))
