"""The turn runner: one turn, from its input to its end.

Owns the way of a turn, in the order that docs/architecture.md draws it: prepare, catch up,
make room, admit, attempt, finish. Invariants: one attempt after the other until one answers;
a turn that nobody answered ends with the last error; an interrupted turn is ended in the log.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw

from ..core.aio import finish_uncancelled
from ..core.capability import offers
from ..core.ids import new_id
from ..core.money import Bill
from ..core.redact import blank_value, redact_logs
from ..core.usage import TokenUsage
from ..core.wire import json_bytes
from ..engines.session import EngineSession
from ..harness.compaction import compact_natively, compact_view, is_full, make_room, with_native
from ..harness.contract import Compacts, Outcome, Resumes, TurnRun
from ..harness.events import (
    TurnCompleted,
    TurnStarted,
)
from ..hooks import Hooks
from ..hooks.payloads import OnTurnEnd, OnTurnStart
from ..log.bills import spent_on
from ..policy.outcome import Facts, Fallback, classify
from ..prompt.announcements import AnswerMisfit
from ..prompt.input import user_message
from ..sandbox.approvals import Approvals
from ..store.contract import Turn
from ..tools.executor import Bounds
from ..tools.executor_life import Leaves
from .admission import END_STATUS, InputAdmission
from .attempts import Attempts
from .elsewhere import Place, attach
from .host_input import Input
from .pending_calls import settle_pending
from .stored_bytes import StoredBytes
from .summary_models import SummaryModels
from .tool_support import ToolSupport
from .turn_budgets import TurnBudgets
from .turn_mail import is_report, take_mail
from .turn_warnings import TurnWarnings

if TYPE_CHECKING:
    from ..context.preview import NextRequest
    from ..delivery.channel import ReplyOrigin
    from ..delivery.reply_sender import ReplySender
    from ..engines.compaction import CompactionOutcome
    from ..harness.completion import EngineComplete
    from ..harness.event_stream import EventStream
    from ..log.thread_log import ThreadLog
    from ..policy.limits import Limits
    from ..policy.turn_plan import TurnPlan
    from ..prompt.announcements import UserShellCommand
    from ..subagents import Subagents
    from ..tools.executor import ToolExecutor
    from ..workspace.recorder import FileRecorder
    from .policy import ThreadPolicy
    from .questions import Questions

__all__ = ["TurnRunner"]


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
        place: Place | None = None,
        recorder: FileRecorder | None = None,
        budgets: TurnBudgets | None = None,
    ) -> None:
        self.log = log
        self.engine = engine
        self.policy = policy
        self.hooks = hooks
        self.executor = executor
        self.questions = questions
        self.subagents = subagents
        self.delivery = delivery
        self.events = events
        self.emit = events.emit
        self.place = place
        self.recorder = recorder
        self.budgets = budgets or TurnBudgets(log, policy.options.limits)
        self.began = False
        """The present turn has its input; from now on its end is told by an event."""
        self.leaving = False
        """The present turn is to be left open, for another process."""
        self._summaries = SummaryModels(log, policy.options, policy.routes, self.emit)
        self._attempts = Attempts(log, engine, policy, self.emit)
        self._warnings = TurnWarnings(events.warn)
        self._admission = InputAdmission(
            log, engine, policy, hooks=hooks, attempts=self._attempts, run=self._turn_run
        )
        self._tools = ToolSupport(
            log,
            policy,
            approvals=approvals,
            executor=executor,
            questions=questions,
            delivery=delivery,
            emit=self.emit,
            complete=self.complete,
        )
        if delivery is not None:
            delivery.watch(
                pending=lambda: bool(subagents.working),
                asked=lambda: questions.dismissed or bool(subagents.open_questions),
            )

    async def run(
        self,
        given: Input | None,
        *,
        turn_id: str | None = None,
        origin: ReplyOrigin | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Run one turn to its end, and deliver what it says; the host hears of it by events.

        With nothing given, the turn is about what waits in the inbox, or about what the
        first agent to end has to tell. Raises `NothingToSend` without either. The turn has
        these `limits`, or those of the thread.
        """
        self.began = self.leaving = False
        if given is not None or limits is not None or not self.budgets.has_begun:
            self.budgets.begin(limits)
        self._limit_turn()
        try:
            await self._prepare()
            if turn_id is not None:
                # Before its agents go on, and what they spend is counted as they do.
                plan = self._attempts.plan
                await self.budgets.restore(turn_id, plan.pricing if plan else None)
            await self.subagents.recover()
            if given is None:
                given = await take_mail(self.log, self.subagents, turn_id)
                if limits is None and not is_report(given):
                    self.budgets.begin(None)
                    self._limit_turn()
            # Before hooks and engines see it: by now the keys of the turn are known.
            given = blank_value(given)
            given = msgspec.structs.replace(given, turn_id=given.turn_id or new_id("turn"))
            self.questions.dismissed = False
            if self.delivery is not None:
                self.delivery.expect(origin, given.provenance)
            self.began = True
            if self.recorder is not None:
                self.recorder.begin_turn()
            try:
                ended = await self._run(given)
                await self._deliver()
                self.emit(ended)
            except asyncio.CancelledError:
                await finish_uncancelled(self._deliver())
                raise
        finally:
            if self.recorder is not None:
                self.recorder.end_turn()
            self._attempts.ask_first_model_again()
            await self._release_profile()

    def _limit_turn(self) -> None:
        """Have the plan of the turn go by its budget."""
        budget = self.budgets.present
        self.policy.limits, self.policy.counts_money = budget.limits, budget.counts_money

    async def _run(self, given: Input) -> TurnCompleted:
        outcome: Outcome | None = None
        try:
            await self._catch_up()
            if self._compacts_here and is_full(self._turn_run()):
                await make_room(self._turn_run(), "auto", live=False)
            turn = await self._admission.admit(given)
            if isinstance(turn, TurnCompleted):
                return turn
            if self.delivery is not None:
                await self.delivery.restore_evidence(turn.number)
            await self._announce(turn)
            outcome = await self._attempt(turn)
            await self.engine.finish(outcome.status)
            return await self._report_end(turn, outcome)
        except asyncio.CancelledError:
            if not self.leaving:
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
        if (servers := self.policy.servers) is not None:
            await servers.foresee()
            self.policy.offer_tools()
        await self._find_summary_models()
        await self._attempts.select_harness()
        await self._attempts.load_engine()
        return await self.policy.foresee()

    async def preview(self, given: Input | None) -> NextRequest:
        """Return the first request of a turn that would start now, without side effects.

        Hooks are not called and no engine assembles it; `lacks` names what that may leave
        out. Without input, it shows the context.
        """
        from .unforeseen import unforeseen

        self.policy.follow(await self.foresee())
        said = blank_value(given) if given else Input(message=user_message("…"))
        opening, context = await self._admission.prepare(said), await self.log.setup.observe()
        seen = await self.log.turns.preview(opening, context, with_input=given is not None)
        return msgspec.structs.replace(seen, lacks=tuple(unforeseen(self.hooks, self.engine)))

    async def run_command(self, line: str) -> UserShellCommand:
        """Run a command of the user's own; return what the model is told of it."""
        from .user_command import run_user_command

        log = self.log
        await self.attach()
        return await run_user_command(
            line,
            shell=log.setup.shell,
            cwd=log.setup.workspace,
            thread=log.id,
            executor=self.executor,
            blobs=StoredBytes(log.store, log.id),
        )

    async def close(self) -> None:
        """Close the connection and what tools left running."""
        able: object = self.executor
        await (able.leave() if isinstance(able, Leaves) else self.executor.close())
        if self.recorder is not None:
            await self.recorder.settle()
        await self._summaries.close()
        await self._attempts.close()

    # Before a turn: who may answer, who runs it, what was decided.

    async def _prepare(self) -> None:
        """Have everything there that the next turn needs: harness, engine, connection, plan."""
        redact_logs()  # again: what was imported since has loggers, too
        await self.attach()
        if (servers := self.policy.servers) is not None:
            for text in await servers.prepare():
                self.events.warn(text)
            self.policy.offer_tools()
        await self._find_summary_models()
        await self._attempts.begin()
        self.subagents.apply_settings(self.log.setup.settings)

    async def attach(self) -> None:
        """Have the place there where tools act, if that is not simply this machine."""
        if self.place is None:
            return
        setup = self.log.setup
        await attach(self.log, self.place)
        if setup.executor is not None and setup.executor.shell != setup.shell:
            setup.shell = setup.executor.shell
            self.policy.offer_tools()

    async def _find_summary_models(self) -> None:
        """Know who writes summaries; before the candidates, whose choice of a profile counts."""
        await self._summaries.find(counts_money=self.policy.counts_money)
        self.policy.summaries = self._summaries.found

    async def _catch_up(self) -> None:
        """Know all that happened to the thread, before anything else does."""
        await self.log.epochs.begin_head()
        harness = self._attempts.harness
        if offers(harness, Resumes):
            await harness.resume(self._turn_run())
        if (servers := self.policy.options.tools.mcp) is not None:
            await settle_pending(self.log, servers)
        # A view with open calls cannot be compacted, and that may be the next thing to do.
        await self.log.turns.recover()
        await self.engine.begin()

    @property
    def _compacts_here(self) -> bool:
        """Whether the view is compacted here; some harnesses do that themselves, if they may."""
        return self.engine.handles_compaction or not self._attempts.harness.traits.room

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
        attempts, spent, asked_again = self._attempts, TokenUsage(), False
        while True:
            assert attempts.plan is not None, "a turn was prepared before it was admitted"
            self._warnings.tell_unheld(attempts.plan)
            self._warnings.tell_problems(self.subagents.kinds.problems)
            self._warnings.tell_unreadable(self.log.view, self.log.setup.model, turn)
            run = self._turn_run(turn)
            run.accepts, run.spent = self._accepts, spent
            if attempts.harness.traits.tools:
                self._watch_files()
            outcome = await attempts.harness.run(run)
            spent = outcome.usage
            assert attempts.present is not None
            await self.policy.routes.note_result(attempts.present, outcome.facts.failure)
            if outcome.limit is not None:
                await self.subagents.stop()
                self.emit(outcome.limit)
            if outcome.ended:
                return outcome
            if misfit := self._misfit(outcome.facts):
                if asked_again:
                    return await self._fail(
                        outcome, f"the answer does not fit its schema: {misfit}"
                    )
                asked_again = True
                await self._ask_again(misfit)
                continue
            verdict = classify(outcome.facts)
            if asked_again and isinstance(verdict, Fallback):
                return await self._fail(outcome, outcome.error or verdict.message)
            if not isinstance(verdict, Fallback) or not await attempts.move_on(verdict):
                return await self._fail(outcome, outcome.error)

    def _accepts(self, facts: Facts) -> bool:
        return self._attempts.accepts(facts) and not self._misfit(facts)

    def _misfit(self, facts: Facts) -> str:
        """Return why an answer does not fit the schema that was asked for; empty if it does."""
        schema = self.log.setup.choices.output_schema
        if schema is UNSET or facts.failure or facts.aborted or facts.blocked or facts.refused:
            return ""
        from ..policy.answer_schema import find_misfit

        return find_misfit(facts.text, schema) if facts.text.strip() else ""

    async def _ask_again(self, misfit: str) -> None:
        """Tell the model and the user why the answer is asked for once more."""
        await self.log.say(AnswerMisfit(misfit))
        self._tools.raise_notice(
            f"the answer does not fit its schema: {misfit}; it is asked for again"
        )

    async def _fail(self, outcome: Outcome, error: str | None) -> Outcome:
        """End the turn as failed."""
        await self.log.turns.finish("failed", usage=outcome.usage)
        return msgspec.structs.replace(outcome, status="failed", ended=True, error=error)

    def _watch_files(self) -> None:
        """Have files kept while a harness with hands of its own works, if those can write."""
        policy = self.policy
        may_write = policy.sandbox.mode != "read-only" or policy.approval != "never"
        if self.recorder is not None and may_write:
            bounds = Bounds(policy=policy.sandbox, workspace=Path(self.log.setup.cwd))
            self.recorder.watch(bounds)

    async def _release_profile(self) -> None:
        """After a compaction no account's cache is warm: keep to no profile that nobody chose."""
        compacted, self.events.compacted = self.events.compacted, False
        if compacted:
            await self.policy.routes.release_profile()

    # The end of a turn.

    async def _deliver(self) -> None:
        if self.delivery is not None:
            await self.delivery.forget_evidence()
            await self.delivery.send()

    async def _abort(self, given: Input, outcome: Outcome | None) -> TurnCompleted:
        """Return how an interrupted turn stands; one that no harness has ended is ended here."""
        turns = await self.log.store.turns(self.log.id, limit=1)
        turn = next((turn for turn in turns if turn.id == given.turn_id), None)
        if turn is None:
            return TurnCompleted(turn=given.turn_id, status="interrupted")
        if turn.state not in END_STATUS:
            await self.log.turns.abort(turn)
            (turn,) = await self.log.store.turns(self.log.id, limit=1)
        status, usage = END_STATUS[turn.state], turn.usage or TokenUsage()
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
            refused=outcome.refused,
            usage=outcome.usage,
            cost=self._cost_of(turn),
            error=outcome.error,
            tried=self._attempts.tried,
            limit=outcome.limit,
        )

    def _cost_of(self, turn: Turn) -> Bill:
        """Return what the answers of a turn cost that were recorded here."""
        rows = [row for row in self.log.requests.answered if row.turn == turn.number]
        return spent_on(rows, self.policy.options.routing.prices).bill

    # What a harness and its tools are given.

    def _turn_run(self, turn: Turn | None = None) -> TurnRun:
        attempts = self._attempts
        assert attempts.model is not None, "a turn is prepared before anything is run"
        assert attempts.present is not None
        budget = self.budgets.present
        budget.pricing = attempts.plan.pricing if attempts.plan is not None else None
        return TurnRun(
            turn=turn,
            log=self.log,
            engine=self.engine,
            model=attempts.model,
            tools=self.policy.tools,
            tools_by_name=self.policy.tools_by_name,
            context=self._tools.make,
            emit=self.emit,
            plan=attempts.plan,
            hooks=self.hooks,
            identity=partial(self.policy.identity, attempts.present),
            retries=self.policy.routes.retries(attempts.present.model),
            waits_for_limits=attempts.present.final,
            budget=budget,
            find_summary_model=partial(self._summaries.connect, attempts.plan),
            leaving=lambda: self.leaving,
        )
