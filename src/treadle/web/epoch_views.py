"""Epochs as the inspector shows them: why each prefix began, and what was compacted.

Owns the words about an epoch. Invariant: an epoch is named by the entry that began it, as the
ledger names it.
"""

from __future__ import annotations

from typing import Any

from ..core.entries import BREAKING, Entry, Epoch, Inline, Node, Rollback, Snapshots
from ..core.errors import StoreError
from ..core.text import approx_tokens
from .api_answers import page_of
from .inspected_home import ShownHome
from .ledger_views import ShownLedger

__all__ = ["ShownEpochs"]

_DETAIL = 300


class ShownEpochs:
    """Tells about the epochs of threads."""

    def __init__(self, home: ShownHome, ledger: ShownLedger) -> None:
        self._home, self._ledger = home, ledger

    async def page(self, thread: str, before: int | None, limit: int) -> dict[str, Any]:
        """Return the newest epochs before an entry, newest first."""
        info = await self._home.thread(thread)
        last = info.last if before is None else min(before - 1, info.last)
        store = self._home.store
        found = await store.read_kinds_back(info.id, BREAKING, last, limit=limit + 1)
        after = await self._home.index.request_after(info.id, last) if before else None
        newest = await self._home.index.newest_row(info.id)
        following = after.number if after else newest.number + 1 if newest else 1
        shown = []
        for entry in found[:limit]:
            row = await self._home.index.request_after(info.id, entry.seq)
            first = row.number if row is not None else following
            shown.append(await self._epoch(entry, first, following - 1))
            following = min(first, following)
        more = len(found) > limit
        return {"epochs": shown, "next": found[limit - 1].seq if more else None}

    async def _epoch(self, entry: Entry, first: int, last: int) -> dict[str, Any]:
        head = (await self._ledger.prefix(entry.thread, entry.seq)).head
        try:
            control = entry.control
        except StoreError:
            control = None
        sent = first <= last
        return {
            "seq": entry.seq,
            "number": entry.seq,
            "reason": _reason(control),
            "detail": page_of(_detail(control), 0, _DETAIL).text or None,
            "by": control.by if isinstance(control, Epoch) else "",
            "turn": entry.turn,
            "time": entry.time,
            "first_request": first if sent else None,
            "last_request": last if sent else None,
            "model": f"{head.provider}:{head.model}" if head else None,
            "compaction": await self._compaction(entry, control, first),
        }

    async def _compaction(self, entry: Entry, control: object, first: int) -> dict[str, Any] | None:
        """Return what a new base made of what was sent before it, in what was sent after it."""
        if not isinstance(control, Epoch) or control.recipe is None or first < 2:
            return None
        if not any(isinstance(part, Node | Inline) for part in control.recipe.parts):
            return None
        sides = await self._home.index.request_page(entry.thread, first - 1, first)
        if len(sides) < 2:
            return None
        before, after = sides
        return {
            "tokens_before": before.input_tokens or approx_tokens(before.size),
            "tokens_after": after.input_tokens or approx_tokens(after.size),
            "counted": None not in (before.input_tokens, after.input_tokens),
            "summaries": sum(isinstance(part, Node) for part in control.recipe.parts),
        }


def _reason(control: object) -> str:
    if isinstance(control, Epoch):
        return control.reason.value
    return "rollback" if isinstance(control, Rollback) else "other"


def _detail(control: object) -> str:
    match control:
        case Epoch(by=by, note=note, recipe=recipe):
            parts = recipe.parts if recipe is not None else ()
            nodes = sum(isinstance(part, Node) for part in parts)
            quiet = sum(isinstance(part, Snapshots) for part in parts)
            told = [f"by {by}" if by else "", note]
            told += [f"{nodes} summaries" if nodes > 1 else "one summary"] if nodes else []
            told += ["states noted"] if quiet else []
            return ", ".join(filter(None, told))
        case Rollback(cut=cut, turns=turns):
            many = f"{turns} turn{'' if turns == 1 else 's'}, " if turns else ""
            return f"{many}entries from {cut} on no longer count"
        case _:
            return ""
