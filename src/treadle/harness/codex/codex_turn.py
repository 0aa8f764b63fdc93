"""A turn on Codex: send the view, let Codex work, and log what it did.

Owns the course of a turn between the log and the Codex thread: steering, interruption,
continuing after an overflow or a crash, and the end. Invariant: however the turn ends,
every call in the log has its result, and what Codex has done is in the log.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from ...core.aio import finish_uncancelled
from ...core.items import Message, text_of
from ...core.usage import TokenUsage
from ...log.thread_log import ThreadLog
from ...policy.auth.credential import AuthError
from ...policy.failures import Failure, failure_of
from ...policy.limits import LimitReached, outcome_of
from ...prompt.announcements import TurnAborted
from ...store.contract import ENDED_STATES, OutboxDraft, TurnState
from ...tools.dispatch import tools_by_name
from ..attempt_facts import AttemptFacts
from ..budget import OutOfTime, tell_limit
from ..compaction import make_room
from ..contract import Outcome, TurnRun
from ..events import NoticeRaised, Retrying
from ..refused_images import is_about_image, leave_out_images
from .codex_threads import CodexThread, CodexThreads
from .errors import (
    CodexError,
    Disconnected,
    RequestFailed,
    is_auth_error,
    turn_failure,
    unguarded_failure,
    unreached_failure,
)
from .mirror import LOG_ERRORS, DeferredLog, Echo
from .native_compaction import NativeCompactions
from .protocol.client_requests import InterruptTurn, TerminateCommand
from .protocol.types import CodexTurnError
from .provider_waits import limit_wait, nobody_listens
from .reconcile import reconcile
from .request_handler import RequestHandler, ToolRunner
from .start_requests import SentSettings, turn_start
from .steering import Steering
from .text_input import TypedInput
from .turn_events import TurnEvents

__all__ = ["CodexTurn"]

_INTERRUPT_SECONDS = 15.0
"""Seconds that Codex has to end a turn that was interrupted."""

_MOST_RENEWALS = 5
"""How often a turn gets another credential; else a provider that takes none is asked for ever."""


@dataclass(slots=True)
class CodexTurn:
    """One turn of a thread; it may take several turns of Codex."""

    run: TurnRun
    threads: CodexThreads
    usage: TokenUsage = field(init=False)
    facts: AttemptFacts = field(init=False)
    is_unwritten: bool = False
    """Whether the end of the turn is not in the log yet; `write_end` writes it."""
    _deferred_log: DeferredLog = field(init=False)
    _state: TurnState = "failed"
    _thread: CodexThread | None = None
    _events: TurnEvents | None = None
    _tool_runner: ToolRunner | None = None
    _codex_turn: str = ""
    _overflowed: bool = False
    _answered: bool = False
    """Whether the model had already answered when the app-server died."""
    _crashes: int = 0
    _renewals: int = 0
    _waits: int = 0
    """How often a limit of the provider was waited for."""
    _nobody_at: str = ""
    """The address at which nobody listens; Codex was stopped for that."""
    _limit: LimitReached | None = None
    """The limit that ends the turn."""

    def __post_init__(self) -> None:
        self._deferred_log = DeferredLog(self.run)
        self.facts = AttemptFacts(tools_by_name(self.run.tools))
        self.usage = self.run.spent

    async def execute(self) -> Outcome:
        """Run the turn to its end."""
        try:
            async with self.run.budget.clock():
                return await self._run_codex_turns()
        except OutOfTime as over:
            return await finish_uncancelled(self._break_off_at(over.reached))

    async def _run_codex_turns(self) -> Outcome:
        await self.run.log.take_inbox()
        while True:
            if (reached := self.run.budget.reached()) is not None:
                return await self._end_at(reached)
            try:
                events = await self._run_codex_turn()
            except Disconnected as error:
                if not await self._recover_from_crash(error):
                    return await self._fail(Failure(reason="unknown", message=str(error)))
                if self._answered and not await self._take_new_mail():
                    return await self._complete()
                continue
            except (AuthError, CodexError) as error:
                await self._give_up_thread()
                return await self._fail(failure_of(error))
            if (outcome := await self._judge_end(events)) is not None:
                return outcome

    async def _judge_end(self, events: TurnEvents) -> Outcome | None:
        """Return how the turn ended with a turn of Codex; None if it goes on with another."""
        ended = events.ended
        assert ended is not None, "the events were handled to the end"
        if events.guard.breach:
            await self._kill_commands(events)
            self.facts.blocked = True
            return await self._fail(unguarded_failure(events.guard.breach))
        if self._limit is not None and ended.status != "completed":
            await self._kill_commands(events)
            return await self._end_at(self._limit)
        if ended.status == "completed":
            return None if await self._take_new_mail() else await self._complete()
        if self._nobody_at:
            return await self._fail(unreached_failure(self._nobody_at))
        if ended.status == "failed":
            if await self._mend(events):
                return None
            provider = self.run.log.setup.profile.provider
            return await self._fail(turn_failure(events.error, provider))
        await self._kill_commands(events)
        await self.abort()
        return self.facts.outcome("interrupted", self.usage)

    async def _break_off_at(self, reached: LimitReached) -> Outcome:
        """Interrupt Codex's turn in the middle, because the time is over."""
        await self._interrupt()
        log = self.run.log
        if (await log.store.turn(log.id, log.turn)).state in ENDED_STATES:
            return self.facts.outcome("completed", self.usage)
        return await self._end_at(reached)

    async def _end_at(self, reached: LimitReached) -> Outcome:
        """End the turn at a limit; what it did is kept."""
        self._limit = reached
        await self.finish("aborted")
        return self.facts.outcome("interrupted", self.usage, limit=reached)

    async def abort(self) -> None:
        """Interrupt Codex's turn, and end this turn as aborted."""
        await self._interrupt()
        await self.finish("aborted")

    async def finish(self, state: TurnState) -> None:
        """End the turn in the log. If the log cannot be written, that is done later."""
        self._state = state
        try:
            await self.write_end()
        except LOG_ERRORS as error:
            self.is_unwritten = True
            self._deferred_log.error = str(error)
            self.threads.detach(self.run)
            self._deferred_log.warn(
                f"how this turn ended cannot be written to the log: {error}; "
                "that is tried again before the next turn"
            )

    async def write_end(self) -> None:
        """Write the pending items and the end of the turn."""
        log, deferred = self.run.log, self._deferred_log
        missing = await deferred.write_or_drop()
        if deferred.error or self._state != "completed":
            await log.turns.answer_open_calls()
        outcome = None
        if self._state == "aborted" and self._limit is not None:
            outcome = outcome_of(self._limit)
            await tell_limit(log, self._limit)
        elif self._state == "aborted":
            await log.say(TurnAborted())
        rows = await self._binding_rows()
        await log.turns.finish(self._state, outcome=outcome, usage=self.usage, outbox=rows)
        self.is_unwritten = False
        self._mark_known()
        if rows and self._thread is not None:
            await self.threads.delete_former(self._thread)
        if missing:
            self.threads.detach(self.run)
            deferred.warn(f"{missing} items of this turn are missing in the log")

    async def _binding_rows(self) -> tuple[OutboxDraft, ...]:
        """Return the row that lets another process resume the Codex thread, if it is sound."""
        thread, log = self._thread, self.run.log
        sound = thread is not None and self.threads.live.get(log.id) is thread and thread.is_alive
        if thread is None or not sound or thread.replace_reason or self._deferred_log.error:
            return ()
        return (await thread.final_row(log),)

    def drop_pending(self) -> None:
        """Forget the pending items: the thread was reset."""
        self._deferred_log.drop_pending()

    async def _run_codex_turn(self) -> TurnEvents:
        """Run one turn of Codex."""
        self._codex_turn = ""
        thread, typed = await self.threads.attach(self.run)
        compactions = NativeCompactions(self.run)
        events = TurnEvents(self.run, thread, compactions, self._deferred_log, self.facts)
        self._thread, self._events = thread, events
        await events.note_request()
        await thread.begin_turn(self.run.log)
        if typed.parts:
            thread.mirror.expected_echoes.append(Echo.of(typed.parts))
        steering = Steering(self.run, thread)
        runner = ToolRunner(self.run, self.facts, steering.send_waiting, self._stop_codex)
        self._tool_runner, events.repeats = runner, runner.repeats
        patches = events.actions.patches
        thread.guard = events.guard
        thread.handler = RequestHandler(self.run, runner, steering, patches).handle
        watching = asyncio.create_task(steering.watch(), name="codex steering")
        try:
            # The id of a turn that Codex has started must be known, or nobody could stop it.
            await finish_uncancelled(self._start_codex_turn(thread, typed))
            steering.turn = self._codex_turn
            await self._handle_events(events)
        finally:
            self.usage += events.usage
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await self._release(thread)
        return events

    async def _start_codex_turn(self, thread: CodexThread, typed: TypedInput) -> None:
        log = self.run.log
        request = turn_start(log, thread.id, typed.parts, thread.sent_settings)
        thread.sent_settings = SentSettings.of(log)
        self._codex_turn = (await thread.connection.call(request)).turn.id
        self._mark_known()

    async def _handle_events(self, events: TurnEvents) -> None:
        """Handle the events of the Codex turn until it ends."""
        async for event in events.thread.subscription:
            turn = getattr(event, "turn_id", None) or getattr(
                getattr(event, "turn", None), "id", None
            )
            if turn is not None and turn != self._codex_turn:
                continue
            if events.emit_delta(event):
                continue
            await finish_uncancelled(events.handle(event))
            await self._stop_unguarded(events)
            await self._stop_unreached(events)
            await self._stop_at_limit(events)
            if events.ended is not None:
                return
        raise Disconnected("another subscription took over the Codex thread; start the turn again")

    async def _stop_unguarded(self, events: TurnEvents) -> None:
        """Stop Codex when it does what a hook was not asked about, unless the user allows that."""
        guard = events.guard
        if not guard.breach or events.actions.interrupting or events.ended is not None:
            return
        if self.threads.servers.options.unguarded:
            self.run.emit(NoticeRaised(level="warning", text=guard.breach))
            guard.disarm()
            return
        events.thread.replace_reason = "unguarded"
        with suppress(RequestFailed):
            await self._stop_codex()

    async def _stop_unreached(self, events: TurnEvents) -> None:
        """Stop Codex where it would go on asking a provider on this machine that is not there."""
        unreached, events.unreached = events.unreached, False
        if not unreached or events.actions.interrupting or events.ended is not None:
            return
        if await nobody_listens(events.thread.base_url):
            self._nobody_at = events.thread.base_url
            with suppress(RequestFailed):
                await self._stop_codex()

    async def _stop_at_limit(self, events: TurnEvents) -> None:
        """Stop Codex between two steps where the turn has reached a limit."""
        if events.actions.interrupting or events.ended or not events.is_between_steps:
            return
        self._limit = self.run.budget.reached()
        if self._limit is not None:
            with suppress(RequestFailed):
                await self._stop_codex()

    async def _give_up_thread(self) -> None:
        """Use another thread next time: Codex did not start a turn, or did not say so."""
        if self._thread is not None:
            self._thread.replace_reason = "turn-not-started"
            await self._stop_answering(self._thread)

    async def _release(self, thread: CodexThread) -> None:
        """End everything that belongs to the Codex turn, which has ended."""
        await self._stop_answering(thread)
        if not self._deferred_log.pending:
            await self._deferred_log.attempt(self.run.log.turns.answer_open_calls())
        self._mark_known()

    async def _stop_answering(self, thread: CodexThread) -> None:
        """Answer no more requests of Codex, and end the running calls."""
        thread.handler = None
        if thread.guard is not None:
            await thread.guard.close()
            thread.guard = None
        if self._codex_turn and thread.mirror.awaits_input:
            thread.replace_reason = "input-not-taken"
        thread.mirror.expected_echoes.clear()
        if self._tool_runner is not None:
            await self._tool_runner.abort()
            self._tool_runner = None

    def _mark_known(self) -> None:
        """Count the whole view as known: it came from Codex, or need not be sent."""
        if self._thread is not None and self._codex_turn:
            self._thread.mark_known(self.run.log.view.rows)

    async def _stop_codex(self) -> None:
        """Interrupt the turn of Codex."""
        assert self._thread is not None, "a turn is running"
        assert self._events is not None, "a turn is running"
        self._events.actions.interrupting = True
        await self._thread.connection.call(
            InterruptTurn(thread_id=self._thread.id, turn_id=self._codex_turn)
        )

    async def _interrupt(self) -> None:
        """Stop Codex and handle its last events; if it does not answer, drop the thread."""
        thread, events = self._thread, self._events
        if thread is None or events is None or events.ended is not None:
            return
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                if self._codex_turn:
                    # If Codex refuses, the turn has ended, and its last events are on their way.
                    with suppress(RequestFailed):
                        await self._stop_codex()
                    await self._handle_events(events)
                    await self._kill_commands(events)
                else:
                    await events.break_off()
                await self._release(thread)
                return
        except (TimeoutError, CodexError):
            self.threads.detach(self.run)
        await self._release(thread)
        await events.break_off()

    async def _kill_commands(self, events: TurnEvents) -> None:
        """Kill the commands of an interrupted turn, which Codex leaves running."""
        thread = events.thread
        for command in events.actions.running:
            events.report_killed(command)
            if command.process_id is not None:
                with suppress(CodexError):
                    await thread.connection.call(
                        TerminateCommand(thread_id=thread.id, process_id=command.process_id)
                    )

    async def _recover_from_crash(self, error: Disconnected) -> bool:
        """Reconcile the log after a crash; return whether the turn is answered or can continue."""
        self.threads.detach(self.run)
        thread, events = self._thread, self._events
        self._answered = False
        if thread is not None and events is not None:
            answered, compacting = events.is_answered, events.compactions.running is not None
            await events.break_off()
            await self._stop_answering(thread)
            # The rollout may have results that no event brought; only the others are unknown.
            found = await reconcile(self.run, thread.binding, compacting=compacting)
            self._answered = answered or found.answered
            self._deferred_log.drop_pending()
        self._thread = self._events = None
        await self.run.log.turns.answer_open_calls()
        if self._answered:
            self.facts.text = _last_answer(self.run.log) or self.facts.text
            return True
        self._crashes += 1
        if self._crashes > 1:
            return False
        self.run.emit(Retrying(attempt=1, most=1, delay=0.0, reason=str(error)))
        return True

    async def _mend(self, events: TurnEvents) -> bool:
        """Mend what made a turn fail; return whether it makes sense to go on."""
        return (
            await self._make_room(events.error)
            or await self._renew_credential(events)
            or await self._leave_out_images(events.error)
            or await self._wait_for_limit(events.error)
        )

    async def _make_room(self, error: CodexTurnError | None) -> bool:
        """Compact the view after an overflow, once per turn; return whether that was done."""
        if error is None or not error.is_overflow:
            return False
        if self._thread is not None:
            self._thread.replace_reason = "overflow"
        if self._overflowed:
            return False
        self._overflowed = True
        log = self.run.log
        if all(row.turn == log.turn or row.contextual for row in log.view.rows):
            return False
        return await make_room(self.run, "overflow", live=True)

    async def _leave_out_images(self, error: CodexTurnError | None) -> bool:
        """Go on without images that the provider refused; return whether there are any."""
        if error is None or not is_about_image(error.message):
            return False
        if self._thread is not None:
            self._thread.replace_reason = "image-refused"
        return await leave_out_images(self.run, error.message)

    async def _wait_for_limit(self, error: CodexTurnError | None) -> bool:
        """Wait where the provider asks for fewer requests; return whether to ask again."""
        delay = limit_wait(self.run, error, self._waits)
        if error is None or delay is None:
            return False
        self._waits += 1
        most, reason = self.run.backoff.retries, error.message
        self.run.emit(
            Retrying(attempt=self._waits, most=most, delay=round(delay, 3), reason=reason)
        )
        await self.run.backoff.sleep(delay)
        return True

    async def _renew_credential(self, events: TurnEvents) -> bool:
        """Get another credential for a refused one; return whether there is one."""
        refused = events.thread.bearer
        if not refused or not is_auth_error(events.error) or self._renewals >= _MOST_RENEWALS:
            return False
        try:
            identity = await self.run.identity(rejected=refused)
        except AuthError:
            return False
        if identity.credential is None or identity.credential.bearer == refused:
            return False
        self._renewals += 1
        reason = f"the credential of {identity.profile!r} has ended, and there is another"
        self.run.emit(
            Retrying(attempt=self._renewals, most=_MOST_RENEWALS, delay=0.0, reason=reason)
        )
        return True

    async def _take_new_mail(self) -> bool:
        """Move mail from the inbox to the log; return whether there was any."""
        return bool(await self._deferred_log.attempt(self.run.log.take_inbox()))

    async def _complete(self) -> Outcome:
        if self.run.accepts(self.facts.facts()) or self._deferred_log.error:
            await self.finish("completed")
            outcome = self.facts.outcome("completed", self.usage)
            if not self.is_unwritten:
                return outcome
            error = f"the log does not hold how this turn ended: {self._deferred_log.error}"
            return replace(outcome, error=error)
        await self._leave_open()
        return self.facts.outcome("completed", self.usage, ended=False)

    async def _fail(self, failure: Failure) -> Outcome:
        """Return a failure; the plan decides what follows, unless the log cannot be written."""
        if self._deferred_log.error:
            await self.finish("failed")
            return self.facts.outcome("failed", self.usage, failure)
        await self._leave_open()
        return self.facts.outcome("failed", self.usage, failure, ended=False)

    async def _leave_open(self) -> None:
        """Leave the turn open, with a result for every call."""
        await self.run.log.turns.answer_open_calls()
        self._mark_known()


def _last_answer(log: ThreadLog) -> str:
    """Return the last message of the model, if it is the last item."""
    newest = log.view.rows[-1].item if log.view.rows else None
    if isinstance(newest, Message) and newest.role == "assistant":
        return text_of(newest.content)
    return ""
