"""The linear engine's compaction: fold what is old into one summary.

Owns the layout ``C0 │ Δ │ retained user messages │ summary │ live rows`` and the choice
of what stays. Invariants: the prompt that asks for a summary is never recorded, a
summary is never collected as something a person said, and a compaction makes the view
strictly smaller or fails.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from msgspec import Raw, Struct

from ..context.journal import Journal
from ..context.recipe import recipe_tokens
from ..context.row import Row
from ..context.tokens import estimate_item
from ..entries import Inline, Reason
from ..errors import CannotCompact, TooLong
from ..items import Message, encode_item
from ..prompt.input import user_message
from ..prompt.instructions import compaction_prompt
from ..prompt.summary import summary_message
from .retain import live_start, retained, without_oldest

__all__ = ["Compacted", "Complete", "LinearCompaction", "inline"]

Complete: TypeAlias = Callable[[Sequence[Row], Message], Awaitable[str]]
"""Ask the model about some rows; raises `TooLong` when they do not fit its window."""


class Compacted(Struct, frozen=True):
    """What a compaction did."""

    tokens_before: int
    tokens_after: int
    left_out: int = 0
    """Rows that did not fit into the request for the summary."""


@dataclass(frozen=True, slots=True)
class LinearCompaction:
    """Folds a thread's view with a model's help."""

    complete: Complete

    async def compact(self, journal: Journal, *, live: bool) -> Compacted:
        """Fold the view; with `live` a turn is under way and its newest rows stay.

        Raises `CannotCompact` when that would not make it smaller.
        """
        view, epoch = journal.view, journal.view.epoch
        keep_from = live_start(view.rows) if live else len(view.rows)
        old = view.rows[:keep_from]
        if all(row.contextual for row in old):
            raise CannotCompact(f"thread {journal.id!r} has nothing yet that could be folded")
        summary, left_out = await self._summarise(old, journal)
        upto = view.upto
        kept = (inline(message) for message in retained(old, journal.home))
        recipe = journal.plan_base(keep_from, after=[*kept, inline(summary)])
        before, after = view.tokens, recipe_tokens(recipe, view)
        if after >= before:
            raise CannotCompact(
                f"folding thread {journal.id!r} would take it from {before} to {after} tokens; "
                "shorten its newest messages or start a new thread"
            )
        await journal.publish(recipe, epoch=epoch, upto=upto, reason=Reason.COMPACTION, by="linear")
        return Compacted(before, after, left_out)

    async def _summarise(self, rows: Sequence[Row], journal: Journal) -> tuple[Message, int]:
        prompt = user_message(compaction_prompt(journal.home))
        asked = list(rows)
        while True:
            try:
                text = await self.complete(asked, prompt)
            except TooLong:
                shorter = without_oldest(asked)
                if shorter == asked:
                    raise
                asked = shorter
            else:
                return summary_message(text, journal.home), len(rows) - len(asked)


def inline(message: Message) -> Inline:
    """A message as part of a recipe."""
    body = encode_item(message)
    return Inline(body=Raw(body), tokens=estimate_item(message, len(body)))
