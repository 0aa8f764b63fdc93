"""A turn on Codex: carry the view over, let Codex work, and keep what it did.

Owns the way of a turn between our log and Codex's thread: steering, interrupting, going
on after an overflow or a crash, and the end. Invariant: however the turn ends, every
call in the log has its result, and what Codex has done is in the log.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from ...core.aio import finish_uncancelled
from ...core.items import Message, text_of
from ...core.usage import TokenUsage
from ...log.thread_log import ThreadLog
from ...policy.auth.errors import AuthError
from ...policy.failures import Failure
from ...policy.failures import failure_of as why
from ...prompt.events import TurnAborted
from ...store.contract import TurnState
from ...tools.dispatch import by_name
from ..attempt_facts import AttemptFacts
from ..compaction import make_room
from ..contract import Outcome, TurnRun
from ..events import Retrying
from .asked import RequestHandler
from .attachment import CodexThread, TypedInput
from .errors import CodexError, Disconnected, RequestFailed
from .following import TurnEvents
from .keeping import LOG_ERRORS, DeferredLog
from .mirror import Echo
from .native import NativeCompactions
from .protocol.requests import TerminalTerminate, TurnInterrupt, TurnStart
from .protocol.values import CodexTurnError
from .reasons import is_auth_error, turn_failure
from .reconcile import reconcile
from .steering import Steering
from .tools import ToolRunner

__all__ = ["Attaches", "CodexTurn"]

_GRACE = 15.0
"""Seconds that Codex has to end a turn that was interrupted."""


_RENEWALS = 5
"""How often a turn's credential may end; a provider that takes none is not asked for ever."""


class Attaches(Protocol):
    """Finds the Codex thread of a turn."""

    async def attach(self, run: TurnRun) -> tuple[CodexThread, TypedInput]:
        """A thread that shows the view, and what is left to be typed."""
        ...

    def make_turn_start(
        self, run: TurnRun, attachment: CodexThread, carried: TypedInput
    ) -> TurnStart:
        """How a turn on it is started."""
        ...

    def detach(self, run: TurnRun) -> None:
        """The thread is gone."""
        ...


@dataclass(slots=True)
class CodexTurn:
    """One turn of ours; it may take several of Codex's."""

    run: TurnRun
    threads: Attaches
    usage: TokenUsage = field(init=False)
    facts: AttemptFacts = field(init=False)
    is_unwritten: bool = False
    """The log does not say yet how it ended; `settle` says it."""
    _keeping: DeferredLog = field(init=False)
    _state: TurnState = "failed"
    _attachment: CodexThread | None = None
    _following: TurnEvents | None = None
    _hands: ToolRunner | None = None
    _codex_turn: str = ""
    _overflowed: bool = False
    _answered: bool = False
    """The app-server died when there was nothing left to say."""
    _crashes: int = 0
    _renewals: int = 0

    def __post_init__(self) -> None:
        self._keeping, self.facts = DeferredLog(self.run), AttemptFacts(by_name(self.run.tools))
        self.usage = self.run.spent

    async def execute(self) -> Outcome:
        """Run it to its end."""
        await self.run.log.take_inbox()
        while True:
            try:
                following = await self._once()
            except Disconnected as error:
                if not await self._survived(error):
                    return await self._failed(Failure(reason="unknown", message=str(error)))
                if self._answered and not await self._was_spoken_to():
                    return await self._completed()
                continue
            except (AuthError, CodexError) as error:
                await self._given_up()
                return await self._failed(why(error))
            ended = following.ended
            assert ended is not None, "it was followed to its end"
            if ended.status == "completed":
                if await self._was_spoken_to():
                    continue
                return await self._completed()
            if ended.status == "failed":
                if await self._made_room(following.failure) or await self._renewed(following):
                    continue
                provider = self.run.log.setup.profile.provider
                return await self._failed(turn_failure(following.failure, provider))
            await self._end_commands(following)
            await self.abort()
            return self.facts.outcome("interrupted", self.usage)

    async def abort(self) -> None:
        """Break the turn off: Codex's, then ours."""
        await self._interrupt()
        await self.finish("aborted")

    async def finish(self, state: TurnState) -> None:
        """End the turn in the log. A log that cannot be written is owed that."""
        self._state = state
        try:
            await self.write_end()
        except LOG_ERRORS as error:
            self.is_unwritten = True
            self._keeping.error = str(error)
            self.threads.detach(self.run)
            self._keeping.warn(
                f"how this turn ended cannot be written to the log: {error}; "
                "that is tried again before the next turn"
            )

    async def write_end(self) -> None:
        """Write what the log is owed, and how the turn ended."""
        log, keeping = self.run.log, self._keeping
        missing = await keeping.write_or_drop()
        if keeping.error or self._state != "completed":
            await log.turns.answer_open_calls()
        if self._state == "aborted":
            await log.say(TurnAborted())
        await log.turns.finish(self._state, usage=self.usage)
        self.is_unwritten = False
        self._known()
        if missing:
            self.threads.detach(self.run)
            keeping.warn(f"{missing} items of this turn are missing in the log")

    def drop_pending(self) -> None:
        """The thread was reset: nobody wants to see what the log was not told."""
        self._keeping.drop_pending()

    async def _once(self) -> TurnEvents:
        """One turn of Codex's."""
        self._codex_turn = ""
        attachment, carried = await self.threads.attach(self.run)
        following = TurnEvents(
            self.run, attachment, NativeCompactions(self.run), self._keeping, self.facts
        )
        self._attachment, self._following = attachment, following
        await following.note_request()
        await attachment.begin_turn(self.run.log)
        if carried.parts:
            attachment.mirror.expected_echoes.append(Echo.of(carried.parts))
        steering = Steering(self.run, attachment)
        hands = self._hands = ToolRunner(self.run, self.facts, steering.send_waiting, self._stop)
        attachment.handler = RequestHandler(
            self.run, hands, steering, following.actions.patches
        ).handle
        looking = asyncio.create_task(steering.watch(), name="codex steering")
        try:
            # A turn that Codex has begun must be known, or nobody could stop it.
            await finish_uncancelled(self._begin(attachment, carried))
            steering.turn = self._codex_turn
            await self._follow(following)
        finally:
            self.usage += following.usage
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        await self._let_go(attachment)
        return following

    async def _begin(self, attachment: CodexThread, carried: TypedInput) -> None:
        started = self.threads.make_turn_start(self.run, attachment, carried)
        self._codex_turn = (await attachment.connection.call(started)).turn.id
        self._known()

    async def _follow(self, following: TurnEvents) -> None:
        attachment = following.attachment
        async for event in attachment.subscription:
            name = getattr(event, "turn_id", None) or getattr(
                getattr(event, "turn", None), "id", None
            )
            if name is not None and name != self._codex_turn:
                continue
            if following.emit_delta(event):
                continue
            await finish_uncancelled(following.handle(event))
            if following.ended is not None:
                return
        raise Disconnected("the Codex thread was given to someone else")

    async def _given_up(self) -> None:
        """Codex did not begin a turn, or did not say so: the next is begun on another thread."""
        if self._attachment is not None:
            self._attachment.replace_reason = "turn-not-started"
            await self._take_hands_off(self._attachment)

    async def _let_go(self, attachment: CodexThread) -> None:
        """The turn of Codex's is over: nothing of it goes on."""
        await self._take_hands_off(attachment)
        if not self._keeping.pending:
            await self._keeping.attempt(self.run.log.turns.answer_open_calls())
        self._known()

    async def _take_hands_off(self, attachment: CodexThread) -> None:
        """Answer and do nothing more for Codex."""
        attachment.handler = None
        if self._codex_turn and attachment.mirror.awaits_input:
            attachment.replace_reason = "input-not-taken"
        attachment.mirror.expected_echoes.clear()
        if self._hands is not None:
            await self._hands.abort()
            self._hands = None

    def _known(self) -> None:
        """All that the view shows now came from Codex, or need not go there."""
        if self._attachment is not None and self._codex_turn:
            self._attachment.mark_known(self.run.log.view.rows)

    async def _stop(self) -> None:
        """Let Codex go no further."""
        attachment, following = self._attachment, self._following
        assert attachment is not None, "a turn is under way"
        assert following is not None, "a turn is under way"
        following.actions.interrupting = True
        await attachment.connection.call(
            TurnInterrupt(thread_id=attachment.binding.codex, turn_id=self._codex_turn)
        )

    async def _interrupt(self) -> None:
        """Stop Codex and hear it out; where it does not answer, the thread is given up."""
        attachment, following = self._attachment, self._following
        if attachment is None or following is None or following.ended is not None:
            return
        try:
            async with asyncio.timeout(_GRACE):
                if self._codex_turn:
                    # Refused: the turn is over, and what it said last is on its way.
                    with suppress(RequestFailed):
                        await self._stop()
                    await self._follow(following)
                    await self._end_commands(following)
                else:
                    await following.break_off()
                await self._let_go(attachment)
                return
        except (TimeoutError, CodexError):
            self.threads.detach(self.run)
        await self._let_go(attachment)
        await following.break_off()

    async def _end_commands(self, following: TurnEvents) -> None:
        """Codex leaves the commands of an interrupted turn running; they end with it."""
        attachment = following.attachment
        for command in following.actions.running:
            following.report_killed(command)
            if command.process_id is not None:
                with suppress(CodexError):
                    await attachment.connection.call(
                        TerminalTerminate(
                            thread_id=attachment.binding.codex, process_id=command.process_id
                        )
                    )

    async def _survived(self, error: Disconnected) -> bool:
        """Whether a turn whose app-server died is answered, or can go on with another."""
        self.threads.detach(self.run)
        attachment, following = self._attachment, self._following
        self._answered = False
        if attachment is not None and following is not None:
            said_all, folding = following.said_all, following.compactions.open is not None
            await following.break_off()
            await self._take_hands_off(attachment)
            # Its files may know results that were not heard of; only then is one unknown.
            left = await reconcile(self.run, attachment.binding, folding=folding)
            self._answered = said_all or left.answered
            self._keeping.drop_pending()
        self._attachment = self._following = None
        await self.run.log.turns.answer_open_calls()
        if self._answered:
            self.facts.text = _last_words(self.run.log) or self.facts.text
            return True
        self._crashes += 1
        if self._crashes > 1:
            return False
        self.run.emit(Retrying(attempt=1, most=1, delay=0.0, reason=str(error)))
        return True

    async def _made_room(self, failure: CodexTurnError | None) -> bool:
        """Whether an overflow was answered: the view folded, and a new thread for it. Once."""
        if failure is None or not failure.is_overflow:
            return False
        if self._attachment is not None:
            self._attachment.replace_reason = "overflow"
        if self._overflowed:
            return False
        self._overflowed = True
        log = self.run.log
        if all(row.turn == log.turn or row.contextual for row in log.view.rows):
            return False
        return await make_room(self.run, "overflow", live=True)

    async def _renewed(self, following: TurnEvents) -> bool:
        """Whether a turn whose credential was refused can go on with another one."""
        refused = following.attachment.bearer
        if not refused or not is_auth_error(following.failure) or self._renewals >= _RENEWALS:
            return False
        try:
            who = await self.run.identity(rejected=refused)
        except AuthError:
            return False
        if who.credential is None or who.credential.bearer == refused:
            return False
        self._renewals += 1
        reason = f"the credential of {who.profile!r} has ended, and there is another"
        self.run.emit(Retrying(attempt=self._renewals, most=_RENEWALS, delay=0.0, reason=reason))
        return True

    async def _was_spoken_to(self) -> bool:
        """Whether something waited in the inbox, which is in the log now."""
        return bool(await self._keeping.attempt(self.run.log.take_inbox()))

    async def _completed(self) -> Outcome:
        if self.run.accepts(self.facts.facts()) or self._keeping.error:
            await self.finish("completed")
            done = self.facts.outcome("completed", self.usage)
            return replace(done, error=self._undurable) if self.is_unwritten else done
        await self._left_open()
        return self.facts.outcome("completed", self.usage, ended=False)

    @property
    def _undurable(self) -> str:
        return f"the log does not hold how this turn ended: {self._keeping.error}"

    async def _failed(self, failure: Failure) -> Outcome:
        """Tell of a failure; what follows from it is decided elsewhere, if the log can say so."""
        if self._keeping.error:
            await self.finish("failed")
            return self.facts.outcome("failed", self.usage, failure)
        await self._left_open()
        return self.facts.outcome("failed", self.usage, failure, ended=False)

    async def _left_open(self) -> None:
        """Leave the turn as it stands, with a result for every call."""
        await self.run.log.turns.answer_open_calls()
        self._known()


def _last_words(log: ThreadLog) -> str:
    """What the model said last, if nothing came behind it."""
    newest = log.view.rows[-1].item if log.view.rows else None
    if isinstance(newest, Message) and newest.role == "assistant":
        return text_of(newest.content)
    return ""
