"""A queue in the host's own process, as a channel.

Invariant: a delivery is handed out once in the life of the process, and stays in the outbox
until the host has acknowledged it; after a crash it is handed out again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from ...core.errors import ConfigError
from ..channel import Delivery, Receipt

__all__ = ["QueueChannel"]

_MOST_DONE = 10_000
"""Acknowledged keys that are remembered, for a pass that has just read their rows."""


@dataclass(slots=True, eq=False)
class QueueChannel:
    """Hands replies to a host, which acknowledges each when it is done with it.

    `async for delivery in queue` never ends; leave it with ``break``.
    """

    _waiting: asyncio.Queue[Delivery] = field(init=False, default_factory=asyncio.Queue)
    _held: dict[str, Delivery] = field(init=False, default_factory=dict)
    _done: dict[str, None] = field(init=False, default_factory=dict)
    _acknowledge: Callable[[Delivery], Awaitable[None]] | None = field(init=False, default=None)

    @property
    def kind(self) -> str:
        """Return ``queue``."""
        return "queue"

    @property
    def deduplicates(self) -> bool:
        """Return True: a key is handed out once."""
        return True

    @property
    def waiting(self) -> int:
        """The number of replies that nobody has taken yet."""
        return self._waiting.qsize()

    def bind(self, acknowledge: Callable[[Delivery], Awaitable[None]], /) -> None:
        """Call `acknowledge` for each acknowledged delivery."""
        self._acknowledge = acknowledge

    def withdraw(self, thread: str, /) -> None:
        """Forget the deliveries of `thread` that nobody has taken yet."""
        left = [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]
        for delivery in left:
            if delivery.thread == thread:
                del self._held[delivery.key]
            else:
                self._waiting.put_nowait(delivery)

    async def deliver(self, delivery: Delivery, /) -> Receipt:
        """Add one reply, unless it is known."""
        if delivery.key in self._done:
            return Receipt("delivered")
        if delivery.key not in self._held:
            self._held[delivery.key] = delivery
            self._waiting.put_nowait(delivery)
        return Receipt("held")

    async def get(self) -> Delivery:
        """Wait for the next reply and return it."""
        return await self._waiting.get()

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    async def __anext__(self) -> Delivery:
        return await self.get()

    async def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge a reply; it never comes again after this. May be called twice."""
        if self._acknowledge is None:
            raise ConfigError("no `Deliveries` uses this queue; pass it to one first")
        await self._acknowledge(delivery)
        self._held.pop(delivery.key, None)
        self._done[delivery.key] = None
        if len(self._done) > _MOST_DONE:
            del self._done[next(iter(self._done))]
