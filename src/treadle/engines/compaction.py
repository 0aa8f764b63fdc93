"""Compaction: asks an engine to make the view smaller.

Owns the parameters of `compact` and `intercept_compaction`, and what becomes of the answer.
Invariant: a compaction that frees nothing publishes nothing, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ..context.row import Row
from ..core.entries import Reason
from ..core.errors import CannotCompact, EngineFailed, StaleEpoch
from ..core.items import Item, Message
from ..core.redact import one_line
from .call_context import CallContext
from .contract import ContextEngine, InterceptsCompaction
from .conversation import conversation_fields, named_rows
from .guard import EngineGuard
from .maintenance import Maintenance
from .reports import EngineReporter
from .values import (
    CompactionTrigger,
    CompactParams,
    CompactResult,
    InterceptParams,
    InterceptResult,
)
from .view_change import InvalidEngineOutput, check_live, publish

__all__ = [
    "CompactionModel",
    "CompactionOutcome",
    "Compactor",
    "ProviderCompaction",
    "SummariseRows",
]

_PURPOSE = "context-engine.compaction"

SummariseRows: TypeAlias = Callable[[Sequence[Row], Message], Awaitable[str]]
"""Asks the model about some rows; raises `TooLong` when they do not fit its window."""

ProviderCompaction: TypeAlias = Callable[[Sequence[Row]], Awaitable[Item]]
"""Lets the provider compact rows into one item; raises `TooLong` or `CannotCompact`."""


class CompactionModel(Struct, frozen=True):
    """How the thread's own model helps to compact."""

    summarise: SummariseRows
    compact: ProviderCompaction | None = None
    """None where the provider cannot compact conversations itself."""


class CompactionOutcome(Struct, frozen=True):
    """What a compaction did."""

    tokens_before: int
    tokens_after: int
    left_out: int = 0
    """Rows that did not fit into the request for the summary."""
    by: str = "linear"
    """``provider`` where the provider compacted."""
    details: Mapping[str, Any] = {}
    """What else was done about it, such as ``nativeCompaction``."""


class Compactor(Struct):
    """Asks the engine of one thread about compactions."""

    engine: ContextEngine
    guard: EngineGuard
    context: CallContext
    reporter: EngineReporter
    maintenance: Maintenance | None
    seconds: float

    async def compact(
        self,
        trigger: CompactionTrigger,
        *,
        live: bool,
        delegate: Callable[[], Awaitable[CompactionOutcome]],
    ) -> CompactionOutcome:
        """Let the engine compact, then maintain. Raises `EngineFailed`, `CannotCompact`."""
        try:
            outcome = await self._ask(trigger, live=live, delegate=delegate)
        except EngineFailed as error:
            await self.reporter.record_failure(error, "compaction.failed")
            raise
        self.reporter.report(
            "compaction.completed", tokens=outcome.tokens_after, reason=f"by {outcome.by}"
        )
        await self.reporter.clear_failures("compact")
        if self.maintenance is not None:
            await self.maintenance.run("compaction")
        return outcome

    async def _ask(
        self,
        trigger: CompactionTrigger,
        *,
        live: bool,
        delegate: Callable[[], Awaitable[CompactionOutcome]],
    ) -> CompactionOutcome:
        delegated = _DelegatedCompaction(delegate)
        log = self.context.log
        epoch, upto = log.view.epoch, log.view.upto
        params = CompactParams(
            token_budget=self.context.budget(),
            current_tokens=log.requests.occupied or None,
            trigger=trigger,
            force=trigger != "auto",
            live=live,
            cancelled=asyncio.Event(),
            delegate=delegated,
            **self.context.conversation.fields(),
            **self.context.fields(_PURPOSE),
        )
        try:
            result = await self.guard.call(
                "compact",
                self.engine.compact,
                params,
                CompactResult,
                self.seconds,
                extended=lambda: delegated.is_running,
            )
        finally:
            await delegated.close()
        try:
            if live and delegated.outcome is None and result.rebase is not None:
                check_live(log.view, log.turn, result.rebase.items)
            return delegated.outcome or await self._publish(result, epoch, upto)
        except (InvalidEngineOutput, StaleEpoch) as error:
            raise EngineFailed(self.guard.info.id, "compact", one_line(str(error))) from error

    async def intercept(self, rows: Sequence[Row], trigger: CompactionTrigger) -> str | None:
        """Ask the engine for a summary of `rows`; None lets the runtime write one."""
        if not isinstance(self.engine, InterceptsCompaction):
            return None
        log = self.context.log
        params = InterceptParams(
            trigger=trigger,
            current_tokens=log.requests.occupied or None,
            cancelled=asyncio.Event(),
            **conversation_fields(named_rows(log.id, rows).items()),
            **self.context.fields(_PURPOSE),
        )
        operation, method = "intercept_compaction", self.engine.intercept_compaction
        try:
            done = await self.guard.call(operation, method, params, InterceptResult, self.seconds)
        except EngineFailed as error:
            await self.reporter.report_failure(error, "compaction.failed")
            return None
        await self.reporter.clear_failures(operation)
        return done.summary or None

    async def _publish(self, result: CompactResult, epoch: int, upto: int) -> CompactionOutcome:
        log, name = self.context.log, self.guard.info.id
        if not result.ok or not result.compacted or result.rebase is None:
            why = one_line(result.reason) or "it says that nothing can be compacted"
            raise CannotCompact(f"engine {name!r} did not compact thread {log.id!r}: {why}")
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


class _DelegatedCompaction(Struct):
    """The runtime's compaction, as an engine may call it: once, and while it is asked."""

    compact: Callable[[], Awaitable[CompactionOutcome]]
    outcome: CompactionOutcome | None = None
    _task: asyncio.Task[CompactionOutcome] | None = None
    _is_over: bool = False

    @property
    def is_running(self) -> bool:
        """Whether it is under way."""
        return self._task is not None and not self._task.done()

    async def __call__(self) -> CompactResult:
        if self._is_over or self._task is not None:
            return CompactResult(ok=False, reason="it compacts once, and while the engine is asked")
        self._task = asyncio.ensure_future(self.compact())
        try:
            self.outcome = await self._task
        except CannotCompact as error:
            return CompactResult(ok=False, reason=str(error))
        before, after = self.outcome.tokens_before, self.outcome.tokens_after
        return CompactResult(compacted=True, tokens_before=before, tokens_after=after)

    async def close(self) -> None:
        """Cancel what is under way: the engine has answered, and the turn goes on."""
        self._is_over = True
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
