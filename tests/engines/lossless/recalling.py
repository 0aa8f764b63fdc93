"""What tests of recall share: a thread with a compacted past, and calls of its tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.scenes import call, hear, open_thread, scripted
from treadle import Thread
from treadle.core.items import FunctionCallOutput, decode_item, text_of
from treadle.engines.lossless.engine import LosslessEngine
from treadle.engines.lossless.library import Library
from treadle.testing.script import Answer
from treadle.testing.scripted import ScriptedModel

__all__ = [
    "FILLER",
    "NEEDLE",
    "compacted",
    "keeping",
    "nodes",
    "outputs",
    "recalls",
    "talking",
    "use",
]

NEEDLE = "The heron's colour is HERON_BLUE_77; keep it in src/birds/heron.py."
FILLER = "Noted. " + "The water is cold and nobody moves. " * 40


def talking(*answers: Answer) -> ScriptedModel:
    """Answers what a test wants, and else talks at length."""
    return scripted(*answers, Answer(times=0, text=FILLER))


@asynccontextmanager
async def keeping(
    place: Path, model: ScriptedModel, thread: str | None = None, **options: Any
) -> AsyncIterator[Thread]:
    """A thread with the lossless engine; its library lies beside its home."""
    library = Library(place / "lossless.db")
    try:
        async with open_thread(
            place, model, thread=thread, engine=LosslessEngine(library), **options
        ) as found:
            yield found
    finally:
        await library.close()


async def compacted(place: Path, *said: str, **options: Any) -> str:
    """A thread whose turns stand as summaries; its id."""
    async with keeping(place, talking(), **options) as thread:
        for text in said:
            await hear(thread, text)
        await thread.compact()
        return thread.id


async def use(place: Path, thread: str, tool: str, /, **arguments: Any) -> str:
    """What a tool answers in a thread."""
    model = talking(Answer(when="Use it.", calls=(call(tool, **arguments),)))
    async with keeping(place, model, thread) as found:
        await hear(found, "Use it.")
        return (await outputs(found))[-1]


async def outputs(thread: Thread) -> list[str]:
    """What the calls of a thread gave, in log order."""
    entries = await thread.store.read(thread.id)
    items = [decode_item(entry.body) for entry in entries if entry.kind == "item"]
    return [text_of(item.output) for item in items if isinstance(item, FunctionCallOutput)]


def nodes(thread: Thread) -> list[str]:
    """The summaries that a thread shows, by their names."""
    return [row.node.id for row in thread.view.rows if row.node is not None]


def recalls(model: ScriptedModel, at: int = -1) -> list[str]:
    """The recalled items that a request shows."""
    texts = [
        part["text"]
        for item in model.requests[at].payload["input"]
        if item["type"] == "message"
        for part in item["content"]
    ]
    return [text for text in texts if text.startswith("<recalled_memory>")]
