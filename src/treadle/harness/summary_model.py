"""Summary models: another model that writes summaries, for less than the thread's own.

Owns what it is shown: the conversation as text, because it has no cached prefix to ride.
Invariants: nothing that only the thread's model can read is shown to it; where it fails, the
user is told and the thread's own model is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from ..context.compose import item_draft
from ..context.row import Row
from ..core.entries import Head
from ..core.errors import TreadleError
from ..core.items import Compaction, ContextCompaction, Message, text_of
from ..core.redact import one_line
from ..engines.conversation import conversation_fields, named_rows
from ..models.contract import Model
from ..prompt.input import user_message
from .events import NoticeRaised

if TYPE_CHECKING:
    from ..policy.pricing import Pricing
    from ..policy.turn_plan import SummaryUse
    from .contract import TurnRun

__all__ = [
    "FindSummaryModel",
    "SummaryModel",
    "can_be_shown",
    "no_summary_model",
    "tell_failure",
    "transcript_rows",
]


class SummaryModel(Struct, frozen=True, kw_only=True):
    """A connection to a model that writes summaries."""

    name: str
    model: Model
    head: Head
    """What its requests begin with."""
    pricing: Pricing | None = None
    """How its answers are charged, where money is limited."""


FindSummaryModel: TypeAlias = Callable[["SummaryUse"], Awaitable[SummaryModel | None]]
"""Finds who writes summaries in place of the thread's model, by what they are for."""


async def no_summary_model(use: SummaryUse) -> SummaryModel | None:
    """The thread's own model writes them."""
    del use
    return None


def can_be_shown(rows: Sequence[Row]) -> bool:
    """Whether another model can read all that rows say: nothing in them is sealed."""
    return not any(isinstance(row.item, Compaction | ContextCompaction) for row in rows)


async def transcript_rows(run: TurnRun, rows: Sequence[Row], prompt: Message) -> list[Row]:
    """Return the request for a summary of rows, as text."""
    text = await asyncio.to_thread(_transcript, run.log.id, rows)
    task = text_of(prompt.content)
    return [Row.of_draft(item_draft(user_message(f"<source>\n{text}\n</source>\n\n{task}")))]


def _transcript(thread: str, rows: Sequence[Row]) -> str:
    from ..engines.lossless.writing.source import SummarySource  # only for a view that is full
    from ..engines.lossless.writing.summary_prompts import render_source

    items = conversation_fields(named_rows(thread, rows).items())["items"]
    return render_source(SummarySource(items=tuple(items)))


def tell_failure(run: TurnRun, asked: str, error: TreadleError) -> None:
    """Tell the user that another model failed, and who is asked instead."""
    why = one_line(str(error)) or "it gave no summary"
    text = f"{asked} did not write the summary: {why}; {run.log.setup.model} writes it"
    run.emit(NoticeRaised(level="warning", text=text))
