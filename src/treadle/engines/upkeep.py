"""Upkeep: an engine's maintenance, now or beside the turns.

Owns when it runs and what becomes of the view it asks for. Invariants: at most one job a
thread, a wish that comes meanwhile makes it run once more, and what came of a job beside
the turns, a view or a failure, waits for a turn in which somebody can see it.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from ..core.errors import EngineFailed, StaleEpoch
from .contract import Maintains
from .frame import CallContext
from .guard import EngineGuard
from .telling import EngineReporter
from .values import ContextItem, MaintainParams, MaintainReason, MaintainResult
from .view_change import InvalidEngineOutput, check_live

__all__ = ["Maintenance"]

_SECONDS = 60.0
_DEFERRED_SECONDS = 600.0


class _Wanted(Struct, frozen=True):
    """A view that maintenance asked for, and the one it was planned on."""

    items: tuple[ContextItem, ...]
    epoch: int
    upto: int


class Maintenance(Struct):
    """The maintenance of one thread's engine."""

    engine: Maintains
    guard: EngineGuard
    frame: CallContext
    telling: EngineReporter
    seconds: float = _SECONDS
    _job: asyncio.Task[None] | None = None
    _again: MaintainReason | None = None
    _wanted: _Wanted | None = None
    _failure: EngineFailed | None = None

    async def run(self, reason: MaintainReason) -> None:
        """Maintain now, or see that it happens beside the turns."""
        if self.guard.info.turn_maintenance_mode == "foreground" or reason == "bootstrap":
            await self._maintain(reason, self.seconds)
            await self.publish()
        elif self._job is not None and not self._job.done():
            self._again = reason
            self.telling.report("maintenance.skipped", reason=f"{reason}: joins the run under way")
        else:
            self._job = asyncio.create_task(self._deferred(reason))

    async def publish(self, *, live: bool = False) -> None:
        """Publish what was asked for, if it still fits. No request may be under way.

        With `live` a turn is, and its input must stay.
        """
        await self._tell()
        wanted, self._wanted = self._wanted, None
        if wanted is None:
            return
        from .publish import publish, view_at

        log = self.frame.log
        try:
            if live:
                check_live(view_at(log.view, wanted.upto), log.turn, wanted.items)
            await publish(
                log,
                wanted.items,
                by=self.guard.info.id,
                epoch=wanted.epoch,
                upto=wanted.upto,
            )
        except StaleEpoch:
            self.telling.report(
                "maintenance.skipped", reason="the view it planned for has moved on"
            )
        except InvalidEngineOutput as error:
            self._failure = EngineFailed(self.guard.info.id, "maintain", str(error))
            await self._tell()

    async def wait_idle(self, seconds: float) -> None:
        """Wait for the job under way, if there is one, no longer than `seconds`."""
        if self._job is not None:
            await asyncio.wait((self._job,), timeout=seconds)

    async def close(self) -> None:
        """Cancel the job under way."""
        if self._job is not None and not self._job.done():
            self._again = None
            self._job.cancel()
            await asyncio.wait((self._job,))
        await self._tell()

    async def _tell(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            await self.telling.report_failure(
                failure, "maintenance.failed", so="the view stays as it is"
            )

    async def _deferred(self, reason: MaintainReason) -> None:
        current: MaintainReason | None = reason
        while current is not None:
            await self._maintain(current, _DEFERRED_SECONDS, deferred=True)
            current, self._again = self._again, None

    async def _maintain(
        self, reason: MaintainReason, seconds: float, *, deferred: bool = False
    ) -> None:
        log = self.frame.log
        view = log.view
        epoch, upto = view.epoch, view.upto
        purpose = None if reason == "bootstrap" else f"context-engine.{reason}.maintenance"
        given = MaintainParams(
            reason=reason,
            cancelled=asyncio.Event(),
            **self.frame.conversation.fields(),
            **self.frame.fields(purpose, deferred=deferred),
        )
        try:
            done = await self.guard.call(
                "maintain", self.engine.maintain, given, MaintainResult, seconds
            )
        except EngineFailed as error:
            self._failure = error
            return
        self.telling.report("maintenance.run", reason=reason)
        await self.telling.clear_failures("maintain")
        if done.rebase is not None:
            self._wanted = _Wanted(tuple(done.rebase.items), epoch, upto)
