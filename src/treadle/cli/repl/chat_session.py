"""A chat session: one open thread, its turns, and the user who types.

Owns what a typed line means: an answer while a question is open, a command, a word to
the turn under way, or a new turn. Invariant: at most one turn runs, and it is over,
durably, before the thread is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from prompt_toolkit.formatted_text import StyleAndTextTuples

from ...core.errors import NothingToSend, TreadleError
from ...delivery.silence import SilenceFilter
from ...harness.events import (
    AgentReported,
    ApprovalRequested,
    ApprovalWithdrawn,
    Event,
    QuestionsAsked,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
)
from ...thread.thread import Thread
from ..activity import activity, patch_in, result_line, unwrap_agent
from ..meter import Meter
from ..thread_setup import Setup
from .blocks import Blocks
from .interview import Interview
from .live import Live
from .screen import Screen

__all__ = ["ChatSession"]


@dataclass(slots=True)
class ChatSession:
    """The turns and other work in one thread."""

    thread: Thread
    setup: Setup
    screen: Screen
    fail: Callable[[BaseException], None]
    """Called with an error that ends the conversation."""
    meter: Meter = field(init=False)
    live: Live = field(init=False, default_factory=Live)
    interview: Interview = field(init=False)
    _blocks: Blocks = field(init=False, default_factory=Blocks)
    _filter: SilenceFilter = field(init=False, default_factory=SilenceFilter)
    _work: asyncio.Task[None] | None = field(init=False, default=None)
    _turn_runs: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.meter = Meter(self.setup.settings.prices)
        self.interview = Interview(self.thread, self.screen)

    @property
    def busy(self) -> bool:
        """Return whether a turn or other work runs."""
        return self._work is not None and not self._work.done()

    async def say(self, text: str) -> None:
        """Handle an input of the user: start a turn, or add it to the running turn."""
        self.screen.show_input(text)
        if self.busy:
            with suppress(NothingToSend):
                await self.thread.steer(text)
                return
        self.start("waiting for the model", self._run_turns(text))

    def start(self, doing: str, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the background while the user can type."""
        before = self._work
        self.live.begin(doing)
        self._work = asyncio.create_task(self._run_work(before, work))

    def interrupt(self) -> bool:
        """Interrupt the running work; return whether there was any."""
        if not self.busy:
            return False
        self._break_off()
        return True

    async def settle(self) -> None:
        """Interrupt the running work, and wait until it has ended."""
        if self._work is not None and not self._work.done():
            self._break_off()
            await asyncio.wait({self._work})

    def _break_off(self) -> None:
        assert self._work is not None
        if self._turn_runs:
            self.thread.interrupt()
        else:
            self._work.cancel()

    def message(self) -> StyleAndTextTuples:
        """Return the prompt before the input line."""
        if self.interview.open:
            return [("bold", self.interview.prompt)]
        return [*self.live.lines(), ("bold", "> ")]

    async def _run_work(
        self, before: asyncio.Task[None] | None, work: Coroutine[Any, Any, None]
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            await work
        except TreadleError as error:
            self.screen.trouble(str(error))
        except asyncio.CancelledError:
            self.screen.quiet("interrupted")
        except Exception as error:  # noqa: BLE001 - the person's line must not wait for ever
            self.fail(error)
        finally:
            self._flush()
            self.live.end()

    async def _run_turns(self, text: str) -> None:
        self._turn_runs = True
        try:
            completed = await self._run_turn(text)
            while completed and await self.thread.expects():
                self.live.begin("waiting for agents")
                completed = await self._run_turn()
        finally:
            self._turn_runs = False

    async def _run_turn(self, *inputs: str) -> bool:
        """Run a turn on an input or on reports of agents; return whether it completed."""
        completed = False
        async for event in self.thread.run(*inputs):
            self.meter.add(event, self.thread.model)
            self._show(event)
            self.live.add(event)
            completed = isinstance(event, TurnCompleted) and event.status == "completed"
        return completed

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._show_text(self._filter.feed(text))
            case ToolStarted() | StepStarted():
                self._flush()
            case ToolFinished():
                self._show_result(event)
            case AgentReported():
                self._show_agent_event(event)
            case ApprovalRequested() | QuestionsAsked():
                self._show_question(event)
            case ApprovalWithdrawn(id=question):
                self.interview.withdraw(question)
            case TurnCompleted():
                self._show_end(event)
            case _:
                if line := activity(event):
                    self.screen.quiet(line)

    def _show_agent_event(self, event: AgentReported) -> None:
        names, news = unwrap_agent(event)
        match news:
            case ApprovalRequested() | QuestionsAsked():
                self.screen.quiet(f"{names} asks")
                self._show_question(news)
            case ApprovalWithdrawn(id=question):
                self.interview.withdraw(question)
            case _:
                if line := activity(event):
                    self.screen.quiet(line)

    def _show_result(self, event: ToolFinished) -> None:
        call = self.live.calls.get(event.call_id)
        what = call.what if call else event.name
        self.screen.say(f"• {what}")
        patch = patch_in(call.name, call.arguments) if call else None
        if patch and event.success:
            self.screen.diff(patch)
        self.screen.quiet(f"  {result_line(event)}")

    def _show_question(self, event: ApprovalRequested | QuestionsAsked) -> None:
        self._flush()
        if isinstance(event, ApprovalRequested) and event.call.argv[:1] == ("apply_patch",):
            for call in self.live.calls.values():
                if patch := patch_in(call.name, call.arguments):
                    self.screen.diff(patch)
        self.interview.put(event)

    def _show_end(self, event: TurnCompleted) -> None:
        self._flush()
        if event.error:
            self.screen.trouble(event.error)
        if event.status == "interrupted":
            self.screen.quiet("interrupted")
        figures = " · ".join(
            filter(None, [self.meter.context, self.meter.cache_share, self.meter.cost])
        )
        if figures:
            self.screen.quiet(figures)

    def _show_text(self, text: str) -> None:
        for block in self._blocks.feed(text):
            self.screen.markdown(block)
        self.live.tail = self._blocks.tail

    def _flush(self) -> None:
        """Print the rest of a complete message of the model, unless it is silent."""
        self._show_text(self._filter.end())
        if rest := self._blocks.rest():
            self.screen.markdown(rest)
        self.live.tail = ""
