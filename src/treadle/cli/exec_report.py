"""What `treadle exec` prints while a turn runs.

Invariant: standard output holds the answer, or events as JSON, and nothing else; what
the agent does on the way goes to standard error.
"""

from __future__ import annotations

from typing import Protocol

import click
from msgspec import Struct

from ..delivery.silence import SilenceFilter, is_artifact, is_silent_text
from ..harness.events import (
    AgentReported,
    ApprovalRequested,
    Event,
    QuestionsAsked,
    ReasoningDelta,
    StepStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
)
from .activity import activity, call_line, missing_answer, unwrap_agent
from .output import printable, say_json
from .spinner import Spinner

__all__ = ["ExecFailed", "ExecReport", "ExecStarted", "JsonReport", "PlainReport"]


class ExecStarted(Struct, frozen=True, tag="thread.started"):
    """The first line: which thread this is."""

    thread_id: str


class ExecFailed(Struct, frozen=True, tag="error"):
    """The last line when a turn could not even end."""

    message: str


class ExecReport(Protocol):
    """Prints the events of a turn."""

    def show_start(self, thread: str, about: str) -> None:
        """Print which thread was opened; `about` names its model and sandbox."""
        ...

    def show(self, event: Event) -> None:
        """Print an event."""
        ...

    def show_continuation(self, event: TurnCompleted) -> None:
        """Print the end of a turn that another turn follows, because agents reported."""
        ...

    def show_failure(self, message: str) -> None:
        """Print that the turn ended with an exception."""
        ...


class JsonReport:
    """One event on one line."""

    def show_start(self, thread: str, about: str) -> None:
        """Print which thread this is."""
        del about
        say_json(ExecStarted(thread))

    def show(self, event: Event) -> None:
        """Print the event."""
        say_json(event)

    def show_continuation(self, event: TurnCompleted) -> None:
        """Print the event."""
        say_json(event)

    def show_failure(self, message: str) -> None:
        """Print the error; the exit code and standard error show it too."""
        say_json(ExecFailed(message))


class PlainReport(Struct):
    """The answer for people and pipes.

    A terminal (`live`) sees the model write. Others get the last message only, whole. An
    answer that says that there is nothing to say is not shown.
    """

    live: bool
    answers: bool = True
    """False where a channel shows the answer."""
    spinner: Spinner | None = None
    """Where somebody watches: what the turn does, and for how long."""
    _doing: str = "waiting for the model"
    _text: str = ""
    """The text that was shown since the last line break; without live output, all text."""
    _filter: SilenceFilter | None = None
    """Holds back text that may turn out to be a silent reply."""

    def __post_init__(self) -> None:
        self.live = self.live and self.answers

    def show_start(self, thread: str, about: str) -> None:
        """Print the thread, the model and the sandbox of the turn."""
        _note(f"{thread} · {about}")

    def show(self, event: Event) -> None:
        """Print the event for people; between two events, what the turn does."""
        if self.spinner is not None:
            self.spinner.wipe()
        self._show(event)
        if self.spinner is not None and (doing := self._work(event)):
            self.spinner.show(doing)

    def _work(self, event: Event) -> str:
        """Return what is done until the next event; nothing while a line is being written."""
        if self.live and self._text and not self._text.endswith("\n"):
            return ""
        if isinstance(event, AgentReported):
            event = unwrap_agent(event)[1]
            asks = isinstance(event, ApprovalRequested | QuestionsAsked)
            return "" if asks else self._doing
        match event:
            case TurnCompleted() | ApprovalRequested() | QuestionsAsked():
                return ""
            case ToolStarted(name=name, arguments=arguments):
                self._doing = call_line(name, arguments)
            case ToolFinished() | StepStarted():
                self._doing = "waiting for the model"
            case ReasoningDelta():
                self._doing = "thinking"
            case TextDelta():
                self._doing = "writing"
        return self._doing

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._show_text(text)
            case TurnCompleted():
                self._show_end(event)
            case _:
                self._show_activity(event)

    def show_continuation(self, event: TurnCompleted) -> None:
        """Print the text so far; it is not the answer yet."""
        if self.spinner is not None:
            self.spinner.wipe()
        self._flush_filter()
        self._break_line()
        if not self.live:
            _note(_visible_text(event.text).strip())
        self._text = ""

    def show_failure(self, message: str) -> None:
        """End the current line; another output prints the message."""
        del message
        if self.spinner is not None:
            self.spinner.wipe()
        self._flush_filter()
        self._break_line()

    def _show_text(self, text: str) -> None:
        shown = self._open_filter().feed(text) if self.live else text
        self._text += shown
        if self.live:
            click.echo(printable(shown), nl=False)

    def _open_filter(self) -> SilenceFilter:
        self._filter = self._filter or SilenceFilter()
        return self._filter

    def _flush_filter(self) -> None:
        """Print the rest of a message of the model that is complete."""
        if self._filter and (rest := self._filter.end()):
            self._text += rest
            click.echo(printable(rest), nl=False)

    def _show_activity(self, event: Event) -> None:
        if isinstance(event, ToolStarted | StepStarted):
            self._flush_filter()
        if isinstance(event, ToolStarted) and not self.live:
            _note(_visible_text(self._text).strip())
            self._text = ""
        if line := activity(event):
            self._break_line()
            _note(line)

    def _show_end(self, event: TurnCompleted) -> None:
        self._flush_filter()
        self._break_line()
        answer = _visible_text(event.text) if self.answers and not self.live else ""
        if event.status == "completed" and answer:
            click.echo(printable(answer))
        if event.error:
            _note(f"treadle: {event.error}")
        elif self.answers:
            _note(missing_answer(event))
        if event.limit is not None:
            _note(f"treadle: {event.limit.text}; the thread can be resumed")
        elif event.status == "interrupted":
            _note("treadle: interrupted; the thread can be resumed")

    def _break_line(self) -> None:
        if self.live and self._text:
            click.echo("" if self._text.endswith("\n") else "\n", nl=False)
            self._text = ""


def _visible_text(text: str) -> str:
    """Return the text that the user sees; empty for a silent reply."""
    return "" if is_silent_text(text) or is_artifact(text) else text.rstrip("\n")


def _note(text: str) -> None:
    if text:
        click.echo(printable(text), err=True)
