"""The turn runner: one turn, from its input to its end.

Owns the way of a turn, in the order that docs/architecture.md draws it: prepare, catch up,
make room, admit, attempt, finish. Invariants: one attempt after the other until one answers;
a turn that nobody answered ends with the last error; an interrupted turn is ended in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from ..core.aio import finish_uncancelled
from ..core.errors import NotFound, NothingToSend
from ..core.ids import new_id
from ..core.items import Message, decode_item, text_of
from ..core.provenance import InputProvenance, InternalEvent
from ..core.redact import blank_value, redact_known, redact_logs
from ..core.usage import TokenUsage
from ..core.wire import Json, json_bytes
from ..engines.session import EngineSession
from ..harness.compaction import compact_natively, compact_view, is_full, make_room, with_native
from ..harness.contract import Compacts, Outcome, Preview, Previews, Resumes, TurnRun
from ..harness.events import (
    EvidenceFound,
    NoticeRaised,
    ToolProgress,
    TurnCompleted,
    TurnStarted,
    TurnStatus,
)
from ..hooks import Hooks
from ..hooks.payloads import BeforePromptBuild, OnTurnEnd, OnTurnStart
from ..log.turn_input import TurnInput
from ..policy.outcome import Fallback, classify
from ..policy.repair import note_for
from ..prompt.announcements import HookContext
from ..sandbox.approvals import Approvals
from ..store.contract import InboxMessage, Store, Turn
from ..tools.contract import Progress, ToolCall, ToolContext, ToolResult
from .attempts import Attempts

if TYPE_CHECKING:
    from ..delivery.channel import ReplyOrigin
    from ..delivery.reply_sender import ReplySender
    from ..engines.compaction import CompactionOutcome
    from ..harness.completion import EngineComplete
    from ..harness.event_stream import EventStream
    from ..log.thread_log import ThreadLog
    from ..policy.turn_plan import TurnPlan
    from ..prompt.announcements import Unanswered
    from ..subagents import Subagents
    from ..tools.executor import ToolExecutor
    from .policy import ThreadPolicy
    from .questions import Questions

__all__ = ["Input", "StoredBytes", "TurnRunner"]

_STATUS: dict[str, TurnStatus] = {
    "completed": "completed",
    "failed": "failed",
    "aborted": "interrupted",
}
"""What hosts hear of the states that no turn leaves."""

_NEWEST = 64
"""Among so many rows an unanswered message is found, if there is one."""


class Input(Struct, frozen=True, kw_only=True):
    """What starts a turn."""

    message: Message
    turn_id: str = ""
    provenance: InputProvenance | None = None
    events: Sequence[InternalEvent] = ()
    mail: Sequence[InboxMessage] = ()
    """What others left and the turn takes in; the first of it is `message`."""


class TurnRunner:
    """Runs the turns of one thread."""

    def __init__(
        self,
        log: ThreadLog,
        engine: EngineSession,
        policy: ThreadPolicy,
        *,
        hooks: Hooks,
        executor: ToolExecutor,
        approvals: Approvals,
        questions: Questions,
        subagents: Subagents,
        delivery: ReplySender | None,
        events: EventStream,
    ) -> None:
        self.log = log
        self.engine = engine
        self.policy = policy
        self.hooks = hooks
        self.executor = executor
        self.approvals = approvals
        self.questions = questions
        self.subagents = subagents
        self.delivery = delivery
        self.events = events
        self.emit = events.emit
        self.began = False
        """The present turn has its input; from now on its end is told by an event."""
        self._attempts = Attempts(log, engine, policy, self.emit)

    async def run(
        self, given: Input | None, *, turn_id: str | None = None, origin: ReplyOrigin | None = None
    ) -> None:
        """Run one turn to its end, and deliver what it says; the host hears of it by events.

        With nothing given, the turn is about what waits in the inbox, or about what the
        first agent to end has to tell. Raises `NothingToSend` without either.
        """
        self.began = False
        try:
            await self._prepare()
            await self.subagents.recover()
            given = given or await self._take_mail(turn_id)
            # Before hooks and engines see it: by now the keys of the turn are known.
            given = blank_value(given)
            given = msgspec.structs.replace(given, turn_id=given.turn_id or new_id("turn"))
            if self.delivery is not None:
                self.delivery.expect(origin, given.provenance)
            self.began = True
            try:
                ended = await self._run(given)
                await self._deliver()
                self.emit(ended)
            except asyncio.CancelledError:
                await finish_uncancelled(self._deliver())
                raise
        finally:
            self._attempts.ask_first_model_again()
            await self._release_profile()

    async def _run(self, given: Input) -> TurnCompleted:
        outcome: Outcome | None = None
        try:
            await self._catch_up()
            if self._compacts_here and is_full(self._turn_run()):
                await make_room(self._turn_run(), "auto", live=False)
            turn = await self._admit(given)
            if isinstance(turn, TurnCompleted):
                return turn
            await self._announce(turn)
            outcome = await self._attempt(turn)
            await self.engine.finish(outcome.status)
            return await self._report_end(turn, outcome)
        except asyncio.CancelledError:
            self.emit(await finish_uncancelled(self._abort(given, outcome)))
            raise

    async def compact(self) -> CompactionOutcome:
        """Compact the view now.

        Raises `CannotCompact`, `TooLong`, `ModelError` and `EngineFailed`.
        """
        await self._prepare()
        await self._catch_up()
        harness = self._attempts.harness
        own = harness if isinstance(harness, Compacts) else None
        if own is not None and not self._compacts_here:
            done = await compact_natively(self._turn_run(), own)
        else:
            done = await compact_view(self._turn_run(), "manual", live=False)
            if own is not None:
                done = with_native(done, await own.compact(self._turn_run()))
        await self._release_profile()
        return done

    def complete(self, purpose: str) -> EngineComplete:
        """Return access to the thread's model, for one purpose of an engine's."""
        from ..harness.completion import EngineComplete

        return EngineComplete(self._turn_run(), purpose)

    async def foresee(self) -> TurnPlan:
        """Return the plan of a turn that would start now, without side effects."""
        await self._attempts.select_harness()
        await self._attempts.load_engine()
        return await self.policy.foresee()

    async def close(self) -> None:
        """Close the connection and what tools left running."""
        await self.executor.close()
        await self._attempts.close()

    # Before a turn: who may answer, who runs it, what was decided.

    async def _prepare(self) -> None:
        """Have everything there that the next turn needs: harness, engine, connection, plan."""
        redact_logs()  # again: what was imported since has loggers, too
        await self._attempts.begin()
        self.subagents.apply_settings(self.log.setup.settings)

    async def _take_mail(self, turn_id: str | None) -> Input:
        """Return the input that others left; wait for agents to leave some."""
        log = self.log
        turns = await log.store.turns(log.id) if turn_id else []
        for turn in turns:
            if turn.id == turn_id and await log.turns.was_opened(turn):
                return Input(message=_message_of(turn.input), turn_id=turn_id)
        while True:
            # Looked at before the mail: who ended meanwhile has left some.
            working = self.subagents.working
            if mail := await log.inbox():
                break
            if not working:
                raise NothingToSend(f"nothing waits for thread {log.id!r}; say something to it")
            await self.subagents.wait_for_mail()
        first = mail[0]
        return Input(
            message=_message_of(first.body),
            turn_id=turn_id or "",
            provenance=first.provenance,
            events=first.events,
            mail=mail,
        )

    async def _catch_up(self) -> None:
        """Know all that happened to the thread, before anything else does."""
        await self.log.epochs.begin_head()
        harness = self._attempts.harness
        if isinstance(harness, Resumes):
            await harness.resume(self._turn_run())
        # A view with open calls cannot be compacted, and that may be the next thing to do.
        await self.log.turns.recover()
        await self.engine.begin()

    @property
    def _compacts_here(self) -> bool:
        """Whether the view is compacted here; some harnesses do that themselves, if they may."""
        return self.engine.handles_compaction or not self._attempts.harness.traits.room

    # Admission: the input becomes durable, with what stands around it.

    async def _admit(self, given: Input) -> Turn | TurnCompleted:
        """Return the turn, admitted and opened, or how it ended where it is over already.

        An engine that assembles sees the input when it is safe in the log, and hooks see what
        the engine makes of it; for one that does not, all of it is one transaction.
        """
        log, engine = self.log, self.engine
        opening, turn = await self._opening(given), None
        if engine.assembles:
            turn, opened = await log.turns.reserve(given.message, turn_id=given.turn_id)
            if opened:
                return _unless_ended(turn)
            opening = await engine.assemble(opening)
        hooked = await self._ask_hooks(opening)
        if isinstance(hooked, str):
            if turn is not None:
                await log.turns.finish("failed")
                await engine.finish("failed")
            return TurnCompleted(turn=given.turn_id, status="failed", error=hooked)
        if turn is None:
            return _unless_ended(await log.turns.admit(hooked, turn_id=given.turn_id))
        context = engine.with_guidance(await log.setup.observe())
        await log.turns.open(turn, hooked, context=context)
        await engine.after_open()
        return _unless_ended(turn)

    async def _opening(self, given: Input) -> TurnInput:
        note = await self._unanswered_note(given)
        return TurnInput(
            message=given.message,
            provenance=given.provenance,
            events=tuple(given.events),
            mail=tuple(given.mail),
            untold=self._attempts.harness.traits.fragments,
            ahead=() if note is None else (note,),
        )

    async def _unanswered_note(self, given: Input) -> Unanswered | None:
        """Return what is said of an earlier message that a failure left without an answer."""
        view = self.log.view
        # What a new base starts with is told out of its turn; only what came since can wait.
        since = [row for row in view.rows[-_NEWEST:] if (row.seq or 0) > view.base]
        note = note_for(since, text_of(given.message.content))
        return note if note is not None and await self._has_failed(since[-1].turn) else None

    async def _has_failed(self, number: int) -> bool:
        try:
            return (await self.log.store.turn(self.log.id, number)).state == "failed"
        except NotFound:
            # A turn that a fork shares is its parent's.
            return False

    async def _ask_hooks(self, opening: TurnInput) -> TurnInput | str:
        """Return the input with what hooks add to it, or why one of them does not want it."""
        log, seen = self.log, self._preview(opening)
        payload = BeforePromptBuild(
            thread=log.id,
            cwd=str(log.setup.cwd),
            model=log.setup.model,
            prompt=seen.prompt,
            instructions=seen.instructions,
            resumed=log.turn > 0,
        )
        answers = await self.hooks.before_prompt(payload)
        for answer in answers:
            if answer.block is not None:
                return f"a hook does not want this input: {answer.block}"
        # In the transaction of the input, so that a turn begun again says it no second time.
        added = tuple(HookContext(answer.context) for answer in answers if answer.context)
        return msgspec.structs.replace(opening, behind=(*opening.behind, *added))

    def _preview(self, opening: TurnInput) -> Preview:
        harness = self._attempts.harness
        if isinstance(harness, Previews):
            return harness.preview(self._turn_run(), opening)
        return Preview(text_of(opening.message.content), self.engine.guidance or "")

    async def _announce(self, turn: Turn) -> None:
        log, plan, sandbox = self.log, self._attempts.plan, self.policy.sandbox.mode
        assert plan is not None, "a turn was prepared before it was admitted"
        self.emit(
            TurnStarted(
                thread=log.id,
                turn=turn.id,
                number=turn.number,
                model=log.setup.model,
                harness=self._attempts.harness.name,
                harness_reason=plan.harness.reason,
                profile=plan.auth.profile,
                transport=plan.transport,
                sandbox="none" if sandbox == "danger-full-access" else sandbox,
            )
        )
        await self.hooks.notify(OnTurnStart(thread=log.id, turn=turn.id, model=log.setup.model))

    # The attempts: one candidate after the other, until one of them answers.

    async def _attempt(self, turn: Turn) -> Outcome:
        attempts, spent = self._attempts, TokenUsage()
        while True:
            run = self._turn_run(turn)
            run.accepts, run.spent = attempts.accepts, spent
            outcome = await attempts.harness.run(run)
            spent = outcome.usage
            assert attempts.present is not None
            await self.policy.routes.note_result(attempts.present, outcome.facts.failure)
            if outcome.ended:
                return outcome
            verdict = classify(outcome.facts)
            if not isinstance(verdict, Fallback) or not await attempts.move_on(verdict):
                await self.log.turns.finish("failed", usage=outcome.usage)
                return msgspec.structs.replace(outcome, status="failed", ended=True)

    async def _release_profile(self) -> None:
        """After a compaction no account's cache is warm: keep to no profile that nobody chose."""
        compacted, self.events.compacted = self.events.compacted, False
        if compacted:
            await self.policy.routes.release_profile()

    # The end of a turn.

    async def _deliver(self) -> None:
        if self.delivery is not None:
            await self.delivery.send()

    async def _abort(self, given: Input, outcome: Outcome | None) -> TurnCompleted:
        """Return how an interrupted turn stands; one that no harness has ended is ended here."""
        turns = await self.log.store.turns(self.log.id, limit=1)
        turn = next((turn for turn in turns if turn.id == given.turn_id), None)
        if turn is None:
            return TurnCompleted(turn=given.turn_id, status="interrupted")
        if turn.state not in _STATUS:
            await self.log.turns.abort(turn)
            (turn,) = await self.log.store.turns(self.log.id, limit=1)
        status, usage = _STATUS[turn.state], turn.usage or TokenUsage()
        if status != "completed":
            await self.engine.finish(status)
        return await self._report_end(turn, outcome or Outcome(status=status, usage=usage))

    async def _report_end(self, turn: Turn, outcome: Outcome) -> TurnCompleted:
        await self.hooks.notify(
            OnTurnEnd(
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
            tried=self._attempts.tried,
        )

    # What a harness and its tools are given.

    def _turn_run(self, turn: Turn | None = None) -> TurnRun:
        attempts = self._attempts
        assert attempts.model is not None, "a turn is prepared before anything is run"
        assert attempts.present is not None
        return TurnRun(
            turn=turn,
            log=self.log,
            engine=self.engine,
            model=attempts.model,
            tools=self.policy.tools,
            tools_by_name=self.policy.tools_by_name,
            context=self._tool_context,
            emit=self.emit,
            plan=attempts.plan,
            hooks=self.hooks,
            identity=partial(self.policy.routes.identity, attempts.present),
        )

    def _tool_context(self, step: int) -> ToolContext:
        log = self.log
        return ToolContext(
            thread=log.id,
            turn=log.turn,
            step=step,
            cwd=Path(log.setup.cwd),
            policy=self.policy.sandbox,
            approval=self.policy.approval,
            approvals=self.approvals,
            executor=self.executor,
            blobs=StoredBytes(log.store, log.id),
            ask_approval=self.questions.ask_approval,
            show_progress=self._show_progress,
            raise_notice=self._raise_notice,
            ask_questions=self.questions.ask_user,
            ask_model=self.complete("context-engine.recall"),
            output_limit=log.setup.profile.truncation.byte_budget,
            on_result=self._report_evidence,
        )

    def _show_progress(self, progress: Progress) -> None:
        self.emit(ToolProgress(call_id=progress.call_id, text=redact_known(progress.text)))

    def _raise_notice(self, text: str) -> None:
        self.emit(NoticeRaised(level="warning", text=redact_known(text)))

    def _report_evidence(self, call: ToolCall, result: ToolResult) -> None:
        if result.sent or result.media:
            evidence = EvidenceFound(
                call_id=call.call_id, name=call.name, sent=result.sent, media=result.media
            )
            self.emit(evidence)


class StoredBytes(Struct):
    """The bytes a thread keeps, under their digests."""

    store: Store
    thread: str

    async def put(self, data: bytes) -> str:
        """Keep `data`; return its digest."""
        return await self.store.put_blob(self.thread, data)

    async def get(self, handle: str) -> bytes:
        """Return the bytes under `handle`."""
        return await self.store.blob(handle)


def _message_of(body: Json) -> Message:
    item = decode_item(body)
    assert isinstance(item, Message), "what is left in an inbox as input is a message"
    return item


def _unless_ended(turn: Turn) -> Turn | TurnCompleted:
    """Return the turn, or how it ended where it was run before."""
    if turn.state not in _STATUS:
        return turn
    usage = turn.usage or TokenUsage()
    return TurnCompleted(turn=turn.id, status=_STATUS[turn.state], usage=usage)
