"""The desk: how a thread's replies leave it.

Owns the channels of one open thread: what a crash left undelivered goes out when it is
opened, each turn's reply when the turn has ended, and what has to wait is tried again
while the thread is open. Invariant: a channel that fails costs no turn anything; what was
not delivered stays in the outbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from ..core.aio import finish_uncancelled
from ..core.errors import TreadleError
from ..core.provenance import InputProvenance
from ..log.thread_log import ThreadLog
from .channel import Channel
from .deliveries import Deliveries
from .outbox import DeliveryFollower
from .reports import Drained
from .route import Origin

__all__ = ["HOST", "Desk"]

_WAITS = (
    "a reply could not be delivered yet; it is tried again while the thread is open, "
    "and when it is opened the next time"
)

HOST = "host"
"""The name of a channel that a host gives without one."""


@dataclass(slots=True, eq=False, repr=False)
class Desk:
    """Delivers for one open thread."""

    log: ThreadLog
    channels: Mapping[str, Channel]
    notify: Callable[[str], None]
    """Tells the user, in one line."""
    deliveries: Deliveries = field(init=False)
    follower: DeliveryFollower = field(init=False)
    _later: asyncio.Task[None] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        first = next(iter(self.channels), "")
        self.deliveries = Deliveries(self.log.store, self.channels)
        self.deliveries.attach(self.log.id, self.log)
        self.follower = DeliveryFollower(self.log.id, dispatcher=first)
        self.log.followers.append(self.follower)

    def expect(self, origin: Origin | None, provenance: InputProvenance | None) -> None:
        """A turn is about to be admitted: where its reply goes, and whether one is waited for."""
        self.follower.origin = origin or Origin()
        internal = provenance is not None and provenance.kind == "internal_system"
        self.follower.policy = msgspec.structs.replace(self.follower.policy, internal=internal)

    async def send(self) -> None:
        """Deliver what is due, and go on beside the turns where something has to wait."""
        await self._stop()
        drained = await self._drained()
        if drained is not None and drained.due is not None:
            self.notify(_WAITS)
            self._later = asyncio.create_task(self._deliver_later(), name="deliveries")

    async def close(self) -> None:
        """Stop trying; whoever opens the thread next goes on."""
        await self._stop()
        await self._drained()
        self.deliveries.detach(self.log.id)

    async def _drained(self) -> Drained | None:
        try:
            drained = await finish_uncancelled(self.deliveries.drain(self.log.id))
        except TreadleError as error:
            self.notify(f"replies could not be delivered: {error}; they stay in the outbox")
            return None
        self._tell(drained)
        return drained

    async def _deliver_later(self) -> None:
        with suppress(TreadleError):
            self._tell(await self.deliveries.run(self.log.id))

    def _tell(self, drained: Drained) -> None:
        for each in drained.aside:
            self.notify(f"the reply {each.key!r} was put aside: {each.reason}")

    async def _stop(self) -> None:
        later, self._later = self._later, None
        if later is not None:
            later.cancel()
            await asyncio.gather(later, return_exceptions=True)
