"""Writes that nobody waits for.

Owns the list of what is still to be written, and when that happens: a moment after the
first of them, all together. Invariant: they are done in the order they came; whoever asks
afterwards takes them first (`taken`), so that no question overtakes a write.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["LINGER_SECONDS", "Behind"]

T = TypeVar("T")

LINGER_SECONDS = 0.05
"""How long a write may wait for company, or for the disk; that long a crash may reach back."""


class Behind(Generic[T]):
    """What is to be written later. `add` on the event loop, `taken` from any thread."""

    def __init__(self, write: Callable[[], object]) -> None:
        self._write = write
        self._waiting: deque[T] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, work: T) -> None:
        """Have `work` written soon."""
        self._waiting.append(work)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._due)

    def taken(self) -> list[T]:
        """All that waits, oldest first; it waits no longer."""
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def stop(self) -> None:
        """Set off no more writing; what waits is taken by whoever ends."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        if self._waiting:
            self._write()
