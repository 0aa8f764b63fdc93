"""The fixture of engine tests: a real store, a scripted model, turns with tools.

Owns how a thread is opened and what is read from it afterwards. Invariant: every opening
makes a new instance of the engine over its old files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.items import FunctionCall, FunctionCallOutput, decode_item
from ..engines.contract import ContextEngine, Disposes
from ..engines.conversation import StoredLogReader
from ..engines.guard import EngineTimeouts
from ..engines.loading import EngineContext, EngineRegistry
from ..harness.events import Event, TurnCompleted
from ..thread.options import EngineOptions, Rights
from ..thread.thread import Thread
from ..tools.decorator import tool
from .conversations import SUBJECT, FakeConversation, bodies
from .script import Answer, Call, Script
from .scripted import ScriptedModel
from .wrapping import CallWrapper, Work, wrap_engine

__all__ = [
    "EngineFixture",
    "dispose_engine",
    "pass_through",
    "recall_from",
    "run_turn",
    "unpaired_calls",
]

_NAME = "under-test"

_ID = re.compile(rb"[a-z]+_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_SCRIPT = Script(
    answers=(
        Answer(when=SUBJECT, times=0, calls=(Call(name="look"),)),
        Answer(when="There it is.", times=0, text="It has stripes."),
        Answer(times=0, text="They spoke of animals."),
    )
)
"""Calls a tool when it is asked about the subject, and can summarise."""


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "There it is." + " Grass." * 500


async def pass_through(_: str, given: Any, work: Work, /) -> Any:
    """Call the engine and do nothing else."""
    return await work(given)


@dataclass(slots=True)
class EngineFixture:
    """A directory in which threads are opened with an engine."""

    place: Path
    make: Callable[[Path], Awaitable[ContextEngine]]
    engines: list[ContextEngine] = field(default_factory=list)
    """The instances that threads were given, in order."""

    @asynccontextmanager
    async def open_thread(
        self,
        thread: str | None = None,
        *,
        around: CallWrapper = pass_through,
        timeouts: EngineTimeouts | None = None,
    ) -> AsyncIterator[Thread]:
        """Open a thread with the engine, and `around` between them."""

        async def factory(context: EngineContext) -> ContextEngine:
            assert context.home is not None
            self.engines.append(await self.make(context.home))
            return wrap_engine(self.engines[-1], around)

        engines = EngineRegistry()
        engines.register(_NAME, factory)
        model = ScriptedModel(_SCRIPT)
        try:
            async with Thread.open(
                thread,
                model=model,
                home=self.place,
                cwd=self.place,
                tools=(look,),
                rights=Rights(sandbox="danger-full-access", approval="never"),
                engine=EngineOptions(
                    engine=_NAME, registry=engines, timeouts=timeouts or EngineTimeouts()
                ),
            ) as opened:
                yield opened
        finally:
            await model.close()

    async def recall(self, thread: str) -> bytes:
        """Return what a new instance of the engine recalls of a thread."""
        engine = await self.make(self.place / "engines" / _NAME)
        async with self.open_thread(thread) as opened:
            found = await recall_from(engine, opened)
        await dispose_engine(engine)
        return found


async def recall_from(engine: ContextEngine, thread: Thread) -> bytes:
    """Return what an engine recalls of a thread if nothing is visible, without ids."""
    log = StoredLogReader(thread.id, thread.store, thread.index)
    shown = await engine.assemble(
        FakeConversation(thread.id, log=log).assemble_params(SUBJECT, visible=0)
    )
    return _ID.sub(b"NAME", bodies(shown))


async def run_turn(thread: Thread, text: str = f"A {SUBJECT}, please") -> list[Event]:
    """Run a turn that must be completed; return its events."""
    events = [event async for event in thread.run(text)]
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    assert (end.status, end.text) == ("completed", "It has stripes."), end.error
    return events


async def dispose_engine(engine: ContextEngine) -> None:
    """Dispose of an engine that can be disposed of."""
    if isinstance(engine, Disposes):
        await engine.dispose()


async def unpaired_calls(thread: Thread) -> list[str | None]:
    """Return the calls of a log that do not have exactly one result."""
    balance: Counter[tuple[int, int, str | None]] = Counter()
    for entry in await thread.store.read(thread.id):
        item = decode_item(entry.body) if entry.kind == "item" else None
        if isinstance(item, FunctionCall):
            balance[entry.turn, entry.step, item.call_id] += 1
        elif isinstance(item, FunctionCallOutput):
            balance[entry.turn, entry.step, item.call_id] -= 1
    return [call for (_, _, call), count in balance.items() if count]
