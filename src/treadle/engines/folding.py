"""Folding: an engine's compaction, or the runtime's with the engine's words.

Owns what is asked of an engine when the view must become smaller. Invariant: a compaction
that frees nothing publishes nothing, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ..context.row import Row
from ..core.entries import Reason
from ..core.errors import CannotCompact, EngineFailed, StaleEpoch
from .contract import ContextEngine, InterceptsCompaction
from .conversation import conversation_fields, named_rows
from .frame import CallContext
from .guard import EngineGuard
from .values import (
    CompactionTrigger,
    CompactParams,
    CompactResult,
    InterceptParams,
    InterceptResult,
)
from .view_change import InvalidEngineOutput, check_live
from .words import brief

if TYPE_CHECKING:
    from .linear import CompactionOutcome

__all__ = ["Compactor"]

_PURPOSE = "context-engine.compaction"


class Compactor(Struct):
    """The compactions of one thread."""

    engine: ContextEngine
    guard: EngineGuard
    frame: CallContext
    seconds: float

    async def compact(
        self,
        trigger: CompactionTrigger,
        *,
        live: bool,
        delegate: Callable[[], Awaitable[CompactionOutcome]],
    ) -> CompactionOutcome:
        """Let the engine fold the view. Raises `EngineFailed` and `CannotCompact`."""
        delegated = _Delegated(delegate)
        log = self.frame.log
        epoch, upto = log.view.epoch, log.view.upto
        given = CompactParams(
            token_budget=self.frame.budget(),
            current_tokens=log.requests.occupied or None,
            trigger=trigger,
            force=trigger != "auto",
            live=live,
            cancelled=asyncio.Event(),
            delegate=delegated,
            **self.frame.conversation.fields(),
            **self.frame.fields(_PURPOSE),
        )
        try:
            result = await self.guard.call(
                "compact",
                self.engine.compact,
                given,
                CompactResult,
                self.seconds,
                extended=lambda: delegated.running,
            )
        finally:
            await delegated.close()
        try:
            if live and delegated.done is None and result.rebase is not None:
                check_live(log.view, log.turn, result.rebase.items)
            return delegated.done or await self._published(result, epoch, upto)
        except (InvalidEngineOutput, StaleEpoch) as error:
            raise EngineFailed(self.guard.info.id, "compact", brief(str(error))) from error

    async def intercept(self, rows: Sequence[Row], trigger: CompactionTrigger) -> str | None:
        """The engine's summary of `rows`; None lets the runtime write one."""
        if not isinstance(self.engine, InterceptsCompaction):
            return None
        log = self.frame.log
        given = InterceptParams(
            trigger=trigger,
            current_tokens=log.requests.occupied or None,
            cancelled=asyncio.Event(),
            **conversation_fields(named_rows(log.id, rows).items()),
            **self.frame.fields(_PURPOSE),
        )
        method = self.engine.intercept_compaction
        done = await self.guard.call(
            "intercept_compaction", method, given, InterceptResult, self.seconds
        )
        return done.summary or None

    async def _published(self, result: CompactResult, epoch: int, upto: int) -> CompactionOutcome:
        from .linear import CompactionOutcome
        from .publish import publish

        log, name = self.frame.log, self.guard.info.id
        if not result.ok or not result.compacted or result.rebase is None:
            why = brief(result.reason) or "it says that nothing can be folded"
            raise CannotCompact(f"engine {name!r} did not fold thread {log.id!r}: {why}")
        sizes = await publish(
            log,
            tuple(result.rebase.items),
            by=name,
            epoch=epoch,
            upto=upto,
            smaller=True,
            reason=Reason.COMPACTION,
        )
        if sizes is None:
            raise CannotCompact(f"engine {name!r} freed nothing of thread {log.id!r}")
        return CompactionOutcome(*sizes, by=name)


class _Delegated(Struct):
    """The runtime's compaction, as an engine may call it: once, and while it is asked."""

    compact: Callable[[], Awaitable[CompactionOutcome]]
    done: CompactionOutcome | None = None
    _task: asyncio.Task[CompactionOutcome] | None = None
    _over: bool = False

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self._task is not None and not self._task.done()

    async def __call__(self) -> CompactResult:
        if self._over or self._task is not None:
            return CompactResult(ok=False, reason="it folds once, and while the engine is asked")
        self._task = asyncio.ensure_future(self.compact())
        try:
            self.done = await self._task
        except CannotCompact as error:
            return CompactResult(ok=False, reason=str(error))
        before, after = self.done.tokens_before, self.done.tokens_after
        return CompactResult(compacted=True, tokens_before=before, tokens_after=after)

    async def close(self) -> None:
        """Break off what is under way: the engine has answered, and the turn goes on."""
        self._over = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
