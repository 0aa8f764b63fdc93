"""Folding a Codex thread by hand.

Owns asking Codex to compact natively, and hearing it out. Invariant: whatever becomes of
it is told, and nothing is raised: who asked has already done what matters.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from ...core.aio import finish_uncancelled
from ...core.errors import TreadleError
from ..contract import NativeCompaction, TurnRun
from .attachment import CodexThread
from .errors import CodexError
from .following import TurnEvents
from .keeping import DeferredLog
from .native import BACKEND, COMPACTED, NativeCompactions
from .protocol.notifications import RawItemNotification, TurnStartedNotification
from .protocol.requests import ThreadCompact, TurnInterrupt

__all__ = ["COMPACT_SECONDS", "compact_manually"]

COMPACT_SECONDS = 180.0
"""How long Codex may take."""
_GRACE = 30.0


async def compact_manually(
    run: TurnRun, attachment: CodexThread, seconds: float = COMPACT_SECONDS
) -> NativeCompaction:
    """Let Codex compact the thread; how it went."""
    following = TurnEvents(run, attachment, NativeCompactions(run, manual=True), DeferredLog(run))
    folding = _Folding(attachment, following)
    try:
        await attachment.begin_turn(run.log)
        async with asyncio.timeout(seconds):
            await attachment.connection.call(ThreadCompact(thread_id=attachment.binding.codex))
            await folding.follow()
    except TimeoutError:
        return await folding.stop(f"it took longer than {seconds:g} s", min(seconds, _GRACE))
    except TreadleError as error:
        following.compactions.fail(str(error))
        return _failed(str(error))
    except asyncio.CancelledError:
        await finish_uncancelled(folding.stop("it was broken off", _GRACE))
        raise
    return following.compactions.done or _failed(_why(following))


@dataclass(slots=True)
class _Folding:
    """A turn of Codex's that only folds."""

    attachment: CodexThread
    following: TurnEvents
    turn: str = ""

    async def follow(self) -> None:
        """Hear it out."""
        async for event in self.attachment.subscription:
            if isinstance(event, TurnStartedNotification):
                self.turn = event.turn.id
            if not self.turn or isinstance(event, RawItemNotification):
                # What was carried over is told back, and a summary is nothing that was said.
                continue
            await finish_uncancelled(self.following.handle(event))
            if self.following.ended is not None:
                return

    async def stop(self, reason: str, grace: float) -> NativeCompaction:
        """Break it off. Nobody knows what the thread shows then."""
        self.following.compactions.fail(reason)
        self.attachment.replace_reason = COMPACTED
        thread = self.attachment.binding.codex
        with suppress(TimeoutError, CodexError):
            async with asyncio.timeout(grace):
                await self.attachment.connection.call(
                    TurnInterrupt(thread_id=thread, turn_id=self.turn)
                )
                await self.follow()
        return _failed(reason)


def _failed(reason: str) -> NativeCompaction:
    return NativeCompaction(backend=BACKEND, status="failed", reason=reason)


def _why(following: TurnEvents) -> str:
    return following.failure.message if following.failure else "nothing was compacted"
