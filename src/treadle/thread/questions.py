"""Questions: what a turn asks its host, and who waits for which answer.

Owns approvals and the questions of a model that are still open. Invariants: when the process
ends before an answer comes, the call reads as withdrawn, and what was asked for was not done;
what the user decided stands in the log before it is acted on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from ..core.errors import NotFound
from ..core.ids import new_id
from ..harness.contract import CALL
from ..harness.events import ApprovalRequested, ApprovalWithdrawn, Event, QuestionsAsked
from ..log.thread_log import ThreadLog
from ..sandbox.approvals import Ask, Decision, ForPrefix, ForThread, No, NoAndStop, Once
from ..tools.contract import Answers, ToolResult, UserQuestion
from ..tools.dispatch import output_item

__all__ = ["Questions"]

_WITHDRAWN = "Withdrawn: the run ended before the user answered; what was asked for was not done."

_LONGEST = 4_000
"""Characters of a command that are recorded with the decision about it."""

T = TypeVar("T")


class Questions:
    """The open questions of one thread."""

    def __init__(
        self,
        log: ThreadLog,
        emit: Callable[[Event], None],
        standing_still: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._log = log
        self._emit = emit
        self._standing_still = standing_still
        """Lets the time of the turn stand still."""
        self.dismissed = False
        """Whether the user left questions of the present turn without an answer."""
        self._waiting: dict[str, asyncio.Future[object]] = {}

    async def ask_approval(self, call: Ask) -> Decision:
        """Ask the host whether a call may be done."""
        question = new_id("ask")
        event = ApprovalRequested(id=question, call=call, call_id=CALL.get().call_id)
        decision: Decision = await self._ask(question, event)
        await self._log.note(_decision_text(call, decision), source="approval")
        return decision

    async def ask_user(self, questions: tuple[UserQuestion, ...]) -> Answers:
        """Put the model's questions to the user."""
        question = new_id("ask")
        answers: Answers = await self._ask(
            question, QuestionsAsked(id=question, questions=questions)
        )
        self.dismissed = self.dismissed or answers is None
        return answers

    def answer(self, question: str, answer: Decision | Answers) -> None:
        """Answer what the host was asked. Raises `NotFound` when nobody waits for it."""
        waiting = self._waiting.get(question)
        if waiting is None or waiting.done():
            raise NotFound("open question", question, "it was already answered or withdrawn")
        waiting.set_result(answer)

    async def _ask(self, question: str, event: Event) -> T:
        withdrawn = output_item(CALL.get(), ToolResult(_WITHDRAWN, success=False))
        await self._log.stage_output(withdrawn)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[question] = future  # type: ignore[assignment]
        self._emit(event)
        try:
            with self._standing_still():
                answer = await future
        except asyncio.CancelledError:
            self._emit(ApprovalWithdrawn(id=question))
            raise
        finally:
            del self._waiting[question]
        await self._log.unstage_output(withdrawn)
        return answer


def _decision_text(call: Ask, decision: Decision) -> str:
    """Say what the user decided, for whoever reads the log."""
    import shlex  # most threads never ask

    command = shlex.join(call.argv)[:_LONGEST]
    # Whether there is a sandbox at all depends on the policy of the thread.
    where = " (outside the sandbox)" if call.outside else ""
    match decision:
        case Once():
            how = "allowed once"
        case ForThread():
            how = "allowed in this thread"
        case ForPrefix(prefix=prefix):
            how = f"allowed, with all that begins with `{shlex.join(prefix)}`"
        case No():
            how = "refused"
        case NoAndStop():
            how = "refused, and the turn stopped"
    return f"{how}: {command}{where}"
