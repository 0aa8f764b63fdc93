"""An executor for the tests: it acts slowly, and writes down what it does."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from treadle import Rights, Thread
from treadle.hosts.dbos import run_dbos_host
from treadle.store import SqliteStore
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call
from treadle.tools.decorator import tool


def note(file: Path, words: str) -> None:
    with file.open("a") as opened:
        opened.write(f"{words}\n")


async def main(place: Path, seconds: float, *enqueued: str) -> None:
    model = ScriptedModel(
        [
            Answer(when="please", calls=(Call(name="act", arguments={}),), times=0),
            Answer(text="It is done.", times=0),
        ]
    )

    @tool
    async def act() -> str:
        """Act, and take some time."""
        note(place / "effects.txt", str(os.getpid()))
        await asyncio.sleep(seconds)
        return "acted"

    @asynccontextmanager
    async def opened(thread):
        rights = Rights(sandbox="danger-full-access", approval="never")
        async with Thread.open(thread, model=model, home=place, tools=(act,), rights=rights) as one:
            yield one

    database = f"sqlite:///{place / 'dbos.sqlite'}"
    async with (
        await SqliteStore.open(place) as store,
        run_dbos_host(store, opened, database, sweep=0.2) as turns,
    ):
        for each in enqueued:
            thread, turn = each.split("=")
            await turns.enqueue(thread, "please", turn_id=turn)
            await turns.enqueue(thread, "please", turn_id=turn)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while each := await asyncio.to_thread(sys.stdin.readline):
            done = await turns.wait(each.strip())
            sys.stdout.write(f"{done.turn} {done.status} {done.text}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]))
