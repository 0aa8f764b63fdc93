"""The engine session: when the engine of a thread is asked what, on every harness.

Owns the order (hand over, bootstrap, maintain, assemble; then hand over and maintain) and the
failure rules: a failing bootstrap warns, a failing assemble leaves the view as it is, a failing
hand-over is repeated from the outbox. Invariants: whatever an engine does, the turn goes on,
the user hears of it, and the engine is asked again in the next turn; an engine that says that
it is passive is asked nothing and costs nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Literal

import msgspec
from msgspec import Struct

from ..core.capability import offers
from ..core.errors import CannotCompact, EngineFailed
from ..core.redact import describe_error, one_line
from ..log.thread_log import ThreadLog
from ..log.turn_input import TurnInput
from ..prompt.engine_fragments import Guidance
from ..prompt.prompt_context import PromptContext
from ..tools.contract import Tool
from .advance import EngineFollower, TurnAdvancer
from .assemble import Assembler, with_guidance
from .call_context import CallContext, CompleteFactory
from .compaction import CompactionModel, CompactionOutcome, Compactor
from .contract import (
    LOOP_CAPABILITIES,
    Bootstraps,
    Capability,
    ContextEngine,
    Disposes,
    EngineInfo,
    FollowsSubagents,
    InterceptsCompaction,
    Maintains,
    OffersTools,
    Operation,
    PreparesSpawns,
    Rollback,
    unmet_requirement,
)
from .conversation import ReadGrants
from .defects import usable_tools
from .guard import EngineGuard, EngineTimeouts, checked_copy
from .loading import EngineChoice
from .maintenance import Maintenance
from .reports import EngineReported, EngineReporter
from .values import (
    BootstrapResult,
    CitationsMode,
    CompactionTrigger,
    Complete,
    EndReason,
    SpawnParams,
    SubagentEndedParams,
)

__all__ = ["EngineSession"]

_logger = logging.getLogger(__name__)

_UNSERVED: dict[Operation, str] = {
    "agent-run": "this turn runs without it",
    "manual-compact": "nothing is compacted",
    "subagent-spawn": "the agent is not started",
}
"""What follows where a harness cannot serve an engine in an operation."""


class _Attached(Struct):
    """An engine, and what asks it in one thread; all of it calls through one guard."""

    engine: ContextEngine
    guard: EngineGuard
    assembler: Assembler
    advancer: TurnAdvancer
    compactor: Compactor
    maintenance: Maintenance | None
    is_bootstrapped: bool = False
    tools: tuple[object, frozenset[str], tuple[tuple[Tool, ...], list[str]]] | None = None
    """The tools it brought, the names that were taken, and which of them can be offered."""


class EngineSession:
    """The engine of one thread."""

    def __init__(
        self,
        log: ThreadLog,
        choice: EngineChoice,
        *,
        harness: str = "treadle",
        capabilities: frozenset[Capability] = LOOP_CAPABILITIES,
        citations: CitationsMode = "auto",
        completes: CompleteFactory | None = None,
        grants: ReadGrants | None = None,
        notify: Callable[[str], None] = lambda _: None,
        report: Callable[[EngineReported], None] = lambda _: None,
        timeouts: EngineTimeouts | None = None,
    ) -> None:
        self.log = log
        self.choice = choice
        self.harness = harness
        self.capabilities = capabilities
        self.citations = citations
        self.timeouts = timeouts or EngineTimeouts()
        self._context = CallContext(
            log,
            choice.name,
            harness=harness,
            citations=citations,
            completes=completes,
            grants=grants,
        )
        self._reporter = EngineReporter(log, choice.name, choice.health, notify, report)
        self._follower = EngineFollower(choice.name, log)
        self._attached = None if choice.engine is None else self._attach(choice.engine)
        self._has_looked = False
        """Whether the engine was looked for since the last turn began; once is enough."""
        self._is_serving = False
        if self.assembles:
            # From now on, so that it misses nothing that happens before the first turn.
            log.followers.append(self._follower)

    def model_for(self, purpose: str) -> Complete:
        """Return access to the thread's own model outside the conversation, for one purpose."""
        assert self._context.completes is not None, "a thread was opened with a model"
        return self._context.completes(purpose)

    @property
    def name(self) -> str:
        """The name under which the engine was chosen."""
        return self.choice.name

    @property
    def info(self) -> EngineInfo | None:
        """Who the engine is that serves the present turn; a passive one serves none."""
        return self._serving.guard.info if self._serving else None

    @property
    def guidance(self) -> str | None:
        """What the engine adds to the prompt."""
        return None if self._attached is None else self._attached.assembler.guidance

    @property
    def assembles(self) -> bool:
        """Whether the engine is told of turns, and of an input before its turn is opened."""
        attached = self._attached
        return attached is None or not attached.guard.info.passive

    @property
    def owns_compaction(self) -> bool:
        """Whether the engine that serves keeps the view small itself."""
        return self._serving is not None and self._serving.guard.info.owns_compaction

    @property
    def handles_compaction(self) -> bool:
        """Whether the engine that serves must be asked whenever the view is compacted."""
        serving = self._serving
        intercepts = serving is not None and offers(serving.engine, InterceptsCompaction)
        return intercepts or self.owns_compaction

    @property
    def _serving(self) -> _Attached | None:
        """The engine, if it is asked in the present turn."""
        return self._attached if self._is_serving else None

    def occupied_tokens(self) -> int | None:
        """Return the tokens to compare with the window; None: the engine checks itself."""
        attached = self._attached
        if attached is None:
            return self.log.requests.occupied
        return attached.assembler.occupied_tokens(checks_itself=self.owns_compaction)

    def use_harness(self, harness: str, capabilities: frozenset[Capability]) -> None:
        """Serve the engine from another harness, from the next turn on."""
        self.harness = self._context.harness = harness
        self.capabilities = capabilities

    def fall_back(self, reason: str) -> None:
        """Tell the engine that another candidate answers the present turn, and why."""
        self._context.fall_back(reason)

    async def load_tools(self, taken: Collection[str] = ()) -> tuple[Tool, ...]:
        """Load the engine, if it is not there yet; return the tools it brings.

        Those whose names are `taken` by others are left out.
        """
        self._has_looked = True
        if self._attached is None:
            self._attached = await self._load()
        attached = self._attached
        if attached is None or not offers(attached.engine, OffersTools):
            return ()
        try:
            tools, problems = _offered_tools(attached, attached.engine.tools(), frozenset(taken))
        except Exception as error:  # noqa: BLE001 - an engine's code may raise anything
            tools, problems = (), [describe_error(error)]
        if problems:
            reason = one_line("; ".join(problems))
            await self._reporter.report_failure(EngineFailed(self.name, "tools", reason))
        else:
            await self._reporter.clear_failures("tools")
        return tools

    async def begin(self) -> None:
        """Prepare the engine for a turn: hand over what waits, bootstrap, maintain."""
        self._is_serving = False
        self._reporter.begin_turn()
        if not self._has_looked:
            await self.load_tools()
        self._has_looked, attached = False, self._attached
        if attached is not None and attached.guard.info.passive:
            await self._stop_following(attached)
            return
        await self._context.begin_turn(None if attached else "runtime_unavailable")
        if attached is None:
            return
        attached.assembler.begin_turn()
        if not self._host_serves("agent-run", attached):
            return
        if not await self._hand_over(attached):
            return
        self._is_serving = True
        if not attached.is_bootstrapped:
            # An engine that was there from the first entry on has nothing to catch up with.
            attached.is_bootstrapped = not self._has_past() or await self._bootstrap(attached)
        if attached.maintenance is not None:
            await attached.maintenance.publish()

    async def assemble(self, given: TurnInput) -> TurnInput:
        """Ask what the model should see with this input; return it with what goes around it."""
        serving = self._serving
        assembled = None if serving is None else await serving.assembler.assemble(given)
        if assembled is not None:
            return assembled
        return msgspec.structs.replace(given, untold=given.untold | {Guidance.id})

    def with_guidance(self, context: PromptContext) -> PromptContext:
        """Return what fragments see, with what the engine adds."""
        return with_guidance(context, self.guidance)

    async def after_open(self) -> None:
        """Show what the engine has instead of the input that is now in the log."""
        if self._attached is not None:
            await self._attached.assembler.publish_replacement()

    async def before_step(self, *, first: bool) -> None:
        """Let the engine change the view before the model is asked again, where it may."""
        serving = self._serving
        if serving is None:
            return
        if serving.maintenance is not None:
            await serving.maintenance.publish(live=True)
        if not first and serving.guard.info.owns_compaction:
            await serving.assembler.assemble_again()

    async def finish(self, status: Literal["completed", "failed", "interrupted"]) -> None:
        """Hand over the turn, whose end is durable, then maintain."""
        if not self.assembles:
            return
        serving, report = self._serving, self._reporter.report
        if status != "completed":
            report("maintenance.skipped", reason=f"the turn was {status}")
        elif serving is None:
            report("maintenance.skipped", reason="the engine did not serve this turn")
        elif not await self._hand_over(serving, finalising=True):
            report("maintenance.skipped", reason="the turn could not be handed over")
        elif serving.maintenance is not None:
            await serving.maintenance.run("turn")

    def compacts(self, trigger: CompactionTrigger) -> bool:
        """Whether the engine is asked to compact, and not the runtime for it."""
        return self._serving is not None and (self.owns_compaction or trigger != "auto")

    async def compact(
        self, trigger: CompactionTrigger, *, live: bool, model: CompactionModel, by_engine: bool
    ) -> CompactionOutcome:
        """Make the view smaller: by the engine, or by the runtime with the engine's summary.

        Raises `CannotCompact`, `TooLong`, `EngineFailed`, and what the model raises.
        """
        runtime = partial(self._compact_linear, trigger, live=live, model=model)
        serving = self._serving
        if not by_engine:
            return await runtime()
        if serving is None:
            raise CannotCompact(f"engine {self.name!r} does not serve this thread now")
        if trigger == "manual" and not self._host_serves("manual-compact", serving):
            raise CannotCompact(f"engine {self.name!r} cannot compact on {self.harness!r}")
        return await serving.compactor.compact(trigger, live=live, delegate=runtime)

    async def prepare_spawn(self, child: str, mode: Literal["isolated", "fork"]) -> Rollback | None:
        """Tell the engine that a child is about to start; return what undoes that.

        Raises `EngineFailed`: a child whose engine cannot prepare it does not start.
        """
        serving = self._serving
        if serving is None or not isinstance(serving.engine, PreparesSpawns):
            return None
        if not self._host_serves("subagent-spawn", serving):
            raise EngineFailed(self.name, "subagent-spawn", "this harness cannot serve it")
        operation, method = "prepare_subagent_spawn", serving.engine.prepare_subagent_spawn
        context = self._context
        params = SpawnParams(
            parent=context.thread, child=await context.thread_ref(child), mode=mode
        )
        try:
            rollback: object = await serving.guard.call(
                operation, method, params, object, self.timeouts.spawn
            )
        except EngineFailed as error:
            await self._reporter.report_failure(error, so="the agent is not started")
            raise
        await self._reporter.clear_failures(operation)
        return partial(self._roll_back, serving, rollback) if callable(rollback) else None

    async def on_subagent_ended(self, child: str, reason: EndReason) -> None:
        """Tell the engine that a child is over; a failure is only reported."""
        attached = self._attached
        if attached is None or not isinstance(attached.engine, FollowsSubagents):
            return
        params = SubagentEndedParams(child=child, reason=reason)
        operation, method = "on_subagent_ended", attached.engine.on_subagent_ended
        try:
            await attached.guard.call(operation, method, params, type(None), self.timeouts.spawn)
        except EngineFailed as error:
            await self._reporter.report_failure(error)
        else:
            await self._reporter.clear_failures(operation)

    async def wait_idle(self, seconds: float) -> None:
        """Wait, no longer than `seconds`, for what runs in the background."""
        if self._attached is not None and self._attached.maintenance is not None:
            await self._attached.maintenance.wait_idle(seconds)

    async def close(self) -> None:
        """Cancel what runs in the background, and dispose of the engine."""
        await self.log.done.close()
        attached, self._attached = self._attached, None
        self._is_serving = False
        if attached is None:
            return
        if attached.maintenance is not None:
            await attached.maintenance.close()
        await attached.guard.close()
        if self.choice.disposes and isinstance(attached.engine, Disposes):
            method, seconds = attached.engine.dispose, self.timeouts.dispose
            try:
                await attached.guard.call("dispose", method, None, type(None), seconds)
            except EngineFailed as error:
                _logger.warning("%s", error)

    # Finding the engine.

    async def _load(self) -> _Attached | None:
        """Find the engine and attach it; None, and a report, where that fails."""
        found = await self.choice.find()
        if found.engine is None:
            await self._reporter.report_degraded("resolve", str(found.problem or "it is not there"))
            return None
        try:
            attached = self._attach(found.engine)
        except Exception as error:  # noqa: BLE001 - an engine's code may raise anything
            reason = f"its info cannot be read: {describe_error(error)}"
            await self._reporter.report_degraded("resolve", reason)
            return None
        for note in found.notes:
            self._reporter.warn(note)
        await self._reporter.clear_failures("resolve")
        return attached

    def _attach(self, engine: ContextEngine) -> _Attached:
        # A copy: what an engine says of itself later changes nothing.
        info = checked_copy(engine.info, EngineInfo)
        # Whatever it calls itself, it is known by the name it was chosen under.
        guard = EngineGuard(msgspec.structs.replace(info, id=self.name), self.timeouts.grace)
        context, reporter, timeouts = self._context, self._reporter, self.timeouts
        maintenance = None
        if isinstance(engine, Maintains):
            maintenance = Maintenance(engine, guard, context, reporter, timeouts.maintain)
        return _Attached(
            engine=engine,
            guard=guard,
            assembler=Assembler(engine, guard, context, reporter, timeouts.assemble),
            advancer=TurnAdvancer(engine, guard, context, self._follower, timeouts.commit),
            compactor=Compactor(engine, guard, context, reporter, maintenance, timeouts.compact),
            maintenance=maintenance,
        )

    def _host_serves(self, operation: Operation, attached: _Attached) -> bool:
        info = attached.guard.info
        problem = unmet_requirement(info, operation, self.capabilities, self.harness)
        if problem is not None:
            self._reporter.report("degraded", reason=problem)
            self._reporter.warn(f"{problem}; {_UNSERVED[operation]}")
        return problem is None

    async def _stop_following(self, attached: _Attached) -> None:
        """Leave no more rows for an engine that turned out to be passive."""
        if self._follower in self.log.followers:
            self.log.followers.remove(self._follower)
            await attached.advancer.discard()

    # Asking the engine.

    async def _hand_over(self, attached: _Attached, *, finalising: bool = False) -> bool:
        """Hand over what waits; whether the engine then knows every accepted turn."""
        result = await attached.advancer.drain()
        for reason in result.blocked:
            self._reporter.warn(f"engine {self.name!r} cannot be told of a turn: {reason}")
        await self._reporter.clear_failures(*result.worked)
        if result.failure is not None:
            await self._reporter.report_failure(
                result.failure, "finalise.failed" if finalising else "degraded"
            )
            return False
        if result.turns:
            self._reporter.report("finalise.completed", items=result.items)
        if result.pending:
            await self._reporter.report_degraded(
                attached.advancer.operation, f"{result.pending} turns still wait for it"
            )
        return not result.pending

    def _has_past(self) -> bool:
        """Whether the thread was used before; what an agent starts with is no past."""
        view = self.log.view
        return bool(self.log.turn or view.rows or view.base)

    async def _bootstrap(self, attached: _Attached) -> bool:
        if isinstance(attached.engine, Bootstraps):
            self._reporter.report("bootstrap.started")
            params = await self._context.bootstrap_params()
            method, seconds = attached.engine.bootstrap, self.timeouts.bootstrap
            try:
                done = await attached.guard.call(
                    "bootstrap", method, params, BootstrapResult, seconds
                )
            except EngineFailed as error:
                await self._reporter.report_failure(error, "bootstrap.failed")
                return False
            self._reporter.report("bootstrap.completed", items=done.imported)
            await self._reporter.clear_failures("bootstrap")
        if attached.maintenance is not None:
            await attached.maintenance.run("bootstrap")
        return True

    async def _compact_linear(
        self, trigger: CompactionTrigger, *, live: bool, model: CompactionModel
    ) -> CompactionOutcome:
        from .linear import LinearCompaction  # only for a view that is full

        serving = self._serving
        intercept = None
        if serving is not None:
            intercept = partial(serving.compactor.intercept, trigger=trigger)
        return await LinearCompaction(model, intercept).compact(self.log, live=live)

    async def _roll_back(self, serving: _Attached, rollback: Rollback) -> None:
        """Let the engine undo its preparation; its failure is not the child's."""
        operation = "prepare_subagent_spawn rollback"
        try:
            await serving.guard.call(operation, rollback, None, object, self.timeouts.spawn)
        except EngineFailed as error:
            await self._reporter.report_failure(error)


def _offered_tools(
    attached: _Attached, tools: Sequence[Tool], taken: frozenset[str]
) -> tuple[tuple[Tool, ...], list[str]]:
    """Return the tools that can be offered, and problems; checked again when they change."""
    known = attached.tools
    if known is None or known[0] is not tools or known[1] != taken:
        known = tools, taken, usable_tools(tools, taken)
        attached.tools = known if isinstance(tools, tuple) else None
    return known[2]
