"""Manual compaction of a Codex thread.

Owns asking Codex to compact, and following the turn in which it does so. Invariant: the
outcome is returned, and no error is raised: the caller has already done its own part.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from ...core.aio import finish_uncancelled
from ...core.errors import TreadleError
from ..contract import NativeCompaction, TurnRun
from .codex_threads import CodexThread
from .errors import CodexError
from .mirror import DeferredLog
from .native_compaction import BACKEND, COMPACTED, NativeCompactions
from .protocol.client_requests import CompactThread, InterruptTurn
from .protocol.notifications import RawItemNotification, TurnStartedNotification
from .turn_events import TurnEvents

__all__ = ["COMPACT_SECONDS", "compact_manually"]

COMPACT_SECONDS = 180.0
"""Seconds that Codex has for a compaction."""
_GRACE_SECONDS = 30.0


async def compact_manually(
    run: TurnRun, thread: CodexThread, seconds: float = COMPACT_SECONDS
) -> NativeCompaction:
    """Let Codex compact the thread; return the outcome."""
    compactions = NativeCompactions(run, manual=True)
    events = TurnEvents(run, thread, compactions, DeferredLog(run))
    turn = _CompactionTurn(thread, events)
    try:
        await thread.begin_turn(run.log)
        async with asyncio.timeout(seconds):
            await thread.connection.call(CompactThread(thread_id=thread.id))
            await turn.follow()
    except TimeoutError:
        grace = min(seconds, _GRACE_SECONDS)
        return await turn.stop(f"it took longer than {seconds:g} s", grace)
    except TreadleError as error:
        compactions.fail(str(error))
        return _failed_compaction(str(error))
    except asyncio.CancelledError:
        await finish_uncancelled(turn.stop("it was broken off", _GRACE_SECONDS))
        raise
    why = events.error.message if events.error else "nothing was compacted"
    return compactions.result or _failed_compaction(why)


@dataclass(slots=True)
class _CompactionTurn:
    """A Codex turn that only compacts."""

    thread: CodexThread
    events: TurnEvents
    turn: str = ""

    async def follow(self) -> None:
        """Handle its events until it ends."""
        async for event in self.thread.subscription:
            if isinstance(event, TurnStartedNotification):
                self.turn = event.turn.id
            if not self.turn or isinstance(event, RawItemNotification):
                # Raw items are injected rows that come back, or the summary.
                continue
            await finish_uncancelled(self.events.handle(event))
            if self.events.ended is not None:
                return

    async def stop(self, reason: str, grace: float) -> NativeCompaction:
        """Interrupt it. What the thread shows after that is unknown."""
        self.events.compactions.fail(reason)
        self.thread.replace_reason = COMPACTED
        with suppress(TimeoutError, CodexError):
            async with asyncio.timeout(grace):
                await self.thread.connection.call(
                    InterruptTurn(thread_id=self.thread.id, turn_id=self.turn)
                )
                await self.follow()
        return _failed_compaction(reason)


def _failed_compaction(reason: str) -> NativeCompaction:
    return NativeCompaction(backend=BACKEND, status="failed", reason=reason)
