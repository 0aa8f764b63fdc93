"""Children: what an engine hears of the agents that its thread starts.

Owns the calls about them. Invariant: a child whose engine cannot prepare it does not start;
what fails when it did not start, or is over, is told and nothing else.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ..core.errors import EngineFailed
from .contract import FollowsSubagents, PreparesSpawns, Rollback
from .frame import CallContext
from .guard import EngineGuard
from .telling import EngineReporter
from .values import EndReason, SpawnParams, SubagentEndedParams

__all__ = ["Children"]


class Children(Struct):
    """The children of one thread, as its engine is told of them."""

    guard: EngineGuard
    frame: CallContext
    telling: EngineReporter
    seconds: float

    async def prepare(
        self, engine: PreparesSpawns, child: str, mode: Literal["isolated", "fork"]
    ) -> Rollback | None:
        """One is about to start; what takes that back. Raises `EngineFailed`."""
        assert self.frame.thread is not None, "a turn renews its frame"
        given = SpawnParams(
            parent=self.frame.thread, child=await self.frame.thread_ref(child), mode=mode
        )
        try:
            prepared: object = await self.guard.call(
                "prepare_subagent_spawn",
                engine.prepare_subagent_spawn,
                given,
                object,
                self.seconds,
            )
        except EngineFailed as error:
            await self.telling.report_failure(error, so="the agent is not started")
            raise
        await self.telling.clear_failures("prepare_subagent_spawn")
        return self._taken_back(prepared) if callable(prepared) else None

    async def ended(self, engine: FollowsSubagents, child: str, reason: EndReason) -> None:
        """One is over."""
        given = SubagentEndedParams(child=child, reason=reason)
        method = engine.on_subagent_ended
        try:
            await self.guard.call("on_subagent_ended", method, given, type(None), self.seconds)
        except EngineFailed as error:
            await self.telling.report_failure(error)
        else:
            await self.telling.clear_failures("on_subagent_ended")

    def _taken_back(self, rollback: Rollback) -> Rollback:
        """What an engine does when a child does not start; its failure is not the child's."""

        async def take_back() -> None:
            operation = "prepare_subagent_spawn rollback"
            try:
                await self.guard.call(operation, rollback, None, object, self.seconds)
            except EngineFailed as error:
                await self.telling.report_failure(error)

        return take_back
