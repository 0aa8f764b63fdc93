"""A single turn: its events go to a report, its questions to the user.

Invariant: a question is always answered; without a person, by a refusal that says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import click
from msgspec import UNSET, UnsetType

from ..config import Settings
from ..core.wire import Json
from ..harness.events import AgentReported, ApprovalRequested, Event, QuestionsAsked, TurnCompleted
from ..prompt.input import UserPart
from ..sandbox.approvals import Decision, No, NoAndStop
from ..thread.thread import Thread
from .activity import unwrap_agent
from .exec_report import ExecReport
from .interrupts import Interrupter
from .meter import Meter
from .output import one_line, working
from .terminal_input import read_line

__all__ = ["SingleTurn"]

T = TypeVar("T")
_UPKEEP_SECONDS = 60.0
_NOBODY = "nobody is there to approve it; find another way or stop"


class SingleTurn:
    """Runs one turn of a thread on the command line."""

    def __init__(
        self, thread: Thread, report: ExecReport, settings: Settings, *, attended: bool
    ) -> None:
        self.thread = thread
        self.report = report
        self.attended = attended
        self.meter = Meter(settings.prices)
        self._interrupter = Interrupter(thread)

    async def run(self, *said: UserPart, schema: Json | UnsetType = UNSET) -> TurnCompleted:
        """Run the turn, and the turns that reports of agents start; return how the last ended."""
        self._interrupter.install()
        done = await self._run_one(*said, schema=schema)
        while done.status == "completed" and await self.thread.expects():
            self.report.show_continuation(done)
            done = await self._run_one(schema=schema)
        self.report.show(done)
        return done

    async def wait_for_engine(self) -> None:
        """Give the engine time for its work between turns before the process ends."""
        with working("tidying up"):
            await self._wait_for_person(self.thread.wait_for_engine(_UPKEEP_SECONDS))

    async def _run_one(self, *said: UserPart, schema: Json | UnsetType) -> TurnCompleted:
        done: TurnCompleted | None = None
        async for event in self.thread.run(*said, schema=schema):
            self.meter.add(event)
            if isinstance(event, TurnCompleted):
                done = event
            else:
                self.report.show(event)
            if self._interrupter.requested.is_set():
                # It may have come before there was a turn to interrupt.
                self.thread.interrupt()
            await self._answer_question(event)
        assert done is not None, "a turn always ends with its end"
        return done

    async def _answer_question(self, event: Event) -> None:
        match event:
            case AgentReported():
                names, news = unwrap_agent(event)
                if self.attended and isinstance(news, ApprovalRequested | QuestionsAsked):
                    click.echo(f"{names} asks", err=True)
                await self._answer_question(news)
            case ApprovalRequested(id=question, call=call) if not self.attended:
                line = one_line(" ".join(call.argv))
                click.echo(f"! refused, because there is no terminal to ask on: {line}", err=True)
                self.thread.answer(question, No(_NOBODY))
            case ApprovalRequested(id=question, call=call):
                from .user_questions import ask_approval

                decision: Decision | None = await self._wait_for_person(
                    ask_approval(call, read_line)
                )
                if not self._interrupter.requested.is_set():
                    self.thread.answer(question, decision or NoAndStop())
            case QuestionsAsked(id=question, questions=questions):
                answers = None
                if self.attended:
                    from .user_questions import ask_questions

                    answers = await self._wait_for_person(ask_questions(questions, read_line))
                if not self._interrupter.requested.is_set():
                    self.thread.answer(question, answers)

    async def _wait_for_person(self, question: Awaitable[T]) -> T | None:
        """Wait for the answer of the user; return None when the turn is interrupted."""
        answer = asyncio.ensure_future(question)
        broken = asyncio.ensure_future(self._interrupter.requested.wait())
        await asyncio.wait({answer, broken}, return_when=asyncio.FIRST_COMPLETED)
        broken.cancel()
        if not answer.done():
            answer.cancel()
            await asyncio.wait({answer})
        if answer.cancelled():
            return None
        if isinstance(answer.exception(), KeyboardInterrupt | EOFError):
            self._interrupter.interrupt()
            return None
        return answer.result()
