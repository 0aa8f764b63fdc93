"""A thread with the lossless engine, a model with moods, and what must always hold of them."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from tests.harness.scenes import hear, open_thread
from treadle import Thread
from treadle.context.recipe import first_context
from treadle.context.row import Row
from treadle.context.rules import Pairing
from treadle.core.items import FunctionCall, Item, Message, OutputText, encode_item
from treadle.core.provenance import SUBAGENT_ANNOUNCE, InputProvenance, InternalEvent
from treadle.core.stream import CompletedBody, OutputItemDone, ResponseCompleted
from treadle.core.wire import Json
from treadle.engines.conversation import visible_rows
from treadle.engines.lossless.call_limits import CallLimiter, CallLimits
from treadle.engines.lossless.chunks import Thresholds
from treadle.engines.lossless.engine import INFO, LosslessEngine
from treadle.engines.lossless.library import Library
from treadle.engines.lossless.nodes import SummaryNode
from treadle.harness.events import Event, StepStarted
from treadle.models.contract import (
    AuthFailed,
    Capabilities,
    Connected,
    ModelError,
    ModelEvent,
    ModelRequest,
    WireFormat,
)
from treadle.models.formats import format_named
from treadle.tools.decorator import tool

__all__ = [
    "ANNOUNCED",
    "ASKED",
    "FOREGROUND",
    "WINDOW",
    "Mood",
    "Speaker",
    "check",
    "first_block",
    "keeping",
    "look",
    "nodes_of",
    "reached_entries",
    "summaries",
    "talk",
    "words",
]

FOREGROUND = msgspec.structs.replace(INFO, turn_maintenance_mode="foreground")
"""Maintenance that a turn waits for, so that a test knows when it was done."""

ANNOUNCED: dict[str, Any] = {
    "provenance": InputProvenance(kind="inter_session", source_tool=SUBAGENT_ANNOUNCE),
    "events": (InternalEvent(source="subagent", child_thread="c", task="t", status="ok"),),
}
"""How an input is given that is shown and not to be kept."""

WINDOW = 12_000
ASKED = "Summarise the source now"
"""Stands in every request for a summary."""

Mood = Literal["good", "failing", "refused", "garbage", "wordy", "empty", "silent"]

_KEEP = re.compile(r"<must_keep>\n(.*?)\n</must_keep>", re.DOTALL)


def words(number: int, count: int = 60) -> str:
    """Text that tells nothing, and is the same for the same number."""
    return " ".join(f"w{(number * 7919 + at * 104729) % 997}" for at in range(count))


@tool(parallel=True)
async def look(number: int, count: int = 80) -> str:
    """Looks at something."""
    return f"exit code 0: saw {number} in src/seen_{number}.py. {words(number, count)}"


@dataclass(slots=True)
class Speaker:
    """A model of this process: talks, calls tools where it is told to, and writes summaries."""

    mood: Mood = "good"
    asked: int = 0
    """How many summaries were asked of it."""
    sent: list[bytes] = field(default_factory=list)
    """The requests of turns."""
    asks: list[str] = field(default_factory=list)
    """What it was asked to summarise."""
    steps: int = 0
    """How many more times it looks before it answers."""
    words: str = ""
    """What it says in a summary instead of the usual."""
    _said: int = 0

    name: str = "scripted:script"
    capabilities: Capabilities = field(default_factory=Capabilities)

    @property
    def format(self) -> WireFormat:
        """The format of the Responses API."""
        return format_named("responses")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[ModelEvent], None]:
        """Answer at once."""
        sums_up = ASKED.encode() in request.body.rpartition(b'"role":"user"')[2]
        if not sums_up:
            self.sent.append(request.body)
        items = await self._summary(request.body) if sums_up else self._turn(request.body)
        done = [OutputItemDone(Json(encode_item(item))) for item in items]
        yield [Connected(), *done, ResponseCompleted(CompletedBody(id=f"resp_{self._said}"))]

    async def close(self) -> None:
        """Nothing is open."""

    async def _summary(self, body: bytes) -> list[Item]:
        self.asked += 1
        self._said += 1
        self.asks.append(_asked(body))
        match self.mood:
            case "failing":
                raise ModelError("it has a bad day")
            case "refused":
                raise AuthFailed("who are you?")
            case "silent":
                await asyncio.Event().wait()
            case "garbage":
                return [self._says("I cannot help with that.")]
            case "wordy":
                return [self._says("So many words. " * 4_000)]
            case "empty":
                return [self._says("")]
            case "good":
                pass
        if self.words:
            return [self._says(self.words)]
        kept = _KEEP.search(_asked(body))
        facts = kept[1].replace("\n- ", "; ").removeprefix("- ") if kept else "nothing much"
        return [self._says(f"They went on about {facts[:400]}.\nExpand for details about: words")]

    def _turn(self, body: bytes) -> list[Item]:
        self._said += 1
        said = _asked(body)
        if self.steps:
            self.steps -= 1
            return [self._calls("look")]
        if not said:
            return [self._says(f"Done {self._said}. {words(self._said, 20)}")]
        calls = re.findall(r"\b(look|new_context|note_write)\b", said)
        if calls:
            return [self._calls(name) for name in calls]
        return [self._says(f"Answer {self._said} to it. {words(self._said)}")]

    def _says(self, text: str) -> Message:
        name = f"msg_{self._said}"
        return Message(id=name, role="assistant", content=(OutputText(text),))

    def _calls(self, name: str) -> FunctionCall:
        self._said += 1
        given = {
            "look": f'{{"number":{self._said}}}',
            "note_write": '{"name":"plan","text":"go on"}',
            "new_context": '{"reason":"that is done"}',
        }
        return FunctionCall(name=name, arguments=given[name], call_id=f"call_{self._said}")


def _asked(body: bytes) -> str:
    """What the last message of a request says; nothing where the last item is none."""
    last = msgspec.json.decode(body)["input"][-1]
    return str(last["content"][-1]["text"]) if last["type"] == "message" else ""


@asynccontextmanager
async def keeping(
    place: Path,
    model: Any,
    thread: str | None = None,
    *,
    window: int = WINDOW,
    thresholds: Thresholds | None = None,
    calls: int = 10_000,
    clock: Callable[[], float] = time.time,
    **options: Any,
) -> AsyncIterator[tuple[Thread, LosslessEngine]]:
    """A thread with the engine over the files in `place`; maintenance is waited for."""
    library = Library(place / "lossless.db", clock=clock)
    limiter = CallLimiter(limits=CallLimits(calls=calls))
    engine = LosslessEngine(library, thresholds or Thresholds(), limiter, FOREGROUND)
    options = {
        "tools": (look,),
        "facts": f"context_window = {window}\ninstructions = 'general'",
    } | options
    try:
        async with open_thread(place, model, thread=thread, engine=engine, **options) as found:
            yield found, engine
    finally:
        await library.close()


async def talk(thread: Thread, *said: Any, **how: Any) -> list[Event]:
    """A turn; whenever the model is asked, what was said to the turn stands in the view."""

    def at(event: Event) -> None:
        if isinstance(event, StepStarted):
            rows = [row for row in thread.view.rows if row.turn == thread.log.turn]
            assert any(row.shape.role == "user" and row.seq is not None for row in rows)

    return await hear(thread, *said, at=at, **how)


def summaries(thread: Thread) -> list[str]:
    """The names of the summaries in view, in order."""
    return [row.node.id for row in thread.view.rows if row.node is not None]


async def nodes_of(thread: Thread, library: Library) -> list[SummaryNode]:
    """The summaries in view, as the library knows them."""
    known = await library.nodes(summaries(thread))
    return [known[name] for name in summaries(thread)]


async def reached_entries(thread: Thread, library: Library, first: int = 1) -> list[int]:
    """The entries that the view leads to, in its order: raw ones, and those under summaries."""
    said = {row.seq for row in await _conversation(thread, first)}
    known = await library.nodes(summaries(thread))
    found: list[int] = []
    for row in thread.view.rows:
        if row.contextual:
            continue
        if row.node is None:
            assert row.seq is not None, "the engine keeps nothing but entries and summaries"
            found.append(row.seq)
            continue
        node = known.get(row.node.id)
        # A library that was lost knows a summary again when the engine is asked next.
        spans = node.spans if node else ((row.node.first, row.node.last),)
        entries = [seq for low, high in spans for seq in range(low, high + 1)]
        found += [seq for seq in entries if node is not None or seq in said]
    return found


async def check(thread: Thread, library: Library, first: int = 1) -> None:
    """Everything from entry `first` on is reached once, in order, and no pair is parted."""
    said = await _conversation(thread, first)
    assert await reached_entries(thread, library, first) == [row.seq for row in said]
    known = await library.nodes(summaries(thread))
    rows = {row.seq: row for row in said}
    for row in thread.view.rows:
        node = known.get(row.node.id) if row.node else None
        if node is not None:
            assert (node.body, node.first, node.last) == (row.body, *_ends(row))
            _whole([rows[seq] for seq in _entries(node) if seq in rows])
            await _grown(node, library)


def first_block(thread: Thread) -> list[bytes]:
    """The context that a thread began with."""
    return [row.body for row in first_context(thread.view.rows)]


async def _grown(node: SummaryNode, library: Library) -> None:
    """A node over nodes covers each of them, and none of them is an extract."""
    children = await library.nodes(node.children)
    below = [seq for child in children.values() for seq in _entries(child)]
    assert set(below) <= set(_entries(node))
    if node.depth:
        assert not any(child.degraded for child in children.values())
        assert {child.depth for child in children.values()} <= {node.depth - 1}


def _whole(rows: Sequence[Row]) -> None:
    pairing = Pairing()
    assert all(pairing.admits(row.shape, at) for at, row in enumerate(rows))
    assert pairing.open == {}


def _entries(node: SummaryNode) -> list[int]:
    return [seq for low, high in node.spans for seq in range(low, high + 1)]


def _ends(row: Row) -> tuple[int, int]:
    assert row.node is not None
    return row.node.first, row.node.last


async def _conversation(thread: Thread, first: int) -> list[Row]:
    rows = await visible_rows(thread.store, thread.id, first)
    return [row for row in rows if not row.contextual]
