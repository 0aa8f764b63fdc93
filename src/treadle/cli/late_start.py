"""A report that names the thread when its turn has begun.

Invariant: a thread that is never made, because its turn could not begin, is never named.
"""

from __future__ import annotations

from ..harness.events import Event, TurnCompleted
from .exec_report import ExecReport

__all__ = ["LateStart"]


class LateStart:
    """Passes everything on to another report; its start comes before the first event."""

    def __init__(self, report: ExecReport, thread: str, about: str) -> None:
        self._report = report
        self._start: tuple[str, str] | None = (thread, about)

    def show_start(self, thread: str, about: str) -> None:
        """Print which thread this is."""
        self._start = None
        self._report.show_start(thread, about)

    def show(self, event: Event) -> None:
        """Print an event."""
        self._begin()
        self._report.show(event)

    def show_continuation(self, event: TurnCompleted) -> None:
        """Print the end of a turn that another turn follows."""
        self._begin()
        self._report.show_continuation(event)

    def show_failure(self, message: str) -> None:
        """Print that the turn ended with an exception."""
        self._report.show_failure(message)

    def _begin(self) -> None:
        if self._start is not None:
            self.show_start(*self._start)
