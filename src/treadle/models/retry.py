"""Asking again: when a request that got no answer is sent once more.

Owns the waits between attempts. Invariant: only what failed before any part of an
answer came is tried again here; a stream that breaks later is the caller's to resume.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from .contract import ModelError

__all__ = ["Backoff"]

T = TypeVar("T")


def _chance() -> float:
    import random  # where something has failed, and not before

    return random.random()  # noqa: S311 - it spreads waits, nothing more


class Backoff(Struct, frozen=True):
    """Waits that double, each a little longer or shorter than the last one doubled.

    A server's own wish comes first, unless it asks for more than `patience` seconds.
    """

    retries: int = 4
    base: float = 0.2
    jitter: float = 0.1
    longest_wait: float = 60.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = _chance

    async def run(self, call: Callable[[], Awaitable[T]]) -> T:
        """What `call` returns, asked for again while it fails in a way that may pass."""
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
        """Seconds to wait before the next attempt; None when there is none."""
        passes = error.retryable or (error.status or 0) >= 500
        if not passes or attempt >= self.retries:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.longest_wait else None
        return self.delay(attempt)

    def delay(self, attempt: int) -> float:
        """The wait behind the given attempt, counted from 0."""
        spread = 1 - self.jitter + 2 * self.jitter * self.random()
        return self.base * 2.0**attempt * spread
