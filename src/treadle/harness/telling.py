"""Telling hosts: events that every harness makes of the same things.

Owns how much of an output is shown, and how a request and a result are told.
"""

from __future__ import annotations

from ..core.items import text_of
from ..store.contract import LedgerRow
from ..tools.dispatch import Finished
from .events import StepStarted, ToolFinished

__all__ = ["SHOWN_OUTPUT", "call_finished", "step_started"]

SHOWN_OUTPUT = 2_000
"""Characters of an output that are told; the log has all of it."""


def step_started(step: int, row: LedgerRow) -> StepStarted:
    """A request goes out, as the ledger sees it."""
    return StepStarted(step=step, size=row.size, shared=row.shared_size, reason=row.reason)


def call_finished(finished: Finished) -> ToolFinished:
    """A call of a tool of ours has its result."""
    return ToolFinished(
        call_id=finished.call.call_id,
        name=finished.call.name,
        success=finished.result.success,
        seconds=round(finished.seconds, 4),
        output=text_of(finished.result.output)[:SHOWN_OUTPUT],
    )
