"""Live events: what happens in the turns of this process, for whoever watches from elsewhere.

Owns the listeners of each thread. Invariants: a listener that does not keep up is let go, and
never holds up a turn; nothing is kept for one that comes later, for that is in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ..core.wire import json_bytes
from ..harness.events import Event
from .turn_figures import TurnFigures

__all__ = ["Listener", "LiveFeed"]

_MOST_BEHIND = 2_000


class Listener:
    """One who hears the events of a thread, as JSON."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_BEHIND)
        self._lost = False

    async def next(self) -> bytes | None:
        """Return the next event; None where this listener was too slow, or the feed is closed."""
        return None if self._lost and self._heard.empty() else await self._heard.get()

    def tell(self, event: bytes | None) -> None:
        """Add an event; None is the last."""
        if self._lost:
            return
        try:
            self._heard.put_nowait(event)
        except asyncio.QueueFull:
            self._lost = True


class LiveFeed:
    """Passes the events of threads on to those who listen."""

    def __init__(self) -> None:
        self._listeners: dict[str, set[Listener]] = {}
        self.figures = TurnFigures()
        """What was counted of all that was passed on."""

    def publish(self, thread: str, event: Event) -> None:
        """Tell everyone who listens to a thread."""
        self.figures.add(event)
        if listeners := self._listeners.get(thread):
            told = json_bytes(event)
            for listener in listeners:
                listener.tell(told)

    @contextmanager
    def listen(self, thread: str) -> Iterator[Listener]:
        """Hear what happens in a thread from now on."""
        listener = Listener()
        self._listeners.setdefault(thread, set()).add(listener)
        try:
            yield listener
        finally:
            self._listeners[thread].discard(listener)
            if not self._listeners[thread]:
                del self._listeners[thread]

    def close(self) -> None:
        """Let everyone go who listens."""
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.tell(None)
