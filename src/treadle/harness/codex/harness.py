"""The Codex harness: turns on the real Codex app-server.

Owns what a harness can be asked: to run a turn, to take in what a crash left, to say
what Codex will be told, to compact natively, and to ask its models outside a
conversation. Invariant: Codex owns its loop and its tools, the log owns what was said.
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
from ...core.usage import RateLimitSnapshot
from ...engines.info import CAPABILITIES, Capability
from ...log.thread_log import ThreadLog
from ...log.turn_input import TurnInput
from ...models.connect import ProviderConfig
from ...models.contract import Model
from ...policy.auth.aliases import Forwarded, check_bound
from ...store.contract import ENDED_STATES
from ..contract import (
    Identifies,
    NativeCompaction,
    Outcome,
    Preview,
    Traits,
    TurnRun,
    nobody,
)
from ..events import Event
from .attachment import preview_text
from .figures import reported_limits, seconds_until_reset
from .handfold import COMPACT_SECONDS, compact_manually
from .keeping import LOG_ERRORS
from .mirror import HARNESS
from .model import AppServerModel
from .native import BACKEND
from .options import CodexOptions
from .protocol.notifications import Notification, RateLimitsNotification
from .provided import CODEX_STATES
from .reconcile import reconcile
from .rollout import wait_until_settled
from .servers import ServerPool
from .shown import thread_instructions
from .threads import CodexThreads
from .turn import CodexTurn

__all__ = ["CodexHarness"]

_log = logging.getLogger(__name__)


class CodexHarness:
    """Runs turns on `codex app-server`, one process for many threads.

    `home` is Treadle's own, `providers` and `environ` say how models are reached. Close it
    when no thread needs it any more.
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
            listener=self._hear,
        )
        self.threads = CodexThreads(servers=self.servers, mode=self.options.projection)
        self.compact_seconds = COMPACT_SECONDS
        """How long Codex may take to fold a thread by hand."""
        self._running: dict[str, Callable[[Event], None]] = {}
        self._limits: RateLimitSnapshot | None = None
        """What was last heard of the account's limits."""
        self._owing: dict[str, CodexTurn] = {}
        """Turns that are over, which their logs do not know yet."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Everything: its threads can even be bootstrapped."""
        return CAPABILITIES

    @property
    def traits(self) -> Traits:
        """It tells its surroundings, has hands, and keeps room, all by itself."""
        return Traits(fragments=CODEX_STATES, tools=True, room=True)

    async def run(self, run: TurnRun) -> Outcome:
        """Run the turn."""
        turn = CodexTurn(run, self.threads)
        self._limits = None
        self._running[run.log.id] = run.emit
        try:
            return self._with_reset(await turn.execute())
        except asyncio.CancelledError:
            await finish_uncancelled(turn.abort())
            raise
        except Exception:
            self.threads.detach(run)
            # The cause is what matters; that the end could not be written follows from it.
            with suppress(TreadleError):
                await turn.finish("failed")
            raise
        finally:
            self._running.pop(run.log.id, None)
            if turn.is_unwritten:
                self._owing[run.log.id] = turn

    async def resume(self, run: TurnRun) -> None:
        """Take in what a process that was killed has left in Codex's files."""
        log = run.log
        await self._settle(log)
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
        left = await reconcile(run, binding)
        _log.debug("codex thread %s reconciled: %d items", binding.codex, len(left.items))
        if left.ended == "completed" and not log.view.open_calls:
            await log.turns.finish("completed")
        else:
            # Nobody is left who would answer the calls that were found.
            await log.turns.answer_open_calls()

    def preview(self, run: TurnRun, opening: TurnInput) -> Preview:
        """What Codex will be told with an input, as far as that is known before it is."""
        log = run.log
        told = (thread_instructions(log.view, log.registry), run.engine.guidance or "")
        instructions = "\n\n".join(dict.fromkeys(filter(None, told)))
        said = text_of(opening.said.content)
        if self.threads.mode != "text":
            return Preview(said, instructions)
        attachment = self.threads.live.get(log.id)
        rows = log.view.rows
        pending = (
            attachment.pending_rows(rows) if attachment and attachment.can_show(rows) else rows
        )
        before = [Row.of_draft(draft) for draft in opening.before]
        return Preview(preview_text([*pending, *before], said, log), instructions)

    async def compact(self, run: TurnRun) -> NativeCompaction:
        """Let Codex fold its own thread, if it has one or can be given one."""
        if not run.log.view.rows:
            return NativeCompaction(
                backend=BACKEND, status="skipped", reason="there is nothing to compact"
            )
        try:
            await self._check_profile(run)
            attachment, _ = await self.threads.attach(run)
        except TreadleError as error:
            return NativeCompaction(backend=BACKEND, status="failed", reason=str(error))
        done = await compact_manually(run, attachment, self.compact_seconds)
        bound = attachment.binding
        _log.debug(
            "codex thread %s: native compaction %s, beside engine %r that %s compaction",
            bound.codex,
            done.status,
            bound.engine,
            "owns" if run.engine.owns_compaction else "does not own",
        )
        return done

    async def _check_profile(self, run: TurnRun) -> None:
        """Fold with nobody else's account what one has paid for. Raises `AuthError`."""
        provider = run.log.setup.profile.provider
        way = self.servers.access(provider, await run.identity())
        binding = await self.threads.load_binding(run.log)
        if binding is not None and way.account is not None:
            plan = Forwarded(provider_for_auth=provider, profile=way.account.profile)
            check_bound(binding.profile, plan)

    def model(self, name: str, identity: Identifies = nobody) -> Model:
        """What answers for a model that only Codex reaches."""
        return AppServerModel(name, self.servers, identity)

    async def forget(self, log: ThreadLog) -> None:
        """The thread was reset: its binding goes."""
        if (owing := self._owing.get(log.id)) is not None:
            owing.drop_pending()
        await self.threads.forget(log)

    async def leave(self, thread: str) -> None:
        """A thread is being closed: the last chance for what its log is owed.

        What it does not take even now, the rollout has, unless its disk was full, too.
        """
        if (owing := self._owing.get(thread)) is not None:
            with suppress(*LOG_ERRORS):
                await self._settle(owing.run.log)
            self._owing.pop(thread, None)
        await self.threads.leave(thread)

    async def close(self) -> None:
        """End the app-server."""
        for thread in list(self.threads.live):
            self.threads.drop(thread)
        await self.servers.close()

    async def _settle(self, log: ThreadLog) -> None:
        """Write what the log is owed of a turn that ended when it could not be written."""
        owing = self._owing.get(log.id)
        if owing is None:
            return
        if (await log.store.turn(log.id, log.turn)).state not in ENDED_STATES:
            await owing.write_end()
        del self._owing[log.id]

    def _hear(self, event: Notification) -> None:
        """Pass on what is about no thread."""
        if (
            isinstance(event, RateLimitsNotification)
            and (told := reported_limits(event)) is not None
        ):
            self._limits = told.limits
            for emit in self._running.values():
                emit(told)

    def _with_reset(self, outcome: Outcome) -> Outcome:
        """An outcome whose usage limit, if it met one, says when that resets."""
        failure = outcome.facts.failure
        if failure is None or failure.reason != "usage_limit" or self._limits is None:
            return outcome
        resets = seconds_until_reset(self._limits, time.time())
        facts = replace(outcome.facts, failure=replace(failure, retry_after=resets))
        return replace(outcome, facts=facts)
