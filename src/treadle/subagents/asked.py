"""What agents ask: approvals and questions, until somebody answers.

Invariant: an answer goes to the agent that asked, in whichever generation; what nobody
waits for any more is not open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from ..harness.events import (
    AgentReported,
    ApprovalRequested,
    ApprovalWithdrawn,
    Event,
    QuestionsAsked,
)

if TYPE_CHECKING:
    from ..sandbox.approvals import Decision
    from ..tools.contract import Answers
    from .work import Work

__all__ = ["Asked"]


class Asked(Struct):
    """The open questions of the agents of one thread."""

    _open: dict[str, tuple[Work, AgentReported]] = field(default_factory=dict)

    @property
    def reports(self) -> tuple[AgentReported, ...]:
        """How each was asked, oldest first."""
        return tuple(report for _, report in self._open.values())

    def hear(self, work: Work, report: AgentReported) -> None:
        """Follow what the agent at `work` reports."""
        match _innermost(report):
            case ApprovalRequested(id=question) | QuestionsAsked(id=question):
                self._open[question] = work, report
            case ApprovalWithdrawn(id=question):
                self._open.pop(question, None)

    def answer(self, question: str, answer: Decision | Answers) -> bool:
        """Pass an answer on; False when no agent asked that."""
        work, _ = self._open.get(question, (None, None))
        if work is None or work.child is None:
            return False
        work.child.answer(question, answer)
        del self._open[question]
        return True

    def drop(self, work: Work) -> None:
        """The agent at `work` is done."""
        self._open = {name: asked for name, asked in self._open.items() if asked[0] is not work}


def _innermost(report: AgentReported) -> Event:
    """What happened, in whichever generation."""
    event: Event = report
    while isinstance(event, AgentReported):
        event = event.event
    return event
