"""The agent: what a thread needs to run turns, and the turn itself.

Owns the way of a turn from input to end: make room, admit, run the harness, tell the
host. Invariant: what the model is told about sandbox and approvals is what is enforced;
both come from the thread's settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from ..core.aio import finish_uncancelled
from ..core.errors import NotFound
from ..core.ids import new_id
from ..core.items import Message, text_of
from ..core.provenance import InputProvenance, InternalEvent
from ..core.redact import blank
from ..core.usage import TokenUsage
from ..core.wire import json_bytes
from ..engines.session import EngineSession
from ..harness.compaction import fold, fold_natively, is_full, make_room, with_native
from ..harness.contract import (
    CALL,
    Compacts,
    Harness,
    Identifies,
    Outcome,
    Preview,
    Previews,
    Resumes,
    TurnRun,
)
from ..harness.events import (
    ApprovalRequested,
    ApprovalWithdrawn,
    Event,
    EvidenceFound,
    QuestionsAsked,
    ToolProgress,
    TurnCompleted,
    TurnStarted,
    TurnStatus,
)
from ..hooks import Hooks
from ..hooks.payloads import BeforePromptBuild, TurnEnded
from ..hooks.payloads import TurnStarted as TurnStartedHook
from ..hooks.registry import Answer
from ..log.thread_log import ThreadLog
from ..log.turn_input import TurnInput
from ..models.contract import Model
from ..policy.repair import note_for
from ..policy.turn_plan import TurnPlan
from ..prompt.events import HookContext
from ..prompt.unanswered import Unanswered
from ..sandbox.approvals import ApprovalPolicy, Ask, Decision
from ..sandbox.memory import Approvals
from ..sandbox.policy import SandboxPolicy
from ..store.contract import InboxMessage, Store, Turn
from ..tools.contract import (
    Answers,
    Progress,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    UserQuestion,
)
from ..tools.dispatch import output_item
from ..tools.executor import ToolExecutor
from .attempts import Attempts, Candidates

if TYPE_CHECKING:
    from ..engines.linear import Compacted
    from ..harness.completion import EngineComplete

__all__ = ["Agent", "Input"]

_STATUS: dict[str, TurnStatus] = {
    "completed": "completed",
    "failed": "failed",
    "aborted": "interrupted",
}
"""What hosts hear of the states that no turn leaves."""

_WITHDRAWN = "Withdrawn: the run ended before the user answered; what was asked for was not done."

_NEWEST = 64
"""Among so many rows an unanswered message is found, if there is one."""

T = TypeVar("T")


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """What starts a turn."""

    said: Message
    turn_id: str | None = None
    provenance: InputProvenance | None = None
    events: Sequence[InternalEvent] = ()
    mail: Sequence[InboxMessage] = ()
    """What others left and the turn takes in; the first of it is `said`."""


class StoredBytes(Struct):
    """The bytes a thread keeps, under their digests."""

    store: Store
    thread: str

    async def put(self, data: bytes) -> str:
        """Keep `data`."""
        return await self.store.put_blob(self.thread, data)

    async def get(self, handle: str) -> bytes:
        """The bytes under `handle`."""
        return await self.store.blob(handle)


class Agent(Struct, kw_only=True):
    """Runs the turns of one thread."""

    log: ThreadLog
    engine: EngineSession
    model: Model
    tools: Sequence[Tool]
    executor: ToolExecutor
    harness: Harness
    policy: SandboxPolicy
    approval: ApprovalPolicy
    approvals: Approvals
    hooks: Hooks
    emit: Callable[[Event], None]
    candidates: Candidates
    """Who may answer the next turn."""
    identity: Identifies
    """Who the present candidate is to its provider."""
    plan: TurnPlan | None = None
    """What was decided for the attempt that is next."""
    _attempts: Attempts | None = None
    _waiting: dict[str, asyncio.Future[object]] = field(default_factory=dict)

    async def turn(self, given: Input) -> TurnCompleted:
        """Run one turn to its end."""
        given = msgspec.structs.replace(given, turn_id=given.turn_id or new_id("turn"))
        turn = outcome = self._attempts = None
        try:
            await self._caught_up()
            if self._folds_here and is_full(self._run()):
                await make_room(self._run(), "auto", live=False)
            turn = await self._admitted(given)
            if isinstance(turn, TurnCompleted):
                return turn
            if turn.state in _STATUS:
                return _as_it_ended(turn)
            await self._begin(turn)
            outcome = await self._attempted(turn)
            await self.engine.finish(outcome.status)
            return await self._over(turn, outcome)
        except asyncio.CancelledError:
            self.emit(await finish_uncancelled(self._broken_off(given, outcome)))
            raise

    async def _attempted(self, turn: Turn) -> Outcome:
        """Run the turn with one candidate after the other, until one answers."""
        attempts = self._attempts = Attempts.at(self.log, self.candidates, self.emit)

        async def attempt() -> Outcome:
            run = self._run(turn)
            run.accepts, run.spent = attempts.accepts, attempts.spent
            return await self.harness.run(run)

        return await attempts.run(attempt)

    async def compact(self) -> Compacted:
        """Fold the view now.

        Raises `CannotCompact`, `TooLong`, `ModelError` and `EngineFailed`.
        """
        await self._caught_up()
        own = self.harness if isinstance(self.harness, Compacts) else None
        if own is not None and not self._folds_here:
            return await fold_natively(self._run(), own)
        done = await fold(self._run(), "manual", live=False)
        return done if own is None else with_native(done, await own.compact(self._run()))

    def complete(self, purpose: str) -> EngineComplete:
        """Access to the thread's model, for one purpose of an engine's."""
        from ..harness.completion import EngineComplete

        return EngineComplete(self._run(), purpose)

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer what the host was asked. Raises `NotFound` when nobody waits for it."""
        waiting = self._waiting.get(question)
        if waiting is None or waiting.done():
            raise NotFound("open question", question, "it was answered or withdrawn before")
        waiting.set_result(answer)

    @property
    def _folds_here(self) -> bool:
        """Whether the view is folded here; some harnesses do that themselves, if they may."""
        return self.engine.handles_compaction or not self.harness.traits.room

    async def _caught_up(self) -> None:
        """Know all that happened to the thread, before anything else does."""
        await self.log.epochs.begin_head()
        if isinstance(self.harness, Resumes):
            await self.harness.resume(self._run())
        await self.engine.begin()

    async def _admitted(self, given: Input) -> Turn | TurnCompleted:
        """The turn, admitted and opened, or how it ended where a hook does not want it.

        An engine sees the input when it is safe in the log, and hooks see what the engine
        makes of it; without an engine, hooks come first and the rest is one transaction.
        """
        log, engine = self.log, self.engine
        opening = TurnInput(
            said=given.said,
            provenance=given.provenance,
            events=tuple(given.events),
            mail=tuple(given.mail),
            untold=self.harness.traits.fragments,
            ahead=tuple(filter(None, (await self._unanswered(given),))),
        )
        if not engine.chosen:
            hooked = await self._hooked(opening)
            if isinstance(hooked, str):
                return TurnCompleted(turn=given.turn_id or "", status="failed", error=hooked)
            return await log.turns.admit(hooked, turn_id=given.turn_id)
        turn, opened = await log.turns.reserve(given.said, turn_id=given.turn_id)
        if opened:
            return turn
        hooked = await self._hooked(await engine.assemble(opening))
        if isinstance(hooked, str):
            await log.turns.finish("failed")
            await engine.finish("failed")
            return TurnCompleted(turn=turn.id, status="failed", error=hooked)
        context = engine.with_guidance(await log.setup.observe())
        await log.turns.open(turn, hooked, context=context)
        await engine.after_open()
        return turn

    async def _unanswered(self, given: Input) -> Unanswered | None:
        """What is said of an earlier message that a failure left without an answer."""
        view = self.log.view
        # What a new base starts with is told out of its turn; only what came since can wait.
        since = [row for row in view.rows[-_NEWEST:] if (row.seq or 0) > view.base]
        note = note_for(since, text_of(given.said.content))
        return note if note is not None and await self._has_failed(since[-1].turn) else None

    async def _has_failed(self, number: int) -> bool:
        try:
            return (await self.log.store.turn(self.log.id, number)).state == "failed"
        except NotFound:
            # A turn that a fork shares is its parent's.
            return False

    async def _hooked(self, opening: TurnInput) -> TurnInput | str:
        """The input with what hooks add to it, or why one of them does not want it."""
        seen = self._preview(opening)
        asked = BeforePromptBuild(
            thread=self.log.id,
            cwd=str(self.log.setup.cwd),
            model=self.log.setup.model,
            prompt=seen.prompt,
            instructions=seen.instructions,
            resumed=self.log.turn > 0,
        )
        answers = await self.hooks.before_prompt(asked)
        if (reason := _blocked(answers)) is not None:
            return reason
        # In the transaction of the input, so that a turn begun again says it no second time.
        added = tuple(HookContext(answer.context) for answer in answers if answer.context)
        return msgspec.structs.replace(opening, behind=(*opening.behind, *added))

    def _preview(self, opening: TurnInput) -> Preview:
        if isinstance(self.harness, Previews):
            return self.harness.preview(self._run(), opening)
        return Preview(text_of(opening.said.content), self.engine.guidance or "")

    async def _begin(self, turn: Turn) -> None:
        log = self.log
        self.emit(
            TurnStarted(
                thread=log.id,
                turn=turn.id,
                number=turn.number,
                model=log.setup.model,
                harness=self.harness.name,
                **_observed(self.plan),
                sandbox="none" if self.policy.mode == "danger-full-access" else self.policy.mode,
            )
        )
        await self.hooks.tell(TurnStartedHook(thread=log.id, turn=turn.id, model=log.setup.model))

    async def _broken_off(self, given: Input, outcome: Outcome | None) -> TurnCompleted:
        """How an interrupted turn stands; one that no harness has ended is ended here."""
        log = self.log
        turn = next((turn for turn in await self._newest() if turn.id == given.turn_id), None)
        if turn is None:
            return TurnCompleted(turn=given.turn_id or "", status="interrupted")
        if turn.state not in _STATUS:
            await log.turns.abort(turn)
            (turn,) = await self._newest()
        ended = _as_it_ended(turn)
        if ended.status != "completed":
            await self.engine.finish(ended.status)
        return await self._over(turn, outcome or Outcome(status=ended.status, usage=ended.usage))

    async def _newest(self) -> list[Turn]:
        return await self.log.store.turns(self.log.id, limit=1)

    async def _over(self, turn: Turn, outcome: Outcome) -> TurnCompleted:
        await self.hooks.tell(
            TurnEnded(
                thread=self.log.id,
                turn=turn.id,
                status=outcome.status,
                text=outcome.text,
                usage=Raw(json_bytes(outcome.usage)),
            )
        )
        return TurnCompleted(
            turn=turn.id,
            status=outcome.status,
            text=outcome.text,
            usage=outcome.usage,
            error=outcome.error,
            tried=self._attempts.tried if self._attempts else (),
        )

    def _run(self, turn: Turn | None = None) -> TurnRun:
        return TurnRun(
            turn=turn,
            log=self.log,
            engine=self.engine,
            model=self.model,
            tools=self.tools,
            context=self._context,
            emit=self.emit,
            plan=self.plan,
            hooks=self.hooks,
            identity=self.identity,
        )

    def _context(self, step: int) -> ToolContext:
        return ToolContext(
            thread=self.log.id,
            turn=self.log.turn,
            step=step,
            cwd=Path(self.log.setup.cwd),
            policy=self.policy,
            approval=self.approval,
            approvals=self.approvals,
            executor=self.executor,
            kept=StoredBytes(self.log.store, self.log.id),
            ask=self._ask,
            show=self._show,
            consult=self._consult,
            complete=self.complete("context-engine.recall"),
            room=self.log.setup.profile.truncation.byte_budget,
            witness=self._found,
        )

    async def _ask(self, call: Ask) -> Decision:
        question = new_id("ask")
        return await self._wait(question, ApprovalRequested(id=question, call=call))

    async def _consult(self, questions: tuple[UserQuestion, ...]) -> Answers:
        question = new_id("ask")
        return await self._wait(question, QuestionsAsked(id=question, questions=questions))

    async def _wait(self, question: str, event: Event) -> T:
        """The host's answer. If this process ends before it comes, the call reads as withdrawn."""
        call = CALL.get()
        withdrawn = output_item(call, ToolResult(_WITHDRAWN, success=False))
        await self.log.stage_output(withdrawn)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[question] = future  # type: ignore[assignment]
        self.emit(event)
        try:
            answer = await future
        except asyncio.CancelledError:
            self.emit(ApprovalWithdrawn(id=question))
            raise
        finally:
            del self._waiting[question]
        await self.log.unstage_output(withdrawn)
        return answer

    def _show(self, progress: Progress) -> None:
        self.emit(ToolProgress(call_id=progress.call_id, text=blank(progress.text)))

    def _found(self, call: ToolCall, result: ToolResult) -> None:
        if result.sent or result.media:
            self.emit(
                EvidenceFound(
                    call_id=call.call_id, name=call.name, sent=result.sent, media=result.media
                )
            )


def _observed(plan: TurnPlan | None) -> dict[str, str]:
    """What hosts are told of a plan."""
    if plan is None:
        return {}
    return {
        "harness_reason": plan.harness.reason,
        "profile": plan.auth.profile,
        "transport": plan.transport,
    }


def _blocked(answers: Sequence[Answer]) -> str | None:
    """Why an input is not admitted, if a hook does not want it."""
    reasons = [answer.block for answer in answers if answer.block is not None]
    return f"a hook does not want this input: {reasons[0]}" if reasons else None


def _as_it_ended(turn: Turn) -> TurnCompleted:
    """What was told of a turn when it ended."""
    return TurnCompleted(turn=turn.id, status=_STATUS[turn.state], usage=turn.usage or TokenUsage())
