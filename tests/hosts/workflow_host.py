"""An executor of workflows for the tests: it acts slowly, and writes down what it does."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from treadle import Rights, Thread
from treadle.hosts.workflow_turns import WorkflowError
from treadle.store import SqliteStore
from treadle.testing import ScriptedModel
from treadle.testing.script import Answer, Call
from treadle.tools.decorator import tool


def note(file: Path, words: str) -> None:
    with file.open("a") as opened:
        opened.write(f"{words}\n")


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def opener(place: Path, seconds: float):
    """What opens a thread whose model acts once in each turn."""
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

    return opened


@asynccontextmanager
async def dbos_turns(place: Path, opened, database: str):
    from treadle.hosts.dbos import run_dbos_host

    async with (
        await SqliteStore.open(place) as store,
        run_dbos_host(store, opened, database, sweep=0.2, grace=0.5) as turns,
    ):
        yield turns


@asynccontextmanager
async def temporal_turns(opened, address: str):
    from temporalio.client import Client

    from treadle.hosts.temporal import TemporalTurns, run_temporal_host

    client = await Client.connect(address)
    async with run_temporal_host(client, opened, grace=0.5):
        yield TemporalTurns(client, heartbeat=1.0)


async def main(engine: str, at: str, place: Path, seconds: float, *enqueued: str) -> None:
    opened = opener(place, seconds)
    host = dbos_turns(place, opened, at) if engine == "dbos" else temporal_turns(opened, at)
    asking = asyncio.current_task()
    assert asking is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asking.cancel)
    async with host as turns:
        for each in enqueued:
            thread, turn = each.split("=")
            await turns.enqueue(thread, "please", turn_id=turn)
            await turns.enqueue(thread, "please", turn_id=turn)
        say("ready")
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
        )
        async for told in lines:
            turn = told.decode().strip()
            try:
                done = await turns.wait(turn)
                say(f"{done.turn} {done.status} {done.text}")
            except WorkflowError as error:
                say(f"{turn} did not end: {error}")


if __name__ == "__main__":
    _, engine, at, place, seconds, *enqueued = sys.argv
    asyncio.run(main(engine, at, Path(place), float(seconds), *enqueued))
