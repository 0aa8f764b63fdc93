"""Live turns: those that run in this process, whoever waits for them.

Owns their start, their questions and their end. Invariants: a turn that was started has a
report in the end, also when it is interrupted or could not begin; its thread is closed before
the report is there; and a question that nobody answers is declined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from ..core.errors import TreadleError
from ..core.ids import new_id
from ..core.redact import one_line
from ..harness.events import (
    AgentReported,
    ApprovalRequested,
    ApprovalWithdrawn,
    Event,
    NoticeRaised,
    QuestionsAsked,
    StepStarted,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
)
from ..sandbox.approvals import Decision, No
from ..thread.thread import Thread
from ..tools.contract import Answers
from .agent_home import AgentHome, TurnReport
from .tool_arguments import TurnArguments

__all__ = ["LiveTurn", "LiveTurns"]

_MOST = 8
"""How many turns run at a time."""
_KEPT = 200
"""How many turns that have ended are remembered."""
_PATIENCE = 1800.0
"""Seconds that a question waits for its answer."""
_CLOSING = 5.0
"""Seconds in which turns must have become durable when the server ends."""
_NOBODY = "nobody is there to approve it; find another way or stop"


class LiveTurn:
    """One turn, with the turns that reports of its agents start."""

    def __init__(self, home: AgentHome, asked: TurnArguments, *, attended: bool) -> None:
        self.thread = ""
        self.turn = new_id("turn")
        self.asked = asked
        self.attended = attended
        self.report: TurnReport | None = None
        self.questions: dict[str, ApprovalRequested | QuestionsAsked] = {}
        """What waits for an answer."""
        self.activity = ""
        """What it does, on one line."""
        self.actions = 0
        """How often that has changed."""
        self._opened: Thread | None = None
        self._begun = False
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run(home))

    @property
    def id(self) -> str:
        """The name by which it is found again, also by another process."""
        return f"{self.thread}.{self.turn}"

    async def change(self) -> None:
        """Wait until something of it has changed."""
        await self._changed.wait()

    async def begin(self) -> None:
        """Wait until it is durable, or has ended."""
        while not self._begun and self.report is None:
            await self.change()

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer a question; do nothing when it waits no more."""
        if self.questions.pop(question, None) is not None and self._opened is not None:
            self._opened.answer(question, answer)
            self._tell()

    def interrupt(self) -> None:
        """Interrupt it; what it has done becomes durable."""
        self._task.cancel()

    async def wait(self) -> None:
        """Wait until it has ended and its thread is closed."""
        await asyncio.wait((self._task,))

    async def _run(self, home: AgentHome) -> None:
        try:
            async with home.open_thread(self.asked, attended=self.attended) as thread:
                self._opened, self.thread = thread, thread.id
                done = await self._take_turn(thread, self.asked.prompt)
                while done.status == "completed" and await thread.expects():
                    done = await self._take_turn(thread)
            report = self._end_report(done)
        except asyncio.CancelledError:
            report = self._report("interrupted", error="the turn was interrupted")
        except TreadleError as error:
            report = self._report("failed", error=str(error))
        self._opened = None
        self.questions.clear()
        self.report = report
        self._tell()

    async def _take_turn(self, thread: Thread, *said: str) -> TurnCompleted:
        done: TurnCompleted | None = None
        async with aclosing(thread.run(*said, turn_id=self.turn if said else None)) as events:
            async for event in events:
                if isinstance(event, TurnCompleted):
                    done = event
                else:
                    self._hear(event, event)
        assert done is not None, "a turn always ends with its end"
        return done

    def _hear(self, event: Event, news: Event) -> None:
        match news:
            case AgentReported(event=inner):
                self._hear(event, inner)
            case TurnStarted() if event is news:
                self._begun = True
                self._tell()
            case ApprovalRequested() | QuestionsAsked():
                self._ask(news)
            case ApprovalWithdrawn(id=question):
                self.questions.pop(question, None)
                self._tell()
            case ToolStarted(name=name, arguments=arguments):
                self._act(f"{name} {arguments}")
            case StepStarted(step=step) if event is news:
                self._act(f"step {step}: asking the model")
            case NoticeRaised(level="warning" | "error", text=text):
                self._act(text)

    def _ask(self, question: ApprovalRequested | QuestionsAsked) -> None:
        self.questions[question.id] = question
        if not self.attended:
            self.decline(question.id)
            return
        asyncio.get_running_loop().call_later(_PATIENCE, self.decline, question.id)
        self._act("waiting for an answer")

    def decline(self, question: str) -> None:
        """Answer a question as if nobody were there."""
        asked = self.questions.get(question)
        if asked is not None:
            self.answer(question, No(_NOBODY) if isinstance(asked, ApprovalRequested) else None)

    def _act(self, activity: str) -> None:
        self.activity = one_line(activity)
        self.actions += 1
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _end_report(self, done: TurnCompleted) -> TurnReport:
        text, error = done.text, done.error or ""
        return TurnReport(
            thread=self.thread, turn=self.turn, status=done.status, text=text, error=error
        )

    def _report(self, status: str, *, error: str) -> TurnReport:
        failed = status == "failed"
        return TurnReport(
            thread=self.thread,
            turn=self.turn,
            status="failed" if failed else "interrupted",
            error=error,
        )


class LiveTurns:
    """All turns that this process runs, and those that have ended lately."""

    def __init__(self, home: AgentHome) -> None:
        self._home = home
        self._turns: list[LiveTurn] = []

    def start(self, asked: TurnArguments, *, attended: bool) -> LiveTurn:
        """Start a turn. Raises `TreadleError` where too many run already."""
        if sum(turn.report is None for turn in self._turns) >= _MOST:
            raise TreadleError(f"{_MOST} turns are under way; wait until one has ended")
        ended = [turn for turn in self._turns if turn.report is not None]
        forgotten = set(map(id, ended[: max(len(ended) - _KEPT, 0)]))
        self._turns = [turn for turn in self._turns if id(turn) not in forgotten]
        turn = LiveTurn(self._home, asked, attended=attended)
        self._turns.append(turn)
        return turn

    def find(self, fits: Callable[[LiveTurn], bool]) -> LiveTurn | None:
        """Return the turn that fits; None where there is none here."""
        return next(filter(fits, self._turns), None)

    async def close(self) -> None:
        """Interrupt what runs, and wait a moment until it is durable."""
        running = [turn for turn in self._turns if turn.report is None]
        for turn in running:
            turn.interrupt()
        if running:
            await asyncio.wait(
                [asyncio.ensure_future(turn.wait()) for turn in running], timeout=_CLOSING
            )
