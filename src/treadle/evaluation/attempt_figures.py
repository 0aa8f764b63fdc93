"""Figures of an attempt, from the log and the ledger of its thread.

Invariant: they are read from what is durable, so that what a process did that was killed counts
like the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..config.settings import Price
from ..core.entries import Reason
from ..core.usage import TokenUsage
from ..log.bills import spent_on
from ..log.usages import thread_usages
from ..store.contract import LedgerRow
from ..thread.thread import Thread
from .results import AttemptFigures

__all__ = ["read_figures"]


async def read_figures(thread: Thread, prices: Mapping[str, Price]) -> AttemptFigures:
    """Return what a thread used, and what its requests shared with the ones before."""
    answers = await thread_usages(thread.store, thread.id)
    spent, whole = spent_on(answers, prices), await thread.usage()
    usage: TokenUsage = spent.usage + whole.agents
    rows = await thread.index.rows(thread.id)
    return AttemptFigures(
        requests=len(answers),
        sent_bytes=sum(row.size for row in rows) if rows else None,
        shared_bytes=sum(row.shared_size for row in rows) if rows else None,
        breaks=_breaks(rows),
        unexplained=sum(row.unexplained for row in rows),
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_input_tokens,
        output_tokens=usage.output_tokens,
        cost=spent.bill + whole.agents_cost,
    )


def _breaks(rows: list[LedgerRow]) -> dict[str, int]:
    reasons = [row.reason for row in rows if row.reason is not None and row.number > 1]
    return dict(Counter(reason for reason in reasons if reason != Reason.START.value))
