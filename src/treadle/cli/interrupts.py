"""Breaking off: what Ctrl-C does while a turn runs.

Invariant: the first one ends the turn so that everything is durable and every call has
its result; the second does not wait for that, and still leaves no process behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import click
from msgspec import Struct, field

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["INTERRUPTED", "Breaker"]

INTERRUPTED = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE = 2.0


class Breaker(Struct):
    """Listens for signals until its event loop is closed."""

    thread: Thread
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    _leaving: asyncio.Task[None] | None = None

    def install(self) -> None:
        """Begin to listen."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.again)

    def again(self) -> None:
        """Somebody wants the turn to end."""
        if not self.asked.is_set():
            self.asked.set()
            click.echo("treadle: interrupting; once more leaves at once", err=True)
            self.thread.interrupt()
        elif self._leaving is None:
            self._leaving = asyncio.create_task(self._leave())
        else:
            os._exit(INTERRUPTED)

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.thread.end_commands()
        finally:
            os._exit(INTERRUPTED)
