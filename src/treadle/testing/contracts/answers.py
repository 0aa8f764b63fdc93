"""Reading a model's answers in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from ...core.items import Item, Message
from ...core.stream import OutputItemDone, ResponseCompleted
from ...models.contract import Model, ModelError, ModelEvent, ModelRequest

__all__ = [
    "collect",
    "collect_any",
    "collect_failed",
    "completion_of",
    "done_items",
    "done_messages",
    "wait_until",
]


async def collect(model: Model, request: ModelRequest) -> list[ModelEvent]:
    """Return every event of an answer."""
    events, error = await collect_any(model, request)
    if error is not None:
        raise error
    return events


async def collect_failed(
    model: Model, request: ModelRequest
) -> tuple[list[ModelEvent], ModelError]:
    """Return every event of an answer that fails, and its error."""
    events, error = await collect_any(model, request)
    assert error is not None, "the answer did not fail"
    return events, error


async def collect_any(
    model: Model, request: ModelRequest
) -> tuple[list[ModelEvent], ModelError | None]:
    """Return every event of an answer, and its error if it failed."""
    events: list[ModelEvent] = []
    try:
        async with aclosing(model.stream(request)) as batches:
            async for batch in batches:
                assert batch, "a batch is never empty"
                events += batch
    except ModelError as error:
        return events, error
    return events, None


def done_items(events: Sequence[ModelEvent]) -> list[Item]:
    """Return the complete items."""
    return [event.item for event in events if isinstance(event, OutputItemDone)]


def done_messages(events: Sequence[ModelEvent]) -> list[Message]:
    """Return the complete messages."""
    return [item for item in done_items(events) if isinstance(item, Message)]


def completion_of(events: Sequence[ModelEvent]) -> ResponseCompleted:
    """Return the last event, which must be the completion."""
    last = events[-1]
    assert isinstance(last, ResponseCompleted)
    return last


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for something that another task brings about."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.005)
