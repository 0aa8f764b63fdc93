"""The reply sender: how the replies of one open thread leave it.

Owns the channels of the thread: replies that a crash left undelivered are sent when it is
opened, each turn's reply when the turn has ended, and those that have to wait are tried
again while the thread is open. Invariant: a channel that fails does not disturb a turn; a
reply that was not delivered stays in the outbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from ..core.aio import finish_uncancelled
from ..core.errors import TreadleError
from ..core.provenance import InputProvenance
from ..log.thread_log import ThreadLog
from .channel import Channel, ReplyOrigin
from .deliveries import Deliveries
from .outbox import DeliveryFollower, DeliveryReport

__all__ = ["HOST", "ReplySender"]

_WAITS = (
    "a reply could not be delivered yet; it is tried again while the thread is open, "
    "and when it is opened the next time"
)

HOST = "host"
"""The name of a channel that a host gives without one."""


class ReplySender:
    """Delivers the replies of one open thread; `notify` shows the user one line."""

    def __init__(
        self, log: ThreadLog, channels: Mapping[str, Channel], notify: Callable[[str], None]
    ) -> None:
        self._log = log
        self._notify = notify
        self._deliveries = Deliveries(log.store, channels)
        self._deliveries.attach(log.id, log)
        self._follower = DeliveryFollower(log.id, dispatcher=next(iter(channels), ""))
        log.followers.append(self._follower)
        self._retrying: asyncio.Task[None] | None = None

    def expect(self, origin: ReplyOrigin | None, provenance: InputProvenance | None) -> None:
        """Prepare for a turn: set where its reply goes, and whether its input is internal."""
        self._follower.origin = origin or ReplyOrigin()
        internal = provenance is not None and provenance.kind == "internal_system"
        self._follower.policy = msgspec.structs.replace(self._follower.policy, internal=internal)

    async def send(self) -> None:
        """Deliver what is due; retry in the background what has to wait."""
        await self._stop_retrying()
        report = await self._drain()
        if report is not None and report.due is not None:
            self._notify(_WAITS)
            self._retrying = asyncio.create_task(self._retry(), name="deliveries")

    async def close(self) -> None:
        """Deliver what is due and stop; whoever opens the thread next goes on."""
        await self._stop_retrying()
        await self._drain()
        self._deliveries.detach(self._log.id)

    async def _drain(self) -> DeliveryReport | None:
        try:
            report = await finish_uncancelled(self._deliveries.drain(self._log.id))
        except TreadleError as error:
            self._notify(f"replies could not be delivered: {error}; they stay in the outbox")
            return None
        self._notify_blocked(report)
        return report

    async def _retry(self) -> None:
        with suppress(TreadleError):
            self._notify_blocked(await self._deliveries.run(self._log.id))

    def _notify_blocked(self, report: DeliveryReport) -> None:
        for each in report.blocked:
            self._notify(f"the reply {each.key!r} was put aside: {each.reason}")

    async def _stop_retrying(self) -> None:
        task, self._retrying = self._retrying, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
