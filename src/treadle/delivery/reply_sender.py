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
from typing import Any

import msgspec

from ..core.aio import finish_uncancelled
from ..core.errors import StoreError, TreadleError
from ..core.provenance import InputProvenance
from ..log.thread_log import ThreadLog
from .channel import Channel, ReplyOrigin, ReplyPolicy
from .decision import SentByTool, TurnFacts
from .deliveries import Deliveries
from .outbox import EVIDENCE, DeliveryFollower, DeliveryReport, evidence_row, stored_evidence

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
        self,
        log: ThreadLog,
        channels: Mapping[str, Channel],
        notify: Callable[[str], None],
        policy: ReplyPolicy | None = None,
    ) -> None:
        self._log = log
        self._notify = notify
        self._channels = channels
        self._deliveries = Deliveries(log.store, channels)
        self._deliveries.attach(log.id, log)
        self._follower = DeliveryFollower(
            log.id,
            dispatcher=next(iter(channels), ""),
            policy=TurnFacts(**msgspec.structs.asdict(policy or ReplyPolicy())),
        )
        log.followers.append(self._follower)
        self._retrying: asyncio.Task[None] | None = None
        self._has_evidence = False
        """Whether something of a turn is stored that has not ended."""

    def expect(self, origin: ReplyOrigin | None, provenance: InputProvenance | None) -> None:
        """Prepare for a turn: set where its reply goes, and whether its input is internal."""
        self._follower.origin = origin or ReplyOrigin()
        internal = provenance is not None and provenance.kind == "internal_system"
        self._follower.policy = msgspec.structs.replace(self._follower.policy, internal=internal)

    def watch(self, *, pending: Callable[[], bool], asked: Callable[[], bool]) -> None:
        """Look there, when a turn ends, whether it goes on later and whether somebody was asked."""
        self._follower.pending, self._follower.asked = pending, asked

    def add_sent(self, channel: str, to: str, sent: SentByTool) -> None:
        """Note what a tool of the present turn has sent, and to whom."""
        sent = msgspec.structs.replace(sent, to_origin=self._is_origin(channel, to))
        self._add(sent=(*self._follower.facts.sent, sent))

    def add_media(self, url: str, *, as_voice: bool) -> None:
        """Note what a tool of the present turn has made for its reply."""
        facts = self._follower.facts
        self._add(media=(*facts.media, url), as_voice=facts.as_voice or as_voice)

    async def store_evidence(self) -> None:
        """Make durable what the tools of the present turn have sent and made so far."""
        self._has_evidence = True
        try:
            await self._log.queue(evidence_row(self._log.turn, self._follower.facts))
        except StoreError as error:
            self._notify(f"what a tool has sent could not be stored: {error}")

    async def restore_evidence(self, turn: int) -> None:
        """Know again what the tools of a turn have sent and made that a crash broke off."""
        rows = await self._log.store.outbox(thread=self._log.id, topic=EVIDENCE)
        self._has_evidence = bool(rows)
        if (found := stored_evidence(rows, turn)) is not None:
            self._add(sent=found.sent, media=found.media, as_voice=found.as_voice)

    async def forget_evidence(self) -> None:
        """Remove what was stored of turns: those that have ended have it in their own rows."""
        if not self._has_evidence:
            return
        with suppress(StoreError):  # it harms nobody, and the next turn removes it
            rows = await self._log.store.outbox(thread=self._log.id, topic=EVIDENCE)
            await self._log.queue(settle=[row.number for row in rows])
            self._has_evidence = False

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

    def _add(self, **facts: Any) -> None:
        self._follower.facts = msgspec.structs.replace(self._follower.facts, **facts)

    def _is_origin(self, channel: str, to: str) -> bool:
        """Return whether the reply of the present turn goes there, too."""
        origin = self._follower.origin
        if origin.is_complete and origin.channel in self._channels:
            return (channel, to) == (origin.channel, origin.to)
        return channel == self._follower.dispatcher

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
