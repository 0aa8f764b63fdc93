"""The linear engine: shows the view as it is, and compacts what is old into one summary.

Owns `LinearEngine`, the compaction that the runtime does for it and for every engine that
has none, and the layout ``C0 │ Δ │ retained user messages │ summary │ live rows``; where a
provider compacts conversations itself, its sealed item stands where the summary would.
Invariants: the prompt that asks for a summary is never recorded, a summary is never retained
as something a person said, and a compaction makes the view strictly smaller or fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from msgspec import Raw, Struct

from ..context.recipe import ranges, recipe_tokens
from ..context.row import Row
from ..context.rules import legal_cuts
from ..context.tokens import estimate_item
from ..core.entries import Flags, Inline, Origin, Reason, own_parts
from ..core.errors import CannotCompact, TooLong
from ..core.items import Item, Message, encode_item, text_of
from ..core.provenance import is_inter_session
from ..core.text import TruncationPolicy, approx_tokens, truncate_text
from ..log.thread_log import ThreadLog
from ..prompt.input import user_message
from ..prompt.instructions import compaction_prompt, is_summary, retained_message, summary_message
from .compaction import CompactionModel, CompactionOutcome
from .contract import EngineInfo
from .values import (
    AssembleParams,
    AssembleResult,
    CompactParams,
    CompactResult,
    IngestParams,
    IngestResult,
)

__all__ = [
    "LIVE_TOKENS",
    "PROVIDER_RETAINED_TOKENS",
    "RETAINED_TOKENS",
    "Intercept",
    "LinearCompaction",
    "LinearEngine",
    "compactable_rows",
    "inline_part",
    "live_announcements",
    "live_start",
    "retained_messages",
]

RETAINED_TOKENS = 20_000
"""How much of what the user said stays word for word, at most."""

PROVIDER_RETAINED_TOKENS = 64_000
"""The same beside an item that only the provider can read."""

LIVE_TOKENS = 8_000
"""How much of a turn's earlier steps stays raw beside its newest one, at most."""

_LIVE_SHARE = 4
"""A window is left at least this many times larger than that."""
_RETAINED_SHARE = 4
"""What stays of the user's words takes no more than one part in so many of the window …"""
_PROVIDER_SHARE = 3
"""… and beside an item of the provider's no more than this."""

Intercept: TypeAlias = Callable[[Sequence[Row]], Awaitable[str | None]]
"""Returns somebody else's summary of the rows; None where there is none."""


class LinearEngine:
    """The engine of threads for which nobody chose another one. It keeps nothing.

    A request made with it has the bytes that one made without any engine would have.
    """

    info = EngineInfo(id="linear", name="Linear", version="1", passive=True)

    async def ingest(self, given: IngestParams, /) -> IngestResult:
        """Keep nothing: the log has it."""
        del given
        return IngestResult(ingested=False)

    async def assemble(self, given: AssembleParams, /) -> AssembleResult:
        """Show the items as they are."""
        return AssembleResult(items=given.items)

    async def compact(self, given: CompactParams, /) -> CompactResult:
        """Let the runtime compact the view: a `LinearCompaction`."""
        if given.delegate is None:
            return CompactResult(ok=False, reason="the runtime offers no compaction")
        return await given.delegate()


class _Compacted(Struct, frozen=True):
    """What stands for the old rows."""

    parts: list[Inline]
    left_out: int = 0
    by: str = "linear"


class LinearCompaction(Struct, frozen=True):
    """Compacts a thread's view with a model's help."""

    model: CompactionModel
    intercept: Intercept | None = None

    async def compact(self, log: ThreadLog, *, live: bool) -> CompactionOutcome:
        """Compact the view; with `live` a turn is under way and its newest rows stay.

        Raises `CannotCompact` when that would not make it smaller.
        """
        view, epoch = log.view, log.view.epoch
        limit = log.setup.profile.auto_compact_limit
        keep_from = live_start(view.rows, limit) if live else len(view.rows)
        old = view.rows[:keep_from]
        sent = live_announcements(old, log.turn) if live else []
        # What stands in the recipe was compacted before; compacting it again is no progress.
        if all(row.contextual or row.volatile or row.seq is None or row in sent for row in old):
            raise CannotCompact(f"thread {log.id!r} has nothing new that could be compacted")
        compacted = await self._compact(compactable_rows(old), log)
        upto = view.upto
        recipe = log.epochs.plan_base(keep_from, after=[*compacted.parts, *ranges(sent, view.gaps)])
        before, after = view.tokens, recipe_tokens(recipe, view)
        if after >= before:
            raise CannotCompact(
                f"compacting thread {log.id!r} would take it from {before} to {after} tokens; "
                "shorten its newest messages or start a new thread"
            )
        await log.epochs.publish(
            recipe, epoch=epoch, upto=upto, reason=Reason.COMPACTION, by=compacted.by
        )
        return CompactionOutcome(before, after, compacted.left_out, compacted.by)

    async def _compact(self, rows: Sequence[Row], log: ThreadLog) -> _Compacted:
        """Compact rows: by an engine that wants to, the provider where it can, else a summary."""
        if self.intercept is not None and (text := await self.intercept(rows)):
            summary = inline_part(await _summary_message(text, log), flags=Flags.SUMMARY)
            kept = await self._retain(rows, log)
            return _Compacted([*map(inline_part, kept), summary], by="engine")
        if self.model.compact is not None:
            with suppress(TooLong, CannotCompact):
                sealed = inline_part(await self.model.compact(rows), log.sealing_origin)
                most = _within_share(PROVIDER_RETAINED_TOKENS, _PROVIDER_SHARE, log)
                kept = await self._retain(rows, log, most)
                return _Compacted([*map(inline_part, kept), sealed], by="provider")
        kept = await self._retain(rows, log)
        words, left_out = await self._summarise(rows, kept, log)
        summary = inline_part(words, flags=Flags.SUMMARY)
        return _Compacted([*map(inline_part, kept), summary], left_out)

    async def _retain(
        self, rows: Sequence[Row], log: ThreadLog, most: int | None = None
    ) -> list[Message]:
        if most is None:
            most = _within_share(RETAINED_TOKENS, _RETAINED_SHARE, log)
        # Telling summaries from what people said may read imported prompts.
        return await asyncio.to_thread(retained_messages, rows, log.setup.home, most)

    async def _summarise(
        self, rows: Sequence[Row], kept: Sequence[Message], log: ThreadLog
    ) -> tuple[Message, int]:
        from .linear_summary import LinearSummary  # only for a view that is full

        prompt = user_message(await asyncio.to_thread(compaction_prompt, log.setup.home))
        limit = log.setup.profile.auto_compact_limit
        summary = LinearSummary(log.id, rows, kept, limit)
        text, left_out = await summary.write(prompt, self.model.summarise)
        return await _summary_message(text, log), left_out


def _within_share(most: int, share: int, log: ThreadLog) -> int:
    """Return how many tokens of the user's words stay: `most`, or a share of the window."""
    limit = log.setup.profile.auto_compact_limit
    return most if limit is None else min(most, limit // share)


async def _summary_message(text: str, log: ThreadLog) -> Message:
    # Imported prompts may have to be read.
    words = log.registry.vocabulary
    return await asyncio.to_thread(summary_message, text, log.setup.home, words)


def inline_part(item: Item, origin: Origin | None = None, *, flags: Flags = Flags.NONE) -> Inline:
    """Return an item as part of a recipe."""
    body = encode_item(item)
    tokens = estimate_item(item, len(body))
    return Inline(body=Raw(body), tokens=tokens, origin=origin, flags=int(flags))


def retained_messages(
    rows: Sequence[Row], home: Path | None, budget: int = RETAINED_TOKENS
) -> list[Message]:
    """Return what the user said, newest first; the one that overflows is cut in the middle.

    Only what a person or the thread's own principal said is retained: no context, no earlier
    summary, nothing that another thread sent or that is volatile.
    """
    chosen: list[str] = []
    for text in reversed(_input_texts(rows, home)):
        cost = approx_tokens(len(text.encode()))
        if cost > budget:
            if budget > 0:
                chosen.append(truncate_text(text, TruncationPolicy("tokens", budget)))
            break
        chosen.append(text)
        budget -= cost
    return [retained_message(text) for text in reversed(chosen)]


def live_start(rows: Sequence[Row], limit: int | None = None) -> int:
    """Return where the live rows begin: the newest step, and as many before it as are cheap.

    `limit` is how many tokens a view may have, if there is a limit.
    """
    if not rows:
        return 0
    newest = (rows[-1].turn, rows[-1].step)
    cuts = legal_cuts(rows)
    start = next(i for i, row in enumerate(rows) if (row.turn, row.step) == newest)
    best = max(cut for cut in cuts if cut <= start)
    spare = LIVE_TOKENS if limit is None else min(LIVE_TOKENS, limit // _LIVE_SHARE)
    for cut in reversed([cut for cut in cuts if cut < best]):
        spare -= sum(row.tokens for row in rows[cut:best])
        if spare < 0 or rows[cut].turn != newest[0]:
            break
        best = cut
    return best


def compactable_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that a summary may speak of."""
    return [row for row in rows if not row.volatile]


def live_announcements(rows: Sequence[Row], turn: int) -> list[Row]:
    """Return what others sent to the turn under way: no summary holds it, so it stays."""
    return [
        row
        for row in rows
        if row.turn == turn and row.seq is not None and _is_input(row) and not _has_authority(row)
    ]


def _input_texts(rows: Sequence[Row], home: Path | None) -> list[str]:
    texts: list[str] = []
    for row in rows:
        if row.summary or not _is_input(row) or not _has_authority(row):
            continue
        item = row.item
        own = own_parts(item.content, row.fragments) if isinstance(item, Message) else ()
        text = text_of(own)
        # Imported summaries, and those of older logs, are known by their words only.
        if text and not is_summary(text, home):
            texts.append(text)
    return texts


def _is_input(row: Row) -> bool:
    return row.shape.role == "user" and not row.contextual


def _has_authority(row: Row) -> bool:
    """Whether an input carries the authority of a person or the thread's principal."""
    return not row.volatile and not is_inter_session(row.provenance)
