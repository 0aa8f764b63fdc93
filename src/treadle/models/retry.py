"""Retries of requests that failed: the one layer of them.

Owns the waits between attempts, and what may pass. Models send a request once; whoever
asks them for something has one budget for it, whatever goes wrong on the way. Invariant: a
wait is never longer than the patience of who waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from .contract import ModelError, RateLimited

__all__ = ["Backoff"]

T = TypeVar("T")

_LIMIT_FACTOR = 10
"""How many times longer a limit is waited for that does not say when it ends."""


def _random() -> float:
    import random  # only after a failure: it keeps the cold start short

    return random.random()  # noqa: S311 - it spreads waits, nothing more


class Backoff(Struct, frozen=True):
    """Waits that double with each attempt, spread by `jitter`.

    A wait that the server asks for comes first, unless it is longer than `longest_wait` seconds.
    """

    retries: int = 4
    base: float = 0.2
    jitter: float = 0.1
    longest_wait: float = 60.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = _random

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what `call` returns; wait and call it again while a retry may help."""
        attempt = 0
        while True:
            try:
                return await call()
            except ModelError as error:
                wait = self.wait(error, attempt)
                if wait is None:
                    raise
            await self.sleep(wait)
            attempt += 1

    def wait(self, error: ModelError, attempt: int) -> float | None:
        """Return the seconds to wait before the next attempt; None if there is none."""
        may_pass = error.retryable or (error.status or 0) >= 500
        if not may_pass or attempt >= self.retries:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.longest_wait else None
        return self.delay(attempt) * (_LIMIT_FACTOR if isinstance(error, RateLimited) else 1)

    def delay(self, attempt: int) -> float:
        """Return the wait after the given attempt, counted from 0."""
        spread = 1 - self.jitter + 2 * self.jitter * self.random()
        return self.base * 2.0**attempt * spread
