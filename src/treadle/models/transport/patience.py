"""How long an exchange may take, and how long it may stay silent.

Invariant: one timer for each limit, however many bytes pass; activity only moves
a number, and the timer looks at it when it fires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .contract import Timeouts
from .errors import Phase

__all__ = ["ExchangeTimers"]


class ExchangeTimers:
    """Calls `expire` once when a limit is passed.

    Silence counts only while `waiting()`: a slow consumer is not the server's fault.
    """

    __slots__ = ("_expire", "_idle", "_idle_timer", "_last", "_loop", "_total_timer", "_waiting")

    def __init__(
        self,
        timeouts: Timeouts,
        deadline: float | None,
        *,
        waiting: Callable[[], bool],
        expire: Callable[[Phase, float], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting, self._expire = waiting, expire
        self._last = self._loop.time()
        self._idle = timeouts.idle
        self._idle_timer: asyncio.TimerHandle | None = None
        self._total_timer: asyncio.TimerHandle | None = None
        if timeouts.idle is not None:
            self._idle_timer = self._loop.call_at(self._last + timeouts.idle, self._look)
        if deadline is not None:
            self._total_timer = self._loop.call_at(deadline, expire, "total", timeouts.total or 0.0)

    def touch(self) -> None:
        """Something happened just now."""
        self._last = self._loop.time()

    def stop(self) -> None:
        """The exchange is over."""
        for timer in (self._idle_timer, self._total_timer):
            if timer is not None:
                timer.cancel()

    def _look(self) -> None:
        assert self._idle is not None
        if not self._waiting():
            self.touch()
        due = self._last + self._idle
        if due <= self._loop.time():
            self._expire("idle", self._idle)
        else:
            self._idle_timer = self._loop.call_at(due, self._look)
