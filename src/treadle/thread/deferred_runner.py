"""The turn runner of a thread: made at its first turn, with all that it needs, and not before.

Owns what the tools, the questions, the replies and the limits of a thread are made of. Invariant:
what a thread that runs no turn is asked for (its commands, its files) makes no runner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..core.aio import finish_uncancelled
from ..core.errors import NothingToSend
from ..core.home import home as default_home
from ..hooks import Hooks
from ..sandbox.approvals import Approvals
from .questions import Questions
from .turn import TurnRunner
from .turn_budgets import TurnBudgets
from .watching import watch_executor

if TYPE_CHECKING:
    from ..delivery.reply_sender import ReplySender
    from ..engines.session import EngineSession
    from ..harness.budget import Budget
    from ..harness.event_stream import EventStream
    from ..log.thread_log import ThreadLog
    from ..sandbox.approvals import Decision
    from ..subagents import Subagents
    from ..tools.contract import Answers
    from ..workspace.windows import Owner
    from .elsewhere import Place
    from .policy import ThreadPolicy

__all__ = ["DeferredRunner"]


class DeferredRunner:
    """Makes the turn runner of a thread when it is called first.

    `owners` are those whose changes the tools make, `starter` is the budget of the turn that
    started the thread as an agent.
    """

    def __init__(
        self,
        log: ThreadLog,
        engine: EngineSession,
        policy: ThreadPolicy,
        *,
        subagents: Subagents,
        events: EventStream,
        place: Place | None,
        owners: Callable[[], Sequence[Owner]],
        starter: Budget | None,
    ) -> None:
        self._log, self._engine, self._policy = log, engine, policy
        self._subagents, self._events, self._place = subagents, events, place
        self._owners, self._starter = owners, starter
        self._delivery: ReplySender | None = None
        self._made: TurnRunner | None = None

    def __call__(self) -> TurnRunner:
        """Return the runner."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> TurnRunner:
        options, home, events = self._policy.options, self._log.setup.home, self._events
        executor, recorder = watch_executor(
            options.tools, self._place, home, self._owners, events.warn
        )
        budgets = TurnBudgets(self._log, options.limits, self._starter)
        return TurnRunner(
            self._log,
            self._engine,
            self._policy,
            hooks=options.hooks or Hooks(),
            executor=executor,
            approvals=Approvals(home or default_home()),
            questions=Questions(self._log, events.emit, budgets.standing_still),
            subagents=self._subagents,
            delivery=self._delivery,
            events=events,
            place=self._place,
            recorder=recorder,
            budgets=budgets,
        )

    async def open_delivery(self) -> None:
        """Have replies delivered, first those that were left undelivered."""
        options = self._policy.options
        if options.channels:
            from ..delivery.reply_sender import ReplySender

            warn = self._events.warn
            self._delivery = ReplySender(self._log, options.channels, warn, options.replies)
            await self._delivery.send()

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer a question of the turn. Raises `NothingToSend` where none was asked."""
        if self._made is None:
            raise NothingToSend(f"thread {self._log.id!r} has asked nothing")
        self._made.questions.answer(question, answer)

    async def settle_files(self) -> None:
        """Wait until the copies of files are complete."""
        if self._made is not None and self._made.recorder is not None:
            await self._made.recorder.settle()

    async def end_commands(self) -> None:
        """End every running command that tools have started."""
        if self._made is not None:
            await self._made.executor.close()

    async def close_delivery(self) -> None:
        """Send what is left to send, within its limit, and close the channels."""
        if self._delivery is not None:
            await finish_uncancelled(self._delivery.close())

    async def close(self) -> None:
        """Close the tools, and what the turns have opened."""
        if self._made is not None:
            await self._made.close()
