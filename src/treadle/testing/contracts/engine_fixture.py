"""Threads that engine tests run: a real store, a scripted model, turns with tools in them.

Owns how such a thread is opened and what is read off it afterwards. Invariant: every
opening makes the engine anew, over what it kept before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.items import FunctionCall, FunctionCallOutput, decode_item
from ...engines.contract import ContextEngine, Disposes
from ...engines.conversation import StoredLogReader
from ...engines.guard import EngineTimeouts
from ...engines.loading import EngineContext, EngineRegistry
from ...harness.events import Event, TurnCompleted
from ...thread.options import EngineOptions, Rights
from ...thread.thread import Thread
from ...tools.decorator import tool
from ..script import Answer, Call, Script
from ..scripted import ScriptedModel
from ..wrapping import CallWrapper, Work, wrap_engine
from .conversations import SUBJECT, FakeConversation, bodies

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
"""Looks when it is asked about the subject, and can sum up what was said."""


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "There it is." + " Grass." * 500


async def pass_through(_: str, given: Any, work: Work, /) -> Any:
    """Stands in the way of nothing."""
    return await work(given)


@dataclass(slots=True)
class EngineFixture:
    """Where a thread lives together with its engine."""

    place: Path
    make: Callable[[Path], Awaitable[ContextEngine]]
    engines: list[ContextEngine] = field(default_factory=list)
    """Those that threads were given here, in order."""

    @asynccontextmanager
    async def open_thread(
        self,
        thread: str | None = None,
        *,
        around: CallWrapper = pass_through,
        patience: EngineTimeouts | None = None,
    ) -> AsyncIterator[Thread]:
        """A thread with the engine, and `around` between them."""

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
                    engine=_NAME, registry=engines, timeouts=patience or EngineTimeouts()
                ),
            ) as opened:
                yield opened
        finally:
            await model.close()

    async def recall(self, thread: str) -> bytes:
        """What an engine that is made anew knows of a thread."""
        engine = await self.make(self.place / "engines" / _NAME)
        async with self.open_thread(thread) as opened:
            found = await recall_from(engine, opened)
        await dispose_engine(engine)
        return found


async def recall_from(engine: ContextEngine, thread: Thread) -> bytes:
    """What an engine would show if a whole thread were out of sight, less all names."""
    log = StoredLogReader(thread.id, thread.store, thread.index)
    shown = await engine.assemble(
        FakeConversation(thread.id, log=log).assemble_params(SUBJECT, visible=0)
    )
    return _ID.sub(b"NAME", bodies(shown))


async def run_turn(thread: Thread, said: str = f"A {SUBJECT}, please") -> list[Event]:
    """Run a turn that must be completed; what was heard of it."""
    heard = [event async for event in thread.run(said)]
    end = heard[-1]
    assert isinstance(end, TurnCompleted)
    assert (end.status, end.text) == ("completed", "It has stripes."), end.error
    return heard


async def dispose_engine(engine: ContextEngine) -> None:
    """Dispose of an engine that can be disposed of."""
    if isinstance(engine, Disposes):
        await engine.dispose()


async def unpaired_calls(thread: Thread) -> list[str | None]:
    """The calls of a log that have no result, or more than one."""
    balance: Counter[tuple[int, int, str | None]] = Counter()
    for entry in await thread.store.read(thread.id):
        item = decode_item(entry.body) if entry.kind == "item" else None
        if isinstance(item, FunctionCall):
            balance[entry.turn, entry.step, item.call_id] += 1
        elif isinstance(item, FunctionCallOutput):
            balance[entry.turn, entry.step, item.call_id] -= 1
    return [call for (_, _, call), count in balance.items() if count]
