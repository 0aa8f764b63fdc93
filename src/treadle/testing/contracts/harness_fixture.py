"""The fixture of harness tests: a model server, a harness in front of it, and threads.

Owns how a thread is opened on a harness, the tools it has and what is read from it.
Invariant: only the loopback server is contacted, and everything that was started is closed
with the fixture.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.entries import Entry
from ...core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    decode_item,
    item_type,
    text_of,
)
from ...core.loopback import LoopbackRequest
from ...harness.contract import Closes, Harness
from ...harness.events import Event, TurnCompleted
from ...harness.offers import HarnessOffer
from ...models.providers import ProviderConfig
from ...thread.thread import Thread
from ...tools.contract import Tool
from ...tools.decorator import tool
from ..fake import FakeServer
from ..script import Answer, Call, Script
from ..thread_keywords import open_keywords

__all__ = [
    "MODEL",
    "Gate",
    "HarnessFixture",
    "call_answer",
    "log_lines",
    "look",
    "open_harness_fixture",
    "turn_end",
    "unpaired_calls",
]

MODEL = "openai:gpt-5.5"


@tool(parallel=True)
async def look() -> str:
    """Looks."""
    return "There it is."


def call_answer(name: str, *, times: int = 1) -> Answer:
    """Return an answer that calls a tool without arguments, `times` times at once."""
    return Answer(calls=tuple(Call(name=name) for _ in range(times)))


@dataclass(slots=True)
class Gate:
    """A tool that ends when it is opened, or never."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def tool(self) -> Tool:
        """Return the tool."""

        @tool(parallel=True)
        async def gate() -> str:
            """Waits."""
            self.entered.set()
            await self.opened.wait()
            return "It is open."

        return gate


@dataclass(slots=True)
class HarnessFixture:
    """One harness, its model server and its directories."""

    place: Path
    server: FakeServer
    harness: Harness
    offer: HarnessOffer
    model: str

    @property
    def requests(self) -> list[LoopbackRequest]:
        """Return the requests that the model was sent."""
        return [asked for asked in self.server.requests if asked.path.endswith("/responses")]

    @asynccontextmanager
    async def open_thread(
        self, thread: str | None = None, *, tools: Sequence[Tool] | None = (look,), **options: Any
    ) -> AsyncIterator[Thread]:
        """Open a thread on the harness."""
        async with Thread.open(
            thread,
            **open_keywords(
                model=self.model,
                home=self.offer.home,
                cwd=self.place / "project",
                harness=self.harness,
                environ=self.offer.environ,
                providers=self.offer.providers,
                sandbox="danger-full-access",
                approval="never",
                tools=tools,
                **options,
            ),
        ) as opened:
            yield opened


@asynccontextmanager
async def open_harness_fixture(
    place: Path, make: Callable[[HarnessOffer], Harness], model: str, *answers: Answer
) -> AsyncIterator[HarnessFixture]:
    """Open a fixture whose model gives these answers."""
    for name in ("home", "user", "project"):
        (place / name).mkdir(exist_ok=True)
    async with FakeServer(Script(answers=answers)) as server:
        provider = model.partition(":")[0]
        reached = ProviderConfig(
            api="responses", base_url=server.base_url, key="sk-contract", retries=0
        )
        environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(place / "user")}
        offer = HarnessOffer(home=place / "home", environ=environ, providers={provider: reached})
        harness = make(offer)
        try:
            yield HarnessFixture(place, server, harness, offer, model)
        finally:
            if isinstance(harness, Closes):
                await harness.close()


def turn_end(events: Sequence[Event]) -> TurnCompleted:
    """Return the end of a turn, which must be the last event and the only end."""
    end = events[-1]
    assert isinstance(end, TurnCompleted)
    assert [event for event in events if isinstance(event, TurnCompleted)] == [end]
    return end


async def log_lines(thread: Thread) -> list[str]:
    """Return a line for each item of the log, in order; context is left out."""
    entries = await thread.store.read(thread.id)
    return [_line(entry) for entry in entries if entry.kind == "item" and not entry.fragments]


def _line(entry: Entry) -> str:
    item = decode_item(entry.body)
    match item:
        case Message():
            return f"{item.role}: {text_of(item.content)}"
        case FunctionCall() | CustomToolCall():
            return f"call {item.name}"
        case FunctionCallOutput() | CustomToolCallOutput():
            return f"output {text_of(item.output)}"
        case _:
            return item_type(item)


async def unpaired_calls(thread: Thread) -> list[str | None]:
    """Return the calls of a log that do not have exactly one result."""
    balance: Counter[str | None] = Counter()
    for entry in await thread.store.read(thread.id):
        item = decode_item(entry.body) if entry.kind == "item" else None
        if isinstance(item, FunctionCall | CustomToolCall):
            balance[item.call_id] += 1
        elif isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            balance[item.call_id] -= 1
    return [call for call, count in balance.items() if count]
