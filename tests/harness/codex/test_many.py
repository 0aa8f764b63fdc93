from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from tests.harness.scenes import unpaired_calls
from treadle import Thread
from treadle.harness.events import Event, TextDelta, ToolStarted
from treadle.testing.script import Answer, Break, Call, Script
from treadle.tools.contract import Tool
from treadle.tools.decorator import tool

from .scenes import hear, last, open_stage

THREADS = 20
ROUNDS = 2 if "SOAK_ROUNDS" in os.environ else 1
TURNS = ("say", "ask", "halt", "ask", "hang") * ROUNDS
"""What happens in the turns of a thread; each thread begins elsewhere."""
ENDS = {"say": "completed", "ask": "completed", "halt": "interrupted", "hang": "interrupted"}


def secret(number: int) -> str:
    return f"secret-{number:02}"


def answers() -> Iterator[Answer]:
    """What the model says to each thread, over and over."""
    for own in map(secret, range(THREADS)):
        yield Answer(when=f"say {own}", text=f"{own} was said", times=0)
        yield Answer(when=f"{own} is whispered", text=f"{own} was heard", times=0)
        yield Answer(when=f"ask {own}", calls=(Call(name="whisper"),), times=0)
        yield Answer(when=f"hang {own}", calls=(Call(name="hang"),), times=0)
        yield Answer(
            when=f"halt {own}", text=f"{own} goes on and on", stall=Break(events=5), times=0
        )


def tools_of(own: str) -> tuple[Tool, ...]:
    @tool(parallel=True)
    async def whisper() -> str:
        """Whispers."""
        return f"{own} is whispered"

    @tool(parallel=True)
    async def hang() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    return whisper, hang


async def talks(thread: Thread, number: int) -> list[Event]:
    """The turns of a thread, one after another; all that its host heard."""
    own, heard = secret(number), list[Event]()
    for turn in range(len(TURNS)):
        kind = TURNS[(number + turn) % len(TURNS)]
        events = await runs(thread, kind, own)
        assert last(events).status == ENDS[kind]
        heard += events
    return heard


async def runs(thread: Thread, kind: str, own: str) -> list[Event]:
    stops: type | None = {"halt": TextDelta, "hang": ToolStarted}.get(kind)

    def at(event: Event) -> None:
        if stops is not None and isinstance(event, stops):
            thread.interrupt()

    return await hear(thread, f"{kind} {own}", at=at)


def whose(*told: bytes) -> set[str]:
    """Whose secrets are told."""
    words = b"".join(told).decode()
    return {own for own in map(secret, range(THREADS)) if own in words}


async def heard_only_its_own(thread: Thread, own: str, events: Sequence[Event]) -> None:
    """Neither the host of a thread nor its log was told of another; every turn has its end."""
    assert whose(*map(msgspec.json.encode, events)) == {own}
    assert whose(*(entry.body for entry in await thread.store.read(thread.id))) == {own}
    states = Counter(turn.state for turn in await thread.store.turns(thread.id))
    assert states == {"completed": 3 * ROUNDS, "aborted": 2 * ROUNDS}
    assert await unpaired_calls(thread) == []
    assert not thread.view.open_calls


async def test_twenty_threads_on_one_app_server_hear_nothing_of_each_other(tmp_path: Path):
    async with open_stage(tmp_path, script=Script(answers=tuple(answers()))) as stage:
        harness = stage.harness
        async with AsyncExitStack() as stack:
            threads = [
                await stack.enter_async_context(stage.thread(tools=tools_of(secret(number))))
                for number in range(THREADS)
            ]
            heard = await asyncio.gather(*(talks(each, at) for at, each in enumerate(threads)))
            for number, (thread, events) in enumerate(zip(threads, heard, strict=True)):
                await heard_only_its_own(thread, secret(number), events)
            (server,) = harness.servers.servers
            connection = await server.connection()
            assert set(harness.threads.live) == {thread.id for thread in threads}
            assert len(connection.subscribed_threads) == THREADS
        assert server.generation == 1
        assert harness.threads.live == {}
        assert connection.subscribed_threads == frozenset()
        asked = Counter(frozenset(whose(request.body)) for request in stage.requests)
    # In a round five turns of each, two of them with a call that was answered.
    assert asked == {frozenset({secret(number)}): 7 * ROUNDS for number in range(THREADS)}
