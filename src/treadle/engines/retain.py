"""Retaining: what of a conversation stays word for word when the rest is folded.

Owns the budgets and the choice. Invariant: only what a person or the thread's own
principal said is collected, never context, never an earlier summary, never what
another thread sent; what is volatile is folded into nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..context.row import Row
from ..context.rules import legal_cuts
from ..core.entries import own_parts
from ..core.items import Message, text_of
from ..core.provenance import is_inter_session
from ..core.text import TruncationPolicy, approx_tokens, truncate_text
from ..prompt.summary import is_summary, retained_message

__all__ = [
    "LIVE_TOKENS",
    "PROVIDER_RETAINED_TOKENS",
    "RETAINED_TOKENS",
    "foldable_rows",
    "live_announcements",
    "live_start",
    "retained_messages",
    "without_oldest",
]

RETAINED_TOKENS = 20_000
"""How much of what the user said stays."""

PROVIDER_RETAINED_TOKENS = 64_000
"""The same beside an item that only the provider can read."""

LIVE_TOKENS = 8_000
"""How much of a turn's earlier steps stays raw beside its newest one, at most."""

_LIVE_SHARE = 4
"""A window is left at least this many times larger than that."""


def retained_messages(
    rows: Sequence[Row], home: Path | None, budget: int = RETAINED_TOKENS
) -> list[Message]:
    """What the user said, chosen newest first; the one that overflows is cut in the middle."""
    chosen: list[str] = []
    for text in reversed(_said(rows, home)):
        cost = approx_tokens(len(text.encode()))
        if cost > budget:
            if budget > 0:
                chosen.append(truncate_text(text, TruncationPolicy("tokens", budget)))
            break
        chosen.append(text)
        budget -= cost
    return [retained_message(text) for text in reversed(chosen)]


def live_start(rows: Sequence[Row], limit: int | None = None) -> int:
    """Where the live rows begin: the newest step, and as many before it as are cheap.

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


def foldable_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows that a summary may speak of."""
    return [row for row in rows if not row.volatile]


def live_announcements(rows: Sequence[Row], turn: int) -> list[Row]:
    """What others sent to the turn under way: no summary tells it, so it stays as it is."""
    return [
        row
        for row in rows
        if row.turn == turn and row.seq is not None and _is_input(row) and not _collected(row)
    ]


def without_oldest(rows: Sequence[Row]) -> list[Row]:
    """`rows` without the oldest one that is not context, and without its counterpart."""
    oldest = next((row for row in rows if not row.contextual), None)
    if oldest is None:
        return list(rows)
    call = oldest.shape.call_id
    return [
        row for row in rows if row is not oldest and (call is None or row.shape.call_id != call)
    ]


def _said(rows: Sequence[Row], home: Path | None) -> list[str]:
    texts: list[str] = []
    for row in rows:
        if not _is_input(row) or not _collected(row):
            continue
        item = row.item
        own = own_parts(item.content, row.fragments) if isinstance(item, Message) else ()
        text = text_of(own)
        if text and not is_summary(text, home):
            texts.append(text)
    return texts


def _is_input(row: Row) -> bool:
    return row.shape.role == "user" and not row.contextual


def _collected(row: Row) -> bool:
    """Whether an input carries the authority of a person or the thread's principal."""
    return not row.volatile and not is_inter_session(row.provenance)
