"""Interrupts: what Ctrl-C does while a turn runs.

Invariant: the first one ends the turn so that everything is durable and every call has
its result; the second does not wait for that, and still leaves no process behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

import click
from msgspec import Struct, field

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["INTERRUPTED", "LIMITED", "Interrupter"]

INTERRUPTED = 130
LIMITED = 3
"""The exit code of a turn that ended at one of its limits."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LEAVE_TIMEOUT = 2.0


class Interrupter(Struct):
    """Listens for signals until its event loop is closed."""

    thread: Thread
    requested: asyncio.Event = field(default_factory=asyncio.Event)
    _leave_task: asyncio.Task[None] | None = None

    def install(self) -> None:
        """Begin to listen for signals."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.interrupt)

    def interrupt(self) -> None:
        """Interrupt the turn; the second time leave after a moment, the third time at once."""
        if not self.requested.is_set():
            self.requested.set()
            # The terminal has written ^C behind the spinner, whose line this is.
            line = "\r\x1b[K" if sys.stderr.isatty() else ""
            click.echo(f"{line}treadle: interrupting; Ctrl-C again leaves at once", err=True)
            self.thread.interrupt()
        elif self._leave_task is None:
            self._leave_task = asyncio.create_task(self._leave())
        else:
            os._exit(INTERRUPTED)

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT):
                await self.thread.end_commands()
        finally:
            os._exit(INTERRUPTED)
