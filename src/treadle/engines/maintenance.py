"""Maintenance: runs an engine's `maintain`, at once or in the background.

Owns when it runs and what becomes of the view it asks for. Invariants: at most one job a
thread, a request that comes meanwhile makes it run once more, and the result of a background
job, a view or a failure, waits for a turn in which somebody can see it.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct

from ..core.errors import EngineFailed, StaleEpoch
from .call_context import CallContext
from .contract import Maintains
from .guard import EngineGuard
from .reports import EngineReporter
from .values import ContextItem, MaintainParams, MaintainReason, MaintainResult
from .view_change import InvalidEngineOutput, check_live, publish, view_at

__all__ = ["Maintenance"]

_BACKGROUND_SECONDS = 600.0


class _PlannedView(Struct, frozen=True):
    """A view that maintenance asked for, and the one it was planned on."""

    items: tuple[ContextItem, ...]
    epoch: int
    upto: int


class Maintenance(Struct):
    """The maintenance of one thread's engine."""

    engine: Maintains
    guard: EngineGuard
    context: CallContext
    reporter: EngineReporter
    seconds: float
    _job: asyncio.Task[None] | None = None
    _again: MaintainReason | None = None
    _planned: _PlannedView | None = None
    _failure: EngineFailed | None = None

    async def run(self, reason: MaintainReason) -> None:
        """Maintain now, or start a background job."""
        if self.guard.info.turn_maintenance_mode == "foreground" or reason == "bootstrap":
            await self._maintain(reason, self.seconds)
            await self.publish()
        elif self._job is not None and not self._job.done():
            self._again = reason
            self.reporter.report("maintenance.skipped", reason=f"{reason}: joins the run under way")
        else:
            self._job = asyncio.create_task(self._run_in_background(reason))

    async def publish(self, *, live: bool = False) -> None:
        """Publish the view that was asked for, if it still fits. No request may be under way.

        With `live` a turn is, and its input must stay.
        """
        await self._report_failure()
        planned, self._planned = self._planned, None
        if planned is None:
            return
        log = self.context.log
        try:
            if live:
                check_live(view_at(log.view, planned.upto), log.turn, planned.items)
            await publish(
                log,
                planned.items,
                by=self.guard.info.id,
                epoch=planned.epoch,
                upto=planned.upto,
            )
        except StaleEpoch:
            self.reporter.report(
                "maintenance.skipped", reason="the view it planned for has moved on"
            )
        except InvalidEngineOutput as error:
            self._failure = EngineFailed(self.guard.info.id, "maintain", str(error))
            await self._report_failure()

    async def wait_idle(self, seconds: float) -> None:
        """Wait for the background job, if there is one, no longer than `seconds`."""
        if self._job is not None:
            await asyncio.wait((self._job,), timeout=seconds)

    async def close(self) -> None:
        """Cancel the background job."""
        if self._job is not None and not self._job.done():
            self._again = None
            self._job.cancel()
            await asyncio.wait((self._job,))
        await self._report_failure()

    async def _report_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            await self.reporter.report_failure(
                failure, "maintenance.failed", so="the view stays as it is"
            )

    async def _run_in_background(self, reason: MaintainReason) -> None:
        current: MaintainReason | None = reason
        while current is not None:
            await self._maintain(current, _BACKGROUND_SECONDS, deferred=True)
            current, self._again = self._again, None

    async def _maintain(
        self, reason: MaintainReason, seconds: float, *, deferred: bool = False
    ) -> None:
        view = self.context.log.view
        epoch, upto = view.epoch, view.upto
        purpose = None if reason == "bootstrap" else f"context-engine.{reason}.maintenance"
        params = MaintainParams(
            reason=reason,
            cancelled=asyncio.Event(),
            **self.context.conversation.fields(),
            **self.context.fields(purpose, deferred=deferred),
        )
        try:
            done = await self.guard.call(
                "maintain", self.engine.maintain, params, MaintainResult, seconds
            )
        except EngineFailed as error:
            self._failure = error
            return
        self.reporter.report("maintenance.run", reason=reason)
        await self.reporter.clear_failures("maintain")
        if done.rebase is not None:
            self._planned = _PlannedView(tuple(done.rebase.items), epoch, upto)
