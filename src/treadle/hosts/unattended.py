"""Turns without a person: who asks is answered at once.

Invariant: a question is always answered, by a refusal that says why; a turn never waits for
somebody who is not there.
"""

from __future__ import annotations

from ..harness.events import AgentReported, ApprovalRequested, Event, QuestionsAsked
from ..sandbox.approvals import No
from ..thread.thread import Thread

__all__ = ["answer_unattended"]

_NOBODY = "nobody is there to approve it: a worker runs this turn; find another way or stop"


def answer_unattended(thread: Thread, event: Event) -> None:
    """Answer what `event` asks, also for an agent."""
    while isinstance(event, AgentReported):
        event = event.event
    match event:
        case ApprovalRequested(id=question):
            thread.answer(question, No(_NOBODY))
        case QuestionsAsked(id=question):
            thread.answer(question, None)
        case _:
            pass
