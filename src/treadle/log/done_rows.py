"""Done rows: what has left nothing to do in the outbox, until it leaves the outbox itself.

Owns the rows that wait for the thread's next change, which takes them along. Invariant: a row
leaves when its work is done, never before; what a crash keeps there is done once more.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..core.errors import TreadleError
from ..store.contract import Change, RowName

if TYPE_CHECKING:
    from .thread_log import ThreadLog

__all__ = ["DoneRows"]

_logger = logging.getLogger(__name__)

_WAITS = 2.0
"""Seconds in which a thread at work makes its next change, also where it is one of a thousand."""


class DoneRows:
    """The rows of one thread that are done."""

    def __init__(self, log: ThreadLog, seconds: float = _WAITS) -> None:
        self._log = log
        self._seconds = seconds
        self.rows: tuple[RowName, ...] = ()
        """Those that wait."""
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, *rows: RowName) -> None:
        """Have rows leave with the next change, or a moment later if there is none."""
        self.rows += rows
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._start)

    def keep(self, rows: tuple[RowName, ...]) -> None:
        """Have rows wait on that a change did not take along after all."""
        self.rows = (*rows, *self.rows)

    def take_all(self) -> tuple[RowName, ...]:
        """Return the rows that a change takes along."""
        taken, self.rows = self.rows, ()
        return taken

    async def settle(self) -> None:
        """Have them leave now."""
        if self._task is not None:
            await self._task
        if self.rows:
            await self._log.commit(Change(light=True))

    async def close(self) -> None:
        """Have them leave before the thread is closed, if that can be."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await self._task
        await self._try_to_settle()

    def _start(self) -> None:
        self._timer = None
        if self.rows:
            self._task = asyncio.create_task(self._settle_in_time())

    async def _settle_in_time(self) -> None:
        await self._try_to_settle()
        self._task = None

    async def _try_to_settle(self) -> None:
        try:
            if self.rows:
                await self._log.commit(Change(light=True))
        except TreadleError as error:
            _logger.warning("what is done could not leave the outbox: %s", error)
