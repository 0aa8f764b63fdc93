"""Folding a Codex thread by hand.

Owns asking Codex to compact natively, and hearing it out. Invariant: whatever becomes of
it is told, and nothing is raised: who asked has already done what matters.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ...errors import WeftError
from ...whole import whole
from ..contract import NativeCompaction, TurnRun
from .attachment import Attachment
from .errors import CodexError
from .following import Following
from .keeping import Keeping
from .native import BACKEND, NativeFold
from .protocol.notifications import RawItem, TurnStarted
from .protocol.requests import ThreadCompact, TurnInterrupt

__all__ = ["fold_by_hand"]

_PATIENCE = 180.0
_GRACE = 30.0


async def fold_by_hand(run: TurnRun, attachment: Attachment) -> NativeCompaction:
    """Let Codex compact the thread; how it went."""
    following = Following(run, attachment, NativeFold(run, by_hand=True), Keeping(run))
    turn = ""
    await attachment.begin(run.journal)

    async def follow() -> None:
        nonlocal turn
        async for event in attachment.subscription:
            if isinstance(event, TurnStarted):
                turn = event.turn.id
            if not turn or isinstance(event, RawItem):
                # What was carried over is told back, and a summary is nothing that was said.
                continue
            await whole(following.take(event))
            if following.ended is not None:
                return

    try:
        async with asyncio.timeout(_PATIENCE):
            await attachment.connection.call(ThreadCompact(thread_id=attachment.binding.codex))
            await follow()
    except TimeoutError:
        with suppress(TimeoutError, CodexError):
            async with asyncio.timeout(_GRACE):
                thread = attachment.binding.codex
                await attachment.connection.call(TurnInterrupt(thread_id=thread, turn_id=turn))
                await follow()
        following.fold.broken_off(f"it took longer than {_PATIENCE:g} s")
    except WeftError as error:
        following.fold.broken_off(str(error))
        return _failed(str(error))
    return following.fold.done or _failed(_why(following))


def _failed(reason: str) -> NativeCompaction:
    return NativeCompaction(backend=BACKEND, status="failed", reason=reason)


def _why(following: Following) -> str:
    return following.failure.message if following.failure else "nothing was compacted"
