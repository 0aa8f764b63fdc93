"""What the tools of a thread are given, and what comes back from them beside their results.

Owns the joins between a call and the thread: approvals, questions, progress, notices and what
was sent. Invariant: known secrets are blanked in all that leaves here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..core.redact import redact_known
from ..harness.events import Event, EvidenceFound, NoticeRaised, ToolProgress
from ..sandbox.approvals import Approvals
from ..tools.contract import Progress, ToolCall, ToolContext, ToolResult
from .pending_calls import stage_pending
from .stored_bytes import StoredBytes
from .tool_evidence import note_evidence

if TYPE_CHECKING:
    from ..delivery.reply_sender import ReplySender
    from ..harness.completion import EngineComplete
    from ..log.thread_log import ThreadLog
    from ..tools.executor import ToolExecutor
    from .policy import ThreadPolicy
    from .questions import Questions

__all__ = ["ToolSupport"]


class ToolSupport:
    """Serves the tools of one thread."""

    def __init__(
        self,
        log: ThreadLog,
        policy: ThreadPolicy,
        *,
        approvals: Approvals,
        executor: ToolExecutor,
        questions: Questions,
        delivery: ReplySender | None,
        emit: Callable[[Event], None],
        complete: Callable[[str], EngineComplete],
    ) -> None:
        self._log = log
        self._policy = policy
        self._approvals = approvals
        self._executor = executor
        self._questions = questions
        self._delivery = delivery
        self._emit = emit
        self._complete = complete

    def make(self, step: int) -> ToolContext:
        """Return what the tools of a step are given."""
        log = self._log
        return ToolContext(
            thread=log.id,
            turn=log.turn,
            step=step,
            cwd=log.setup.workspace,
            policy=self._policy.sandbox,
            approval=self._policy.approval,
            approvals=self._approvals,
            executor=self._executor,
            blobs=StoredBytes(log.store, log.id),
            ask_approval=self._questions.ask_approval,
            show_progress=self._show_progress,
            raise_notice=self.raise_notice,
            ask_questions=self._questions.ask_user,
            ask_model=self._complete("context-engine.recall"),
            output_limit=log.setup.truncation.byte_budget,
            stage_result=partial(stage_pending, log),
            note_hook=partial(log.note, source="hook"),
            on_result=self._report_evidence,
        )

    def _show_progress(self, progress: Progress) -> None:
        self._emit(ToolProgress(call_id=progress.call_id, text=redact_known(progress.text)))

    def raise_notice(self, text: str) -> None:
        """Warn the user; known secrets are blanked."""
        self._emit(NoticeRaised(level="warning", text=redact_known(text)))

    async def _report_evidence(self, call: ToolCall, result: ToolResult) -> None:
        if result.sent or result.media:
            evidence = EvidenceFound(
                call_id=call.call_id, name=call.name, sent=result.sent, media=result.media
            )
            self._emit(evidence)
            if self._delivery is not None:
                await note_evidence(result, self._delivery)
