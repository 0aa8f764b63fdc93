"""The session: when an engine is asked what, on every harness.

Owns the order (catch up, bootstrap, maintain, assemble; then hand over and maintain) and
the failure rules: a failing bootstrap warns, a failing assemble leaves the view as it is,
a failing hand-over is repeated from the outbox. Invariant: whatever an engine does, the
turn goes on, the user hears of it, and the engine is asked again in the next turn.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import field

from ..context.row import Row
from ..core.errors import CannotCompact, EngineFailed, StaleEpoch
from ..core.service import Service, later
from ..log.thread_log import ThreadLog
from ..log.turn_input import TurnInput
from ..prompt.guidance import Guidance
from ..prompt.observation import PromptContext
from ..tools.contract import Tool
from .contract import (
    Bootstraps,
    Disposes,
    FollowsSubagents,
    InterceptsCompaction,
    OffersTools,
    PreparesSpawns,
    Rollback,
)
from .following import EngineFollower
from .frame import CallContext, CompleteFactory
from .guard import EngineGuard, checked_copy
from .info import LOOP_CAPABILITIES, Capability, EngineInfo, Operation, unmet_requirement
from .log import ReadGrants
from .reports import EngineReported
from .seat import EngineTimeouts, Seat, seated
from .slot import EngineChoice
from .telling import EngineReporter
from .values import (
    AssembleResult,
    BootstrapResult,
    CitationsMode,
    CompactionTrigger,
    ContextItem,
    EndReason,
)
from .view_change import InvalidEngineOutput, ViewChange, added_drafts
from .words import brief, describe_error

if TYPE_CHECKING:
    from .linear import CompactionOutcome

__all__ = ["EngineSession", "EngineTimeouts"]

_log = logging.getLogger(__name__)

_UNSERVED: dict[Operation, str] = {
    "agent-run": "this turn runs without it",
    "manual-compact": "nothing is compacted",
    "subagent-spawn": "the agent is not started",
}
"""What comes of an operation that a harness cannot serve an engine in."""


class EngineSession(Service, kw_only=True):
    """The engine of one thread. With the linear engine chosen, nothing here costs anything."""

    log: ThreadLog
    choice: EngineChoice = field(default_factory=EngineChoice)
    harness: str = "treadle"
    capabilities: frozenset[Capability] = LOOP_CAPABILITIES
    citations: CitationsMode = "auto"
    completes: CompleteFactory | None = None
    grants: ReadGrants | None = None
    """Whose logs the engine may read besides the thread's own."""
    notify: Callable[[str], None] = lambda _: None
    """Tells the user, in one line."""
    report: Callable[[EngineReported], None] = lambda _: None
    timeouts: EngineTimeouts = field(default_factory=EngineTimeouts)
    guidance: str | None = None
    """What the engine adds to the prompt."""
    _frame: CallContext = later()
    _telling: EngineReporter = later()
    _follower: EngineFollower = later()
    _seat: Seat | None = None
    _looked: bool = False
    """Whether the engine was looked for since the last turn began; once is enough."""
    _serving: bool = False
    _precheck: bool = False
    _unassembled: int = 0
    """The size of the view before it was assembled."""
    _assembled: int = 0
    """The base that assembling led to; once it is replaced, the size before says nothing."""
    _instead: tuple[ContextItem, ...] | None = None

    def __post_init__(self) -> None:
        self._frame = CallContext(
            self.log, self.choice.name, self.harness, self.citations, self.completes, self.grants
        )
        self._telling = EngineReporter(self.log, self.choice, self.notify, self.report)
        self._follower = EngineFollower(self.choice.name, self.log)
        if not self.choice.linear:
            self.log.followers.append(self._follower)

    @property
    def chosen(self) -> bool:
        """Whether another engine than the linear one was chosen."""
        return not self.choice.linear

    @property
    def serving(self) -> bool:
        """Whether an engine serves the present turn."""
        return self._serving

    @property
    def info(self) -> EngineInfo | None:
        """Who the engine is that serves the present turn."""
        seat = self._seat
        return seat.guard.info if self._serving and seat is not None else None

    @property
    def owns_compaction(self) -> bool:
        """Whether the engine that serves keeps the view small itself."""
        seat = self._seat
        return self._serving and seat is not None and seat.guard.info.owns_compaction

    @property
    def handles_compaction(self) -> bool:
        """Whether the engine that serves wants to be asked whenever the view is folded."""
        seat = self._seat
        asked = seat is not None and isinstance(seat.engine, InterceptsCompaction)
        return self.owns_compaction or (self._serving and asked)

    def occupied_tokens(self) -> int | None:
        """Tokens to hold against the window before the model is asked; None: the engine does."""
        if self.owns_compaction and not self._precheck:
            return None
        counts = self._precheck and self.log.view.base == self._assembled
        return max(self.log.requests.occupied, self._unassembled if counts else 0)

    def use_harness(self, harness: str, capabilities: frozenset[Capability]) -> None:
        """Serve the engine from another harness, from the next turn on."""
        self.harness = self._frame.harness = harness
        self.capabilities = capabilities

    async def load_tools(self, taken: Collection[str] = ()) -> tuple[Tool, ...]:
        """Find the chosen engine, if it is not there yet; the tools it brings.

        Those whose names are `taken` by others are left out.
        """
        if self.choice.linear:
            return ()
        self._looked = True
        if self._seat is None:
            self._seat = await self._resolved()
        seat = self._seat
        if seat is None or not isinstance(seat.engine, OffersTools):
            return ()
        try:
            tools, problems = seat.usable(seat.engine.tools(), frozenset(taken))
        except Exception as error:  # noqa: BLE001 - an engine's code may raise anything
            tools, problems = (), [describe_error(error)]
        if problems:
            said = brief("; ".join(problems))
            await self._telling.report_failure(EngineFailed(self.choice.name, "tools", said))
        else:
            await self._telling.clear_failures("tools")
        return tools

    async def begin(self) -> None:
        """A turn is about to be admitted: catch up, bootstrap, put in order."""
        self._serving, self._instead = False, None
        self._telling.begin_turn()
        if self.choice.linear:
            return
        if not self._looked:
            await self.load_tools()
        self._looked, seat = False, self._seat
        await self._frame.renew(None if seat else "runtime_unavailable")
        if seat is None or not self._host_serves("agent-run", seat):
            return
        if not await self._caught_up(seat):
            return
        self._serving = True
        if not seat.booted:
            # An engine that was there from the first entry on has nothing to catch up with.
            seat.booted = not self._has_past() or await self._bootstrapped(seat)
        if seat.upkeep is not None:
            await seat.upkeep.publish()

    async def assemble(self, given: TurnInput) -> TurnInput:
        """Ask what the model should see with this input; the input, with what goes around it."""
        seat = self._seat
        untold = msgspec.structs.replace(given, untold=given.untold | {Guidance.id})
        if not self._serving or seat is None:
            return untold
        if (assembled := await self._asked(seat, given)) is None:
            return untold
        result, change = assembled
        if result.covers_current_turn and not change.shows_prompt:
            self._instead = tuple(result.items)
        return msgspec.structs.replace(
            given,
            before=(*given.before, *added_drafts(change.before)),
            after=(*given.after, *added_drafts(change.after)),
        )

    def with_guidance(self, context: PromptContext) -> PromptContext:
        """What fragments see, with what the engine adds."""
        said = "\n\n".join(text for text in (context.guidance, self.guidance) if text)
        return msgspec.structs.replace(context, guidance=said or None)

    async def after_open(self) -> None:
        """The input is in the log; where the engine has other words for it, show those."""
        instead, self._instead = self._instead, None
        seat = self._seat
        if instead is None or seat is None:
            return
        from .publish import publish

        view = self.log.view
        try:
            await publish(self.log, instead, by=self.choice.name, epoch=view.epoch, upto=view.upto)
        except (InvalidEngineOutput, StaleEpoch) as error:
            await self._telling.report_failure(_failure(seat, "assemble", error), "assemble.failed")
        self._assembled = self.log.view.base

    async def before_step(self, *, first: bool) -> None:
        """The model is about to be asked; after the first time, owners may change the view."""
        seat = self._seat
        if not self._serving or seat is None:
            return
        if seat.upkeep is not None:
            await seat.upkeep.publish(live=True)
        if first or not seat.guard.info.owns_compaction:
            return
        before = self.guidance
        if (assembled := await self._asked(seat, None)) is None:
            return
        _, change = assembled
        await self.log.add(*added_drafts(change.after, self.log.turn, self.log.step))
        if self.guidance != before:
            context = self.log.setup.settings or PromptContext(cwd="")
            await self.log.retell(self.with_guidance(context), Guidance.id)

    async def finish(self, status: Literal["completed", "failed", "interrupted"]) -> None:
        """The turn's end is durable: hand it over, then put in order."""
        seat = self._seat
        if self.choice.linear:
            return
        if status != "completed":
            self._telling.report("maintenance.skipped", reason=f"the turn was {status}")
        elif not self._serving or seat is None:
            self._telling.report("maintenance.skipped", reason="the engine did not serve this turn")
        elif not await self._caught_up(seat, finalising=True):
            self._telling.report("maintenance.skipped", reason="the turn could not be handed over")
        elif seat.upkeep is not None:
            await seat.upkeep.run("turn")

    async def compact(
        self,
        trigger: CompactionTrigger,
        *,
        live: bool,
        delegate: Callable[[], Awaitable[CompactionOutcome]],
    ) -> CompactionOutcome:
        """Let the engine make the view smaller. Raises `EngineFailed` and `CannotCompact`."""
        seat = self._seat
        if seat is None or not self._serving:
            raise CannotCompact(f"engine {self.choice.name!r} does not serve this thread now")
        if trigger == "manual" and not self._host_serves("manual-compact", seat):
            raise CannotCompact(f"engine {self.choice.name!r} cannot compact on {self.harness!r}")
        try:
            done = await seat.folding.compact(trigger, live=live, delegate=delegate)
        except EngineFailed as error:
            await self._telling.record_failure(error, "compaction.failed")
            raise
        self._telling.report(
            "compaction.completed", tokens=done.tokens_after, reason=f"by {done.by}"
        )
        await self._telling.clear_failures("compact")
        if seat.upkeep is not None:
            await seat.upkeep.run("compaction")
        return done

    async def intercept(self, rows: Sequence[Row], trigger: CompactionTrigger) -> str | None:
        """The engine's own summary of what is about to be folded; None lets the fold go on."""
        seat = self._seat
        if not self._serving or seat is None:
            return None
        try:
            summary = await seat.folding.intercept(rows, trigger)
        except EngineFailed as error:
            await self._telling.report_failure(error, "compaction.failed")
            return None
        await self._telling.clear_failures("intercept_compaction")
        return summary

    async def prepare_spawn(self, child: str, mode: Literal["isolated", "fork"]) -> Rollback | None:
        """A child is about to start. Raises `EngineFailed`: a spawn fails closed."""
        seat = self._seat
        if not self._serving or seat is None or not isinstance(seat.engine, PreparesSpawns):
            return None
        if not self._host_serves("subagent-spawn", seat):
            raise EngineFailed(self.choice.name, "subagent-spawn", "this harness cannot serve it")
        return await seat.children.prepare(seat.engine, child, mode)

    async def on_subagent_ended(self, child: str, reason: EndReason) -> None:
        """A child is over."""
        seat = self._seat
        if seat is not None and isinstance(seat.engine, FollowsSubagents):
            await seat.children.ended(seat.engine, child, reason)

    async def wait_idle(self, seconds: float) -> None:
        """Wait, no longer than `seconds`, for what runs beside the turns."""
        if self._seat is not None and self._seat.upkeep is not None:
            await self._seat.upkeep.wait_idle(seconds)

    async def close(self) -> None:
        """Cancel what runs beside the turns, and let the engine go."""
        seat, self._seat = self._seat, None
        self._serving = False
        if seat is None:
            return
        if seat.upkeep is not None:
            await seat.upkeep.close()
        await seat.guard.close()
        if self.choice.disposes and isinstance(seat.engine, Disposes):
            method = seat.engine.dispose
            try:
                await seat.guard.call("dispose", method, None, type(None), self.timeouts.dispose)
            except EngineFailed as error:
                _log.warning("%s", error)

    async def _resolved(self) -> Seat | None:
        found = await self.choice.resolve()
        engine = found.engine
        if engine is None:
            await self._telling.report_degraded("resolve", found.problem or "it is not there")
            return None
        try:
            # A copy: what an engine says of itself later changes nothing.
            said = checked_copy(engine.info, EngineInfo)
        except Exception as error:  # noqa: BLE001 - an engine's code may raise anything
            await self._telling.report_degraded(
                "resolve", f"its info cannot be read: {describe_error(error)}"
            )
            return None
        for note in found.notes:
            self._telling.warn(note)
        await self._telling.clear_failures("resolve")
        # Whatever it calls itself, it is known by the name it was chosen under.
        guard = EngineGuard(msgspec.structs.replace(said, id=self.choice.name), self.timeouts.grace)
        return seated(
            engine,
            guard,
            self._frame,
            self._telling,
            follower=self._follower,
            patience=self.timeouts,
        )

    def _host_serves(self, operation: Operation, seat: Seat) -> bool:
        problem = unmet_requirement(seat.guard.info, operation, self.capabilities, self.harness)
        if problem is not None:
            self._telling.report("degraded", reason=problem)
            self._telling.warn(f"{problem}; {_UNSERVED[operation]}")
        return problem is None

    async def _caught_up(self, seat: Seat, *, finalising: bool = False) -> bool:
        """Hand over what waits; whether the engine then knows every accepted turn."""
        drained = await seat.advancing.drain()
        for reason in drained.blocked:
            self._telling.warn(f"engine {self.choice.name!r} cannot be told of a turn: {reason}")
        await self._telling.clear_failures(*drained.worked)
        if drained.failure is not None:
            await self._telling.report_failure(
                drained.failure, "finalise.failed" if finalising else "degraded"
            )
            return False
        if drained.turns:
            self._telling.report("finalise.completed", items=drained.items)
        if drained.pending:
            await self._telling.report_degraded(
                seat.advancing.operation, f"{drained.pending} turns still wait for it"
            )
        return not drained.pending

    def _has_past(self) -> bool:
        """Whether the thread was spoken in before; what an agent is born with is no past."""
        view = self.log.view
        return bool(self.log.turn or view.rows or view.base)

    async def _bootstrapped(self, seat: Seat) -> bool:
        if isinstance(seat.engine, Bootstraps):
            self._telling.report("bootstrap.started")
            given = await self._frame.bootstrap_params()
            method = seat.engine.bootstrap
            try:
                done = await seat.guard.call(
                    "bootstrap", method, given, BootstrapResult, self.timeouts.bootstrap
                )
            except EngineFailed as error:
                await self._telling.report_failure(error, "bootstrap.failed")
                return False
            self._telling.report("bootstrap.completed", items=done.imported)
            await self._telling.clear_failures("bootstrap")
        if seat.upkeep is not None:
            await seat.upkeep.run("bootstrap")
        return True

    async def _asked(
        self, seat: Seat, given: TurnInput | None
    ) -> tuple[AssembleResult, ViewChange] | None:
        """What the engine wants shown, re-based where it must be; None where it failed."""
        self._unassembled = self.log.requests.occupied
        try:
            result = await seat.assembly.ask(given)
            change = seat.assembly.change_for(result, opening=given is not None)
            await seat.assembly.rebase(change, result)
        except (EngineFailed, InvalidEngineOutput, StaleEpoch) as error:
            await self._telling.report_failure(_failure(seat, "assemble", error), "assemble.failed")
            return None
        await self._applied(result)
        return result, change

    async def _applied(self, result: AssembleResult) -> None:
        self._precheck = result.prompt_authority == "preassembly_may_overflow"
        self._assembled = self.log.view.base
        self.guidance = (result.system_prompt_addition or "").strip() or None
        self._telling.report(
            "assemble.applied",
            items=len(result.items),
            tokens=result.estimated_tokens,
            has_addition=self.guidance is not None,
        )
        await self._telling.clear_failures("assemble")


def _failure(seat: Seat, operation: str, error: Exception) -> EngineFailed:
    if isinstance(error, EngineFailed):
        return error
    failure = EngineFailed(seat.guard.info.id, operation, brief(str(error)))
    failure.__cause__ = error
    return failure
