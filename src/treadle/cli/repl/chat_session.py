"""A chat session: one open thread, its turns, and the user who types.

Owns what a typed line means: an answer while a question is open, a command, a word to
the turn under way, or a new turn. Invariant: at most one turn runs, and it is over,
durably, before the thread is left.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples

from ...core.errors import NothingToSend, TreadleError
from ...core.files import open_regular
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
from ...prompt.input import UserPart
from ...thread.thread import Thread
from ...tools.call_text import patch_in
from ..activity import (
    activity,
    call_line,
    missing_answer,
    output_tail,
    result_line,
    unwrap_agent,
)
from ..meter import Meter
from ..model_hints import unknown_model_hint
from ..output import one_line, printable
from ..thread_heading import shown_model
from ..thread_setup import Setup
from .blocks import Blocks
from .choose import Choice
from .fitting import fit
from .interview import Interview
from .live import Live
from .mentions import Said
from .notifier import Notifier
from .numbered_diff import number_patch
from .queued import QueuedMessages
from .screen import Screen

__all__ = ["ChatSession", "Front"]

_LARGEST_NUMBERED = 4 << 20
"""The largest file in which the lines of a patch are looked for."""


class Front(Protocol):
    """The terminal in front of a session."""

    def fail(self, error: BaseException) -> None:
        """End the conversation with an error."""
        ...

    def restore(self, line: str) -> None:
        """Put text back into the input line."""
        ...

    async def choose(self, title: str, choices: Sequence[Choice], start: int = 0) -> int | None:
        """Let the user choose a row; return its position, or None."""
        ...


@dataclass(slots=True)
class ChatSession:
    """The turns and other work in one thread."""

    thread: Thread
    setup: Setup
    screen: Screen
    front: Front
    meter: Meter = field(init=False)
    live: Live = field(init=False, default_factory=Live)
    interview: Interview = field(init=False)
    queued: QueuedMessages = field(init=False)
    last_answer: str = field(init=False, default="")
    has_completed: bool = field(init=False, default=False)
    """Whether the model has answered since the thread was opened."""
    _notifier: Notifier = field(init=False)
    _blocks: Blocks = field(init=False, default_factory=Blocks)
    _filter: SilenceFilter = field(init=False, default_factory=SilenceFilter)
    _work: asyncio.Task[None] | None = field(init=False, default=None)
    _turn_runs: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.meter = Meter(self.setup.settings.prices)
        self.interview = Interview(self.thread, self.screen)
        self.queued = QueuedMessages(self.thread.log)
        self._notifier = Notifier(self.setup.settings, os.environ, self.screen.send_raw)

    @property
    def busy(self) -> bool:
        """Return whether a turn or other work runs."""
        return self._work is not None and not self._work.done()

    @property
    def asks(self) -> bool:
        """Return whether the next line is an answer to a question."""
        return self.interview.open

    @property
    def has_queued(self) -> bool:
        """Return whether messages wait that the model has not read."""
        return bool(self.queued)

    async def take_queued(self) -> str:
        """Take the newest message back that the model has not read."""
        return await self.queued.take_back()

    def report(self, text: str) -> None:
        """Tell the user why a key did nothing."""
        self.screen.trouble(text)

    async def say(self, said: Said, *, is_shown: bool = False) -> None:
        """Handle an input of the user: start a turn, or add it to the running turn.

        What stands on the screen already (`is_shown`) is not printed once more.
        """
        if problem := await asyncio.to_thread(self._unreadable, said):
            self.screen.trouble(problem)
            self.front.restore(said.shown)
            return
        if self._turn_runs:
            with suppress(NothingToSend):
                self.queued.add(await self.thread.steer(*said.parts), said.shown)
                if self.screen.plain:
                    self.screen.say(f"queued: {said.shown}")
                return
        if not is_shown:
            self.screen.show_input(said.shown)
        self.start("waiting for the model", self._run_turns(said))

    def _show_inputs(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.screen.show_input(line)

    def _unreadable(self, said: Said) -> str:
        """Return why a file of a message cannot be read for the model; empty if all can."""
        for path in said.files:
            try:
                self.thread.log.setup.open_file(path).close()
            except OSError as error:
                return f"{str(path)!r} cannot be read: {error.strerror}; name another file"
        return ""

    def run_command(self, line: str) -> None:
        """Run a command of the user's own, after the running work."""
        self.screen.show_input(f"!{line}")
        self.start(f"running {one_line(line, 60)}", self._run_command(line))

    async def _run_command(self, line: str) -> None:
        try:
            done = await self.thread.run_command(line)
        except OSError as error:
            self.screen.trouble(f"the command was not run: {error}")
            return
        if output := done.output.rstrip():
            self.screen.say(output)
        self.screen.quiet(f"exit code {done.exit_code}; the model reads of it with the next turn")

    def await_agents(self) -> None:
        """Wait for agents that the user has started, and let the model read what they say."""
        self.start("waiting for agents", self._run_turns())

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
            self.live.hold()
            return [("bold", self.interview.prompt)]
        self.live.release()
        if self.screen.plain:
            return [("", "> ")]
        columns = get_app().output.get_size().columns - 1
        return [*self.live.lines(), *self.queued.lines(columns), ("bold", "> ")]

    def toolbar(self) -> StyleAndTextTuples:
        """Return the line below the input."""
        meter, settings = self.meter, self.setup.settings
        figures = (meter.context, meter.cache_share, meter.cost, settings.sandbox)
        shown = " · ".join(printable(part) for part in (shown_model(self.thread), *figures) if part)
        return [("", fit(shown, get_app().output.get_size().columns - 1))]

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
            self.front.fail(error)
        finally:
            self._flush()
            self.live.end()

    async def _run_turns(self, said: Said | None = None) -> None:
        self._turn_runs = True
        try:
            completed = said is None or await self._run_turn(*said.parts)
            while completed and await self.thread.expects():
                self.live.begin("waiting for agents")
                completed = await self._run_turn()
        finally:
            self._turn_runs = False
            self._show_inputs(await self.queued.take_read())
            # What the model did not read must not land behind the next message.
            if line := await self.queued.take_all_back():
                self.front.restore(line)

    async def _run_turn(self, *inputs: UserPart) -> bool:
        """Run a turn on an input or on reports of agents; return whether it completed."""
        completed = False
        async for event in self.thread.run(*inputs):
            self.meter.add(event)
            self._show(event)
            self.live.add(event)
            if isinstance(event, StepStarted):
                self._show_inputs(await self.queued.take_read())
            completed = isinstance(event, TurnCompleted) and event.status == "completed"
        return completed

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._show_text(self._filter.feed(text))
            case ToolStarted() | StepStarted():
                self._flush()
                if self.screen.plain and isinstance(event, ToolStarted):
                    self.screen.say(f"running: {call_line(event.name, event.arguments)}")
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
            self.screen.diff(number_patch(patch, self._read_lines, applied=True))
        elif tail := output_tail(event):
            self.screen.quiet(tail)
        self.screen.quiet(f"  {result_line(event)}")

    def _read_lines(self, path: str) -> list[str]:
        """Return the lines of a file of the workspace; none where it cannot be read."""
        try:
            with open_regular(Path(self.thread.log.setup.cwd, path)) as file:
                return file.read(_LARGEST_NUMBERED).decode(errors="replace").split("\n")
        except (OSError, ValueError):
            return []

    def _show_question(self, event: ApprovalRequested | QuestionsAsked) -> None:
        self._flush()
        if isinstance(event, ApprovalRequested) and event.call.argv[:1] == ("apply_patch",):
            for call in self.live.calls.values():
                if patch := patch_in(call.name, call.arguments):
                    self.screen.diff(number_patch(patch, self._read_lines, applied=False))
        self._notifier.notify("a question waits for you", self.live.seconds)
        self.interview.put(event)

    def _show_end(self, event: TurnCompleted) -> None:
        self._flush()
        self.last_answer = event.text or self.last_answer
        self.has_completed |= event.status == "completed"
        self._notifier.notify(f"the turn is {event.status}", self.live.seconds)
        if event.error:
            self.screen.trouble(event.error)
        elif silence := missing_answer(event):
            self.screen.quiet(silence)
        if hint := unknown_model_hint(self.thread, event):
            self.screen.quiet(hint)
        if event.limit is not None:
            self.screen.quiet(f"{event.limit.text}; your next message goes on from here")
        elif event.status == "interrupted":
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
