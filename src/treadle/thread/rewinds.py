"""Taking back turns: what a host can ask of a thread.

Owns when: between turns, and when the copies of the newest turn are complete. Invariant: what
rewinding needs is loaded with the first rewind, because most threads have none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ..core.aio import finish_uncancelled

if TYPE_CHECKING:
    from ..engines.session import EngineSession
    from ..log.thread_log import ThreadLog
    from .policy import ThreadPolicy
    from .rewinding import Rewinding, RewindPlan, Rewound

__all__ = ["ThreadRewinds"]


class ThreadRewinds:
    """Takes back turns of a thread, and the files that they changed."""

    def __init__(
        self,
        log: ThreadLog,
        policy: ThreadPolicy,
        turns: asyncio.Lock,
        *,
        settle: Callable[[], Awaitable[None]],
        engine: EngineSession,
    ) -> None:
        self._log, self._policy, self._lock = log, policy, turns
        self._settle, self._engine = settle, engine

    async def plan(self, turns: int = 1, *, to: int | None = None) -> RewindPlan:
        """Return what `apply` would hide and restore: the last turns, or all after entry `to`.

        Nothing is changed. Waits for a turn under way. Raises `IllegalCut` when there are
        fewer turns.
        """
        async with self._lock:
            return await (await self._work()).plan(turns, to)

    async def plan_undo(self) -> RewindPlan:
        """Return what undoes the newest rewind. Raises `NotFound` when there is none."""
        async with self._lock:
            return await (await self._work()).plan_undo()

    async def apply(
        self,
        plan: RewindPlan,
        *,
        conversation: bool = True,
        files: bool = True,
        overwrite: bool = False,
    ) -> Rewound:
        """Do what was planned: hide the conversation, restore the files, or both.

        Files that somebody else changed, too, are left unless you `overwrite` them. What
        changed since the plan was made is left and named. `plan_undo` is the way back.
        """
        async with self._lock:
            work = await self._work()
            return await finish_uncancelled(
                work.apply(plan, conversation=conversation, files=files, overwrite=overwrite)
            )

    async def _work(self) -> Rewinding:
        from .rewinding import Rewinding

        await self._settle()
        return Rewinding(self._log, self._policy, self._engine)
