"""A single turn: its events go to a report, its questions to whoever is there.

Invariant: a question is always answered; without a person, by a refusal that says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import click
from msgspec import UNSET, UnsetType

from ..config import Settings
from ..core.service import Service, later
from ..core.wire import Json
from ..harness.events import AgentReported, ApprovalRequested, Event, QuestionsAsked, TurnCompleted
from ..prompt.input import UserPart
from ..sandbox.approvals import Decision, No, NoAndStop
from ..thread.thread import Thread
from .exec_report import Report
from .interrupts import Breaker
from .meter import Meter
from .output import one_line, working
from .terminal_input import read_line

__all__ = ["Single"]

T = TypeVar("T")
_UPKEEP_SECONDS = 60.0
_NOBODY = "nobody is there to approve it; find another way or stop"


class Single(Service):
    """Runs one turn of a thread on the command line."""

    thread: Thread
    report: Report
    settings: Settings
    attended: bool
    meter: Meter = later()
    _breaker: Breaker = later()

    def __post_init__(self) -> None:
        self.meter = Meter(self.settings.prices)
        self._breaker = Breaker(self.thread)

    async def turn(self, *said: UserPart, schema: Json | UnsetType = UNSET) -> TurnCompleted:
        """Run the turn, and those that follow from what agents found out; how it ended."""
        self._breaker.install()
        done = await self._one(*said, schema=schema)
        while done.status == "completed" and await self.thread.expects():
            self.report.went_on(done)
            done = await self._one(schema=schema)
        self.report.hear(done)
        return done

    async def tidied(self) -> None:
        """Give the engine the time that it never finds where each turn has its own process."""
        with working("tidying up"):
            await self._heard(self.thread.wait_for_engine(_UPKEEP_SECONDS))

    async def _one(self, *said: UserPart, schema: Json | UnsetType) -> TurnCompleted:
        done: TurnCompleted | None = None
        async for event in self.thread.run(*said, schema=schema):
            self.meter.hear(event, self.thread.model)
            if isinstance(event, TurnCompleted):
                done = event
            else:
                self.report.hear(event)
            if self._breaker.asked.is_set():
                # It may have come before there was a turn to interrupt.
                self.thread.interrupt()
            await self._asked(event)
        assert done is not None, "a turn always ends with its end"
        return done

    async def _asked(self, event: Event) -> None:
        from .activity import unwrapped

        match event:
            case AgentReported():
                names, news = unwrapped(event)
                if self.attended and isinstance(news, ApprovalRequested | QuestionsAsked):
                    click.echo(f"{names} asks", err=True)
                await self._asked(news)
            case ApprovalRequested(id=question, call=call) if not self.attended:
                line = one_line(" ".join(call.argv))
                click.echo(f"! refused, for nobody can be asked: {line}", err=True)
                self.thread.answer(question, No(_NOBODY))
            case ApprovalRequested(id=question, call=call):
                from .user_questions import ask_approval

                decision: Decision | None = await self._heard(ask_approval(call, read_line))
                if not self._breaker.asked.is_set():
                    self.thread.answer(question, decision or NoAndStop())
            case QuestionsAsked(id=question, questions=questions):
                answers = None
                if self.attended:
                    from .user_questions import ask_questions

                    answers = await self._heard(ask_questions(questions, read_line))
                if not self._breaker.asked.is_set():
                    self.thread.answer(question, answers)

    async def _heard(self, asking: Awaitable[T]) -> T | None:
        """What the person says; None once the turn is being broken off, by a key or a signal."""
        answer = asyncio.ensure_future(asking)
        broken = asyncio.ensure_future(self._breaker.asked.wait())
        await asyncio.wait({answer, broken}, return_when=asyncio.FIRST_COMPLETED)
        broken.cancel()
        if not answer.done():
            answer.cancel()
            await asyncio.wait({answer})
        if answer.cancelled():
            return None
        if isinstance(answer.exception(), KeyboardInterrupt | EOFError):
            self._breaker.again()
            return None
        return answer.result()
