"""Reports: what `treadle exec` prints while a turn runs.

Invariant: standard output holds the answer, or events as JSON, and nothing else; what
the agent does on the way goes to standard error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import click
from msgspec import Struct

from ..harness.events import Event, StepStarted, TextDelta, ToolStarted, TurnCompleted
from .output import printable, say_json

if TYPE_CHECKING:
    from ..delivery.hold import Hold

__all__ = ["Failed", "JsonReport", "PlainReport", "Report", "ThreadStarted"]


class ThreadStarted(Struct, frozen=True, tag="thread.started"):
    """The first line: which thread this is."""

    thread_id: str


class Failed(Struct, frozen=True, tag="error"):
    """The last line when a turn could not even end."""

    message: str


class Report(Protocol):
    """Prints what happens."""

    def started(self, thread: str, about: str) -> None:
        """A thread was opened; `about` says in which circumstances."""
        ...

    def hear(self, event: Event) -> None:
        """Something happened."""
        ...

    def went_on(self, event: TurnCompleted) -> None:
        """A turn is over and another follows, about what agents have found out."""
        ...

    def failed(self, message: str) -> None:
        """The turn ended with an exception."""
        ...


class JsonReport:
    """One event on one line."""

    def started(self, thread: str, about: str) -> None:
        """Say which thread this is."""
        del about
        say_json(ThreadStarted(thread))

    def hear(self, event: Event) -> None:
        """Print the event."""
        say_json(event)

    def went_on(self, event: TurnCompleted) -> None:
        """Print the event."""
        say_json(event)

    def failed(self, message: str) -> None:
        """Print what went wrong; the exit code and standard error say it too."""
        say_json(Failed(message))


class PlainReport(Struct):
    """The answer for people and pipes.

    A terminal (`live`) sees the model write. Others get the last message only, whole. An
    answer that says that there is nothing to say is not shown.
    """

    live: bool
    answers: bool = True
    """False where a channel shows the answer."""
    _said: str = ""
    """What was shown since the last line break; where nothing is live, what was written."""
    _hold: Hold | None = None
    """Keeps back what may turn out to say nothing, once the model writes."""

    def __post_init__(self) -> None:
        self.live = self.live and self.answers

    def started(self, thread: str, about: str) -> None:
        """Say in which circumstances the turn runs."""
        _note(f"{thread} · {about}")

    def hear(self, event: Event) -> None:
        """Print what people want to know about the event."""
        match event:
            case TextDelta(text=text):
                self._wrote(text)
            case TurnCompleted():
                self._over(event)
            case _:
                self._did(event)

    def went_on(self, event: TurnCompleted) -> None:
        """Tell what was said so far; it is not the answer yet."""
        self._ended()
        self._break_line()
        if not self.live:
            _note(_heard(event.text).strip())
        self._said = ""

    def failed(self, message: str) -> None:
        """Leave the line that was begun; the message follows from elsewhere."""
        del message
        self._ended()
        self._break_line()

    def _wrote(self, text: str) -> None:
        shown = self._held().feed(text) if self.live else text
        self._said += shown
        if self.live:
            click.echo(printable(shown), nl=False)

    def _held(self) -> Hold:
        from ..delivery.hold import Hold

        self._hold = self._hold or Hold()
        return self._hold

    def _ended(self) -> None:
        """A message of the model's is over: show the rest, if there is one to be shown."""
        if self._hold and (rest := self._hold.end()):
            self._said += rest
            click.echo(printable(rest), nl=False)

    def _did(self, event: Event) -> None:
        from .activity import activity

        if isinstance(event, ToolStarted | StepStarted):
            self._ended()
        if isinstance(event, ToolStarted) and not self.live:
            _note(_heard(self._said).strip())
            self._said = ""
        if line := activity(event):
            self._break_line()
            _note(line)

    def _over(self, event: TurnCompleted) -> None:
        self._ended()
        self._break_line()
        told = _heard(event.text) if self.answers and not self.live else ""
        if event.status == "completed" and told:
            click.echo(printable(told))
        if event.error:
            _note(f"treadle: {event.error}")
        if event.status == "interrupted":
            _note("treadle: interrupted; the thread can be resumed")

    def _break_line(self) -> None:
        if self.live and self._said:
            click.echo("" if self._said.endswith("\n") else "\n", nl=False)
            self._said = ""


def _heard(text: str) -> str:
    """What of a text is for people to hear."""
    from ..delivery.silent import is_artifact, is_silent_text

    return "" if is_silent_text(text) or is_artifact(text) else text.rstrip("\n")


def _note(text: str) -> None:
    if text:
        click.echo(printable(text), err=True)
