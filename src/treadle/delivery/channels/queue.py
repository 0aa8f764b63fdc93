"""A queue in the host's own process, as a channel.

Invariant: a delivery is handed out once in the life of the process, and is owed until the
host has acknowledged it; what a crash leaves unacknowledged is handed out again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from ...core.errors import ConfigError
from ..channel import Delivery, Receipt

__all__ = ["QueueChannel"]

_REMEMBERED = 10_000
"""Acknowledged keys that are known again, for a pass that had read them just before."""


@dataclass(slots=True, eq=False)
class QueueChannel:
    """Hands replies to a host, which acknowledges each when it has dealt with it.

    `async for delivery in queue` never ends; leave it with ``break``.
    """

    _waiting: asyncio.Queue[Delivery] = field(init=False, default_factory=asyncio.Queue)
    _held: dict[str, Delivery] = field(init=False, default_factory=dict)
    _done: dict[str, None] = field(init=False, default_factory=dict)
    _acknowledge: Callable[[Delivery], Awaitable[None]] | None = field(init=False, default=None)

    @property
    def kind(self) -> str:
        """A queue."""
        return "queue"

    @property
    def deduplicates(self) -> bool:
        """A key is handed out once."""
        return True

    @property
    def waiting(self) -> int:
        """How many replies nobody has taken yet."""
        return self._waiting.qsize()

    def bind(self, acknowledge: Callable[[Delivery], Awaitable[None]], /) -> None:
        """Whom to tell of acknowledgements."""
        self._acknowledge = acknowledge

    def withdraw(self, thread: str, /) -> None:
        """Take back what nobody has taken yet of `thread`."""
        left = [self._waiting.get_nowait() for _ in range(self._waiting.qsize())]
        for delivery in left:
            if delivery.thread == thread:
                del self._held[delivery.key]
            else:
                self._waiting.put_nowait(delivery)

    async def deliver(self, delivery: Delivery, /) -> Receipt:
        """Take one reply in, unless it is known."""
        if delivery.key in self._done:
            return Receipt("delivered")
        if delivery.key not in self._held:
            self._held[delivery.key] = delivery
            self._waiting.put_nowait(delivery)
        return Receipt("held")

    async def get(self) -> Delivery:
        """The next reply; waits for one."""
        return await self._waiting.get()

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    async def __anext__(self) -> Delivery:
        return await self.get()

    async def acknowledge(self, delivery: Delivery) -> None:
        """The host has it: when this returns it never comes again. Harmless when called twice."""
        if self._acknowledge is None:
            raise ConfigError("nobody delivers to this queue; give it to `Deliveries` first")
        await self._acknowledge(delivery)
        self._held.pop(delivery.key, None)
        self._done[delivery.key] = None
        if len(self._done) > _REMEMBERED:
            del self._done[next(iter(self._done))]
