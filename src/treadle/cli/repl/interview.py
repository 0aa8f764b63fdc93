"""The interview: questions of the agent, answered on the input line.

Owns the questions that are open, in the order they came. Invariant: an answer goes to
the question that was shown, and what is not understood is no answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Struct, field

from ...core.ids import new_id
from ...harness.events import ApprovalRequested, QuestionsAsked
from ...thread.thread import Thread
from ..user_questions import approval_text, chosen, decision, options_of, question_text
from .screen import Screen

__all__ = ["Interview", "OwnQuestion"]


class OwnQuestion(Struct, frozen=True, kw_only=True):
    """A question of the chat itself; `take` returns whether it understood the answer."""

    text: str
    prompt: str
    take: Callable[[str], bool]
    id: str = field(default_factory=lambda: new_id("ask"))


Question: TypeAlias = ApprovalRequested | QuestionsAsked | OwnQuestion


@dataclass(slots=True)
class Interview:
    """Asks one question after another."""

    thread: Thread
    screen: Screen
    _open: list[Question] = dataclasses.field(init=False, default_factory=list)
    _answers: dict[str, tuple[str, ...]] = dataclasses.field(init=False, default_factory=dict)

    @property
    def open(self) -> bool:
        """Return whether a question waits for an answer."""
        return bool(self._open)

    @property
    def prompt(self) -> str:
        """Return the prompt before the answer."""
        event = self._open[0]
        if isinstance(event, OwnQuestion):
            return event.prompt
        return options_of(event.call) if isinstance(event, ApprovalRequested) else "answer > "

    def put(self, event: Question) -> None:
        """Add a question."""
        self._open.append(event)
        if len(self._open) == 1:
            self._show()

    def withdraw(self, question: str) -> None:
        """Remove a question that no longer needs an answer."""
        first = bool(self._open) and self._open[0].id == question
        self._open = [event for event in self._open if event.id != question]
        if first:
            self._next()

    def answer(self, said: str) -> None:
        """Handle the answer of the user."""
        event = self._open[0]
        if isinstance(event, QuestionsAsked):
            self._record_answer(event, said)
            return
        if isinstance(event, OwnQuestion):
            if event.take(said):
                self.screen.quiet(f"  {said.strip()}")
                self.withdraw(event.id)
            else:
                self.screen.trouble("that is none of the answers")
            return
        decided = decision(event.call, said)
        if decided is None:
            self.screen.trouble("that is none of the answers")
            return
        self.screen.quiet(f"  {said.strip()}")
        self._open.pop(0)
        self.thread.answer(event.id, decided)
        self._next()

    def _record_answer(self, event: QuestionsAsked, said: str) -> None:
        asked = event.questions[len(self._answers)]
        if said.strip():
            self._answers[asked.id] = (chosen(asked, said),)
            self.screen.quiet(f"  {chosen(asked, said)}")
            if len(self._answers) < len(event.questions):
                self._show()
                return
        self._open.pop(0)
        self.thread.answer(event.id, dict(self._answers) or None)
        self._next()

    def _next(self) -> None:
        self._answers.clear()
        if self._open:
            self._show()

    def _show(self) -> None:
        event = self._open[0]
        if isinstance(event, ApprovalRequested):
            self.screen.say(approval_text(event.call), "yellow")
        elif isinstance(event, OwnQuestion):
            self.screen.say(event.text, "yellow")
        else:
            self.screen.say(question_text(event.questions[len(self._answers)]), "yellow")
