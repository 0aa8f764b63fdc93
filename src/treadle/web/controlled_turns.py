"""Turns that the inspector runs, for whoever looks at their threads.

Owns their start, their questions and their end. Invariants: a thread is held only while a turn
of it runs here, so that others may go on with it; what a turn says is passed on as it comes;
and when the server ends, turns are interrupted and what they did is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import Any, Protocol

from ..core.errors import NotFound, ThreadBusy, TreadleError
from ..core.redact import one_line
from ..harness.events import (
    AgentReported,
    ApprovalRequested,
    ApprovalWithdrawn,
    Event,
    QuestionsAsked,
    TurnCompleted,
    TurnStarted,
)
from ..hosts.turn_figures import TurnFigures
from ..sandbox.approvals import Decision
from ..store.contract import Store
from ..thread.thread import Thread
from ..tools.contract import Answers
from .api_answers import TooMany
from .turn_progress import event_json

__all__ = ["ControlledHome", "ControlledTurn", "ControlledTurns"]

_MOST = 8
"""How many turns run at a time."""
_CLOSING = 5.0
"""Seconds in which turns must have become durable when the server ends."""


class ControlledHome(Protocol):
    """Where threads are opened for writing. Every refusal is a `TreadleError`."""

    def open_thread(
        self, thread: str | None, *, cwd: Path | None = None, model: str | None = None
    ) -> AbstractAsyncContextManager[Thread]:
        """Open a thread as a command in its directory would; without a name a new one.

        Raises `ThreadBusy` where somebody else writes it.
        """
        ...

    def open_store(self) -> AbstractAsyncContextManager[Store]:
        """Open the store to write to it beside those who hold threads."""
        ...


class ControlledTurn:
    """One turn, with the turns that reports of its agents start."""

    def __init__(
        self,
        opened: AbstractAsyncContextManager[Thread],
        text: str,
        publish: Callable[[str, Event], None],
    ) -> None:
        self.thread = ""
        self.questions: dict[str, tuple[str, ApprovalRequested | QuestionsAsked]] = {}
        """What waits for an answer, each with the agent that asks; none is the thread itself."""
        self._publish = publish
        self._opened: Thread | None = None
        self._active = True
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(opened, text))

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return not self._task.done()

    @property
    def active(self) -> bool:
        """Whether a turn is under way; else its thread is being closed."""
        return self._active

    async def wait(self) -> None:
        """Wait until it has ended and its thread is closed."""
        await asyncio.wait({self._task})

    @property
    def plan(self) -> dict[str, Any] | None:
        """What was decided for it."""
        plan = self._opened.plan if self._opened is not None else None
        return plan.to_builtins() if plan is not None else None

    async def begin(self) -> None:
        """Wait until it is durable. Raises a `TreadleError` where it cannot begin."""
        await asyncio.shield(self._begun)

    async def steer(self, text: str) -> None:
        """Say something that the model reads before its next step."""
        await self._thread().steer(text)

    def interrupt(self) -> None:
        """Interrupt it; what it has done becomes durable."""
        if self._opened is not None:
            self._opened.interrupt()
        else:
            self._task.cancel()

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer what it asked. Raises `NotFound` where nobody waits for it."""
        if question not in self.questions:
            raise NotFound("open question", question, "it was already answered or withdrawn")
        self._thread().answer(question, answer)
        del self.questions[question]

    async def close(self) -> None:
        """Interrupt it, and wait until its thread is closed."""
        self._task.cancel()
        await self.wait()

    def _thread(self) -> Thread:
        if self._opened is None:
            raise NotFound("running turn", self.thread, "it has just ended")
        return self._opened

    async def _run(self, opened: AbstractAsyncContextManager[Thread], text: str) -> None:
        try:
            async with opened as thread:
                self._opened, self.thread = thread, thread.id
                done = await self._take_turn(thread, text)
                while done.status == "completed" and await thread.expects():
                    done = await self._take_turn(thread)
                self._active = False
        except TreadleError as error:
            self._fail(error)
        finally:
            self._opened, self._active = None, False
            self.questions.clear()
            if not self._begun.done():
                self._begun.set_exception(TreadleError("the turn was interrupted at its start"))

    def _fail(self, error: TreadleError) -> None:
        """Tell why it did not begin; of one that has begun, why it ended."""
        if not self._begun.done():
            self._begun.set_exception(error)
            return
        done = TurnCompleted(turn="", status="failed", error=one_line(str(error)))
        self._publish(self.thread, done)

    async def _take_turn(self, thread: Thread, *said: str) -> TurnCompleted:
        done: TurnCompleted | None = None
        self._active = True
        async with aclosing(thread.run(*said)) as events:
            async for event in events:
                self._hear(event, event, "")
                self._publish(thread.id, event)
                if isinstance(event, TurnCompleted):
                    done = event
        assert done is not None, "a turn always ends with its end"
        return done

    def _hear(self, event: Event, news: Event, agent: str) -> None:
        match news:
            case AgentReported(nickname=nickname, event=inner):
                self._hear(event, inner, nickname)
            case TurnStarted() if event is news and not self._begun.done():
                self._begun.set_result(None)
            case ApprovalRequested() | QuestionsAsked():
                self.questions[news.id] = agent, news
            case ApprovalWithdrawn(id=question):
                self.questions.pop(question, None)
            case TurnCompleted() if event is news:
                self.questions.clear()
                if not self._begun.done():
                    self._begun.set_result(None)


class ControlledTurns:
    """All turns that this server runs."""

    def __init__(
        self, home: ControlledHome, publish: Callable[[str, dict[str, Any]], None]
    ) -> None:
        self.home = home
        self.figures = TurnFigures()
        """What was counted of the turns that run here."""
        self._publish = publish
        self._turns: list[ControlledTurn] = []

    def find(self, thread: str) -> ControlledTurn | None:
        """Return the turn of a thread that runs here."""
        return next((turn for turn in self._turns if turn.thread == thread and turn.runs), None)

    async def start(
        self, thread: str | None, text: str, *, cwd: Path | None = None, model: str | None = None
    ) -> ControlledTurn:
        """Start a turn, of a new thread where none is named; return it when it is durable.

        Raises `ThreadBusy` where somebody else writes the thread.
        """
        self._turns = [turn for turn in self._turns if turn.runs]
        if len(self._turns) >= _MOST:
            raise TooMany(f"{_MOST} turns are under way; wait until one has ended")
        if thread is not None and self.find(thread) is not None:
            raise ThreadBusy(thread, "this server")
        turn = ControlledTurn(self.home.open_thread(thread, cwd=cwd, model=model), text, self._hear)
        self._turns.append(turn)
        await turn.begin()
        return turn

    async def close(self) -> None:
        """Interrupt what runs, and wait a moment until it is durable."""
        running = [asyncio.ensure_future(turn.close()) for turn in self._turns if turn.runs]
        if running:
            await asyncio.wait(running, timeout=_CLOSING)

    def _hear(self, thread: str, event: Event) -> None:
        self.figures.add(event)
        self._publish(thread, event_json(event))
