"""The linear engine's compaction: fold what is old into one summary.

Owns the layout ``C0 │ Δ │ retained user messages │ summary │ live rows``; where a
provider folds conversations itself, its sealed item stands where the summary would.
Invariants: the prompt that asks for a summary is never recorded, a summary is never
collected as something a person said, and a compaction makes the view strictly smaller
or fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import Raw, Struct

from ..context.recipe import ranges, recipe_tokens
from ..context.row import Row
from ..context.tokens import estimate_item
from ..core.entries import Inline, Origin, Reason
from ..core.errors import CannotCompact, TooLong
from ..core.items import Item, Message, encode_item
from ..log.thread_log import ThreadLog
from ..prompt.input import user_message
from ..prompt.instructions import compaction_prompt
from ..prompt.summary import summary_message
from .retain import (
    PROVIDER_RETAINED_TOKENS,
    RETAINED_TOKENS,
    foldable_rows,
    live_announcements,
    live_start,
    retained_messages,
    without_oldest,
)

__all__ = [
    "CompactionOutcome",
    "Intercept",
    "LinearCompaction",
    "ProviderCompaction",
    "SummariseRows",
    "inline_part",
]

SummariseRows: TypeAlias = Callable[[Sequence[Row], Message], Awaitable[str]]
"""Ask the model about some rows; raises `TooLong` when they do not fit its window."""

ProviderCompaction: TypeAlias = Callable[[Sequence[Row]], Awaitable[Item]]
"""Let the provider fold rows into one item; raises `TooLong` or `CannotCompact`."""


Intercept: TypeAlias = Callable[[Sequence[Row]], Awaitable[str | None]]
"""Somebody else's summary of the rows; None where there is none."""


class CompactionOutcome(Struct, frozen=True):
    """What a compaction did."""

    tokens_before: int
    tokens_after: int
    left_out: int = 0
    """Rows that did not fit into the request for the summary."""
    by: str = "linear"
    """``provider`` where the provider folded."""
    details: Mapping[str, Any] = {}
    """What else was done about it, such as ``codexNativeCompaction``."""


class _Folded(Struct, frozen=True):
    """What stands for the old rows."""

    parts: list[Inline]
    left_out: int = 0
    by: str = "linear"


class LinearCompaction(Struct, frozen=True):
    """Folds a thread's view with a model's help."""

    complete: SummariseRows
    provider: ProviderCompaction | None = None
    intercept: Intercept | None = None

    async def compact(self, log: ThreadLog, *, live: bool) -> CompactionOutcome:
        """Fold the view; with `live` a turn is under way and its newest rows stay.

        Raises `CannotCompact` when that would not make it smaller.
        """
        view, epoch = log.view, log.view.epoch
        limit = log.setup.profile.auto_compact_limit
        keep_from = live_start(view.rows, limit) if live else len(view.rows)
        old = view.rows[:keep_from]
        sent = live_announcements(old, log.turn) if live else []
        # What stands in the recipe was folded before; folding it again is no progress.
        if all(row.contextual or row.volatile or row.seq is None or row in sent for row in old):
            raise CannotCompact(f"thread {log.id!r} has nothing new that could be folded")
        folded = await self._folded(foldable_rows(old), log)
        upto = view.upto
        recipe = log.epochs.plan_base(keep_from, after=[*folded.parts, *ranges(sent, view.gaps)])
        before, after = view.tokens, recipe_tokens(recipe, view)
        if after >= before:
            raise CannotCompact(
                f"folding thread {log.id!r} would take it from {before} to {after} tokens; "
                "shorten its newest messages or start a new thread"
            )
        await log.epochs.publish(
            recipe, epoch=epoch, upto=upto, reason=Reason.COMPACTION, by=folded.by
        )
        return CompactionOutcome(before, after, folded.left_out, folded.by)

    async def _folded(self, rows: Sequence[Row], log: ThreadLog) -> _Folded:
        """By an engine that wants to, the provider where it can, else by a summary of ours."""
        if self.intercept is not None and (text := await self.intercept(rows)):
            summary = await asyncio.to_thread(summary_message, text, log.setup.home)
            kept = await self._kept(rows, log, RETAINED_TOKENS)
            return _Folded([*map(inline_part, kept), inline_part(summary)], by="engine")
        if self.provider is not None:
            with suppress(TooLong, CannotCompact):
                sealed = inline_part(await self.provider(rows), log.origin)
                kept = await self._kept(rows, log, PROVIDER_RETAINED_TOKENS)
                return _Folded([*map(inline_part, kept), sealed], by="provider")
        summary, left_out = await self._summarise(rows, log)
        kept = await self._kept(rows, log, RETAINED_TOKENS)
        return _Folded([*map(inline_part, kept), inline_part(summary)], left_out)

    async def _kept(self, rows: Sequence[Row], log: ThreadLog, budget: int) -> list[Message]:
        # Telling summaries from what people said may read imported prompts.
        return await asyncio.to_thread(retained_messages, rows, log.setup.home, budget)

    async def _summarise(self, rows: Sequence[Row], log: ThreadLog) -> tuple[Message, int]:
        prompt = user_message(await asyncio.to_thread(compaction_prompt, log.setup.home))
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
                summary = await asyncio.to_thread(summary_message, text, log.setup.home)
                return summary, len(rows) - len(asked)


def inline_part(item: Item, origin: Origin | None = None) -> Inline:
    """An item as part of a recipe."""
    body = encode_item(item)
    return Inline(body=Raw(body), tokens=estimate_item(item, len(body)), origin=origin)
