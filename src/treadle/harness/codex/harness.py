"""The Codex harness: it runs turns on the real Codex app-server.

Owns what a thread can ask of it: run a turn, resume after a crash, preview a prompt,
compact natively, and use its models outside a conversation. Invariant: Codex owns its
loop and its tools, the log owns the conversation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from ...context.row import Row
from ...core.aio import finish_uncancelled
from ...core.errors import NotFound, TreadleError
from ...core.items import text_of
from ...core.usage import RateLimitSnapshot, RateLimitWindow
from ...engines.contract import CAPABILITIES, Capability
from ...log.thread_log import ThreadLog
from ...log.turn_input import TurnInput
from ...models.contract import Model
from ...models.providers import ProviderConfig
from ...policy.auth.accounts import Forwarding, check_bound
from ...store.contract import ENDED_STATES
from ..contract import (
    STREAM_BACKOFF,
    Identifies,
    NativeCompaction,
    Outcome,
    Preview,
    Traits,
    TurnRun,
    nobody,
)
from ..events import Event, RateLimitsReported
from .codex_options import HARNESS, CodexOptions
from .codex_threads import CodexThreads
from .codex_turn import CodexTurn
from .manual_compact import COMPACT_SECONDS, compact_manually
from .mirror import LOG_ERRORS
from .model import AppServerModel
from .native_compaction import BACKEND
from .native_projection import CODEX_STATES
from .protocol.notifications import Notification, RateLimitsNotification
from .protocol.types import LimitWindow
from .reconcile import reconcile
from .rollout_reader import wait_until_settled
from .server_pool import ServerPool
from .text_input import preview_text

__all__ = ["CODEX_TRAITS", "CodexHarness", "reported_limits", "seconds_until_reset"]

CODEX_TRAITS = Traits(
    fragments=CODEX_STATES,
    tools=True,
    room=True,
    params=frozenset(("effort", "summary", "verbosity", "service_tier")),
    transport=BACKEND,
)

_log = logging.getLogger(__name__)
_LONGEST_WAIT = 366 * 24 * 3600


class CodexHarness:
    """Runs turns on `codex app-server`, one process for many threads.

    `home` is Treadle's home; `providers` and `environ` define how models are reached.
    Close the harness when no thread needs it any more.
    """

    name = HARNESS

    def __init__(
        self,
        options: CodexOptions | None = None,
        *,
        home: Path,
        environ: Mapping[str, str],
        providers: Mapping[str, ProviderConfig] | None = None,
    ) -> None:
        self.options = options or CodexOptions()
        self.servers = ServerPool(
            options=self.options,
            home=home,
            environ=environ,
            providers=providers or {},
            listener=self._handle_notification,
        )
        self.threads = CodexThreads(servers=self.servers, mode=self.options.projection)
        self.backoff = STREAM_BACKOFF
        """The waits for limits of a provider."""
        self.compact_seconds = COMPACT_SECONDS
        """Seconds that Codex has for a manual compaction."""
        self._running: dict[str, Callable[[Event], None]] = {}
        self._limits: RateLimitSnapshot | None = None
        """The newest rate limits of the account."""
        self._unwritten: dict[str, CodexTurn] = {}
        """Turns that have ended, whose end is not in the log yet."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Return all capabilities: its threads can even be bootstrapped."""
        return CAPABILITIES

    @property
    def traits(self) -> Traits:
        """Return that it reports its environment, has tools, and compacts, all by itself."""
        return replace(CODEX_TRAITS, keeps_login=self.options.home == "user")

    async def run(self, run: TurnRun) -> Outcome:
        """Run the turn."""
        run.backoff = self.backoff
        if run.retries is not None:
            run.backoff = replace(self.backoff, retries=run.retries)
        turn = CodexTurn(run, self.threads)
        self._limits = None
        self._running[run.log.id] = run.emit
        try:
            return self._with_reset_time(await turn.execute())
        except asyncio.CancelledError:
            if not run.leaving():
                await finish_uncancelled(turn.abort())
            raise
        except Exception:
            self.threads.detach(run)
            # The first error matters; that the end cannot be written follows from it.
            with suppress(TreadleError):
                await turn.finish("failed")
            raise
        finally:
            self._running.pop(run.log.id, None)
            if turn.is_unwritten:
                self._unwritten[run.log.id] = turn

    async def resume(self, run: TurnRun) -> None:
        """Write to the log what a process that was killed has left in Codex's files."""
        log = run.log
        await self._write_end(log)
        if log.id in self.threads.live:
            return
        binding = await self.threads.load_binding(log)
        if binding is None or not binding.turn:
            return
        try:
            turn = await log.store.turn(log.id, binding.turn)
        except NotFound:
            return
        if turn.state in ENDED_STATES or turn.number != log.turn:
            return
        await wait_until_settled(binding.path)
        found = await reconcile(run, binding)
        _log.debug("codex thread %s reconciled: %d items", binding.codex, len(found.items))
        if found.ended == "completed" and not log.view.open_calls:
            await log.turns.finish("completed")
        else:
            # No process is left that would answer the calls in the rollout.
            await log.turns.answer_open_calls()

    def preview(self, run: TurnRun, opening: TurnInput) -> Preview:
        """Return what Codex will get with an input, as far as that is known before the turn."""
        log = run.log
        request = text_of(opening.message.content)
        if self.threads.mode != "text":
            return Preview(request)
        thread = self.threads.live.get(log.id)
        rows = log.view.rows
        pending = thread.pending_rows(rows) if thread and thread.can_show(rows) else rows
        before = [Row.of_draft(draft) for draft in opening.before]
        try:
            return Preview(preview_text([*pending, *before], request, log))
        except Exception:  # noqa: BLE001 - then Codex gets the bare input too
            _log.warning("the view of %s cannot be shown as text", log.id, exc_info=True)
            return Preview(request)

    async def compact(self, run: TurnRun) -> NativeCompaction:
        """Let Codex compact the thread natively; start a Codex thread for it if needed.

        Beside an engine that handles compaction nothing of it would be used.
        """
        if not run.log.view.rows:
            return _skipped_compaction("there is nothing to compact")
        if run.engine.handles_compaction:
            name = run.engine.name
            return _skipped_compaction(f"the compaction is the one of the engine {name!r}")
        try:
            await self._check_profile(run)
            thread, _ = await self.threads.attach(run)
        except TreadleError as error:
            return NativeCompaction(backend=BACKEND, status="failed", reason=str(error))
        result = await compact_manually(run, thread, self.compact_seconds)
        _log.debug("codex thread %s: native compaction %s", thread.id, result.status)
        return result

    def model(self, name: str, identity: Identifies = nobody) -> Model:
        """Return the model called `name`, which only Codex reaches."""
        return AppServerModel(name, self.servers, identity)

    async def forget(self, log: ThreadLog) -> None:
        """Drop the binding of a thread that was reset."""
        if (turn := self._unwritten.get(log.id)) is not None:
            turn.drop_pending()
        await self.threads.forget(log)

    async def leave(self, thread: str) -> None:
        """Write what is unwritten of a thread that is being closed, and let Codex unload it.

        If the log does not take it now, the rollout still has it, unless that disk was full too.
        """
        if (turn := self._unwritten.get(thread)) is not None:
            with suppress(*LOG_ERRORS):
                await self._write_end(turn.run.log)
            self._unwritten.pop(thread, None)
        await self.threads.leave(thread)

    async def close(self) -> None:
        """End the app-servers."""
        for thread in list(self.threads.live):
            self.threads.drop(thread)
        await self.threads.hook_server.close()
        await self.threads.stop_cleaning()
        await self.servers.close()

    async def _check_profile(self, run: TurnRun) -> None:
        """Check that the thread is bound to the profile that would pay. Raises `AuthError`."""
        provider = run.log.setup.profile.provider
        access = self.servers.access(provider, await run.identity())
        binding = await self.threads.load_binding(run.log)
        if binding is not None and access.account is not None:
            plan = Forwarding(provider_for_auth=provider, profile=access.account.profile)
            check_bound(binding.profile, plan)

    async def _write_end(self, log: ThreadLog) -> None:
        """Write the end of a turn that ended when the log could not be written."""
        turn = self._unwritten.get(log.id)
        if turn is None:
            return
        if (await log.store.turn(log.id, log.turn)).state not in ENDED_STATES:
            await turn.write_end()
        del self._unwritten[log.id]

    def _handle_notification(self, event: Notification) -> None:
        """Report the rate limits to all running turns."""
        if not isinstance(event, RateLimitsNotification):
            return
        report = reported_limits(event)
        if report is not None:
            self._limits = report.limits
            for emit in self._running.values():
                emit(report)

    def _with_reset_time(self, outcome: Outcome) -> Outcome:
        """Return an outcome whose usage limit, if it met one, says when that resets."""
        failure = outcome.facts.failure
        if failure is None or failure.reason != "usage_limit" or self._limits is None:
            return outcome
        seconds = seconds_until_reset(self._limits, time.time())
        facts = replace(outcome.facts, failure=replace(failure, retry_after=seconds))
        return replace(outcome, facts=facts)


def _skipped_compaction(reason: str) -> NativeCompaction:
    return NativeCompaction(backend=BACKEND, status="skipped", reason=reason)


def reported_limits(event: RateLimitsNotification) -> RateLimitsReported | None:
    """Return the rate limits in an event; None if the provider sent none."""
    limits = event.rate_limits
    if limits.primary is None and limits.secondary is None:
        return None
    return RateLimitsReported(
        RateLimitSnapshot(
            limit_id=limits.limit_id,
            limit_name=limits.limit_name,
            primary=_limit_window(limits.primary),
            secondary=_limit_window(limits.secondary),
            plan_type=limits.plan_type,
        )
    )


def seconds_until_reset(limits: RateLimitSnapshot, now: float) -> float | None:
    """Return the seconds until all limits that are used up have reset; None if unknown."""
    windows = [each for each in (limits.primary, limits.secondary) if each is not None]
    ends = [each.resets_at for each in windows if each.used_percent >= 100 and each.resets_at]
    # A time in the far future is no real answer.
    ends = [end for end in ends if end <= now + _LONGEST_WAIT]
    return max(0.0, max(ends) - now) if ends else None


def _limit_window(window: LimitWindow | None) -> RateLimitWindow | None:
    if window is None:
        return None
    return RateLimitWindow(window.used_percent, window.window_duration_mins, window.resets_at)
