"""Hearing: the way of events from a turn to those who listen.

Owns who hears what, and the events that wait for whoever runs the turn. Invariant: nobody
who listens can break the turn, or hears a secret; what came together is taken together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct, field

from .events import CompactionFinished, Event, TurnCompleted
from .hushed import hushed

__all__ = ["Heard", "Hearing"]

_log = logging.getLogger(__name__)


class Hearing(Struct):
    """Everyone who hears what happens in a thread."""

    observers: list[Callable[[Event], None]]
    listener: Callable[[Event], None] | None = None
    """Who runs the turn; nobody in between."""
    folded: bool = False
    """The view was folded since somebody last looked."""

    def hear(self, event: Event) -> None:
        """Tell everyone."""
        event = hushed(event)
        if isinstance(event, CompactionFinished) and not event.error:
            self.folded = True
        for observer in self.observers:
            try:
                observer(event)
            except Exception as error:  # noqa: BLE001 - who only watches must not end the turn
                _log.warning("an observer failed: %r", error)
        if self.listener is not None:
            self.listener(event)
            if isinstance(event, TurnCompleted):
                # Agents go on; what they do from here on is not of this turn.
                self.listener = None


class Heard(Struct):
    """Events that wait for whoever runs a turn."""

    _waiting: list[Event] = field(default_factory=list)
    _ended: bool = False
    _reader: asyncio.Future[None] | None = None

    def put(self, event: Event) -> None:
        """One more."""
        self._waiting.append(event)
        self._wake()

    def end(self) -> None:
        """There will be no more."""
        self._ended = True
        self._wake()

    async def next(self) -> list[Event]:
        """All that wait, or will next; empty when there will be no more."""
        while not (self._waiting or self._ended):
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        taken, self._waiting = self._waiting, []
        return taken

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
