"""What fills the window: now, at a request, and over time.

Owns how a long thread becomes a few points. Invariants: a view is loaded once for all points
that begin from the same base; and figures of a request that was answered are those that its
provider counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ..context.composition import KINDS, ContextKind, compose_window, head_parts, row_parts
from ..context.row import Row
from ..context.tokens import estimate_item
from ..context.view import View, load_view
from ..core.entries import Head, RequestMark
from ..core.errors import StoreError
from ..log.window_costs import context_json, next_cost
from ..store.contract import LedgerRow
from .api_answers import page_of
from .entry_views import item_text
from .inspected_home import Remembered, ShownHome
from .references import find_unreferred
from .request_views import ShownRequests

__all__ = ["ShownWindows"]

_MOST_RANKED = 10
_LABEL = 160


class ShownWindows:
    """Tells what fills the windows of threads."""

    def __init__(self, home: ShownHome, requests: ShownRequests) -> None:
        self._home, self._requests = home, requests
        self._points: Remembered[tuple[str, str], dict[str, Any]] = Remembered(5_000)

    async def at(self, thread: str, number: int | None) -> dict[str, Any]:
        """Return what fills the window now, or filled it at a request."""
        if number is None:
            view = await load_view(self._home.store, thread, await self._home.registry())
        else:
            view = (await self._requests.render(thread, number)).view
        window = await self._window(view.head)
        found = await asyncio.to_thread(compose_window, view, window)
        ranked = await asyncio.to_thread(_rank_rows, view)
        model = f"{view.head.provider}:{view.head.model}" if view.head else None
        cost = next_cost(found, view.head, self._home.prices)
        return {"thread": thread, "model": model, **context_json(found, cost), **ranked}

    async def series(self, thread: str, points: int) -> dict[str, Any]:
        """Return what filled the window at about so many requests, oldest first."""
        newest = await self._home.index.newest_row(thread)
        total = newest.number if newest else 0
        rows = await self._spread(thread, total, points)
        missing = [row for row in rows if self._points.get(_key(row)) is None]
        while missing:
            # The newest first: its view shows those before it that began from the same base.
            missing = await self._count(thread, missing)
        return {"points": [self._points.get(_key(row)) for row in rows], "total": total}

    async def _spread(self, thread: str, total: int, points: int) -> list[LedgerRow]:
        """Return requests that lie evenly, the first and the newest among them."""
        if total <= points:
            return await self._home.index.request_page(thread, 1, total)
        step = (total - 1) / (points - 1) if points > 1 else total
        wanted = sorted({1 + round(at * step) for at in range(points - 1)} | {total})
        return [await self._home.request(thread, number) for number in wanted]

    async def _count(self, thread: str, rows: list[LedgerRow]) -> list[LedgerRow]:
        """Count the newest of `rows` and all with the same base; return those that are left."""
        newest = rows[-1]
        upto = await self._upto(thread, newest)
        view = await load_view(self._home.store, thread, await self._home.registry(), upto=upto)
        window = await self._window(view.head)
        same = [row for row in rows if row.epoch == newest.epoch]
        ends = [(row, await self._upto(thread, row)) for row in same]
        for row, point in await asyncio.to_thread(_points, view, ends, window):
            self._points.put(_key(row), point)
        return [row for row in rows if row.epoch != newest.epoch]

    async def _upto(self, thread: str, row: LedgerRow) -> int:
        """Return the newest entry that a request shows."""
        found = await self._home.store.read(thread, row.seq, row.seq)
        try:
            mark = found[0].control if found else None
        except StoreError:
            mark = None
        return mark.upto if isinstance(mark, RequestMark) else row.seq

    async def _window(self, head: Head | None) -> int | None:
        if head is None:
            return None
        catalog = await self._home.catalog()
        return catalog.profile(f"{head.provider}:{head.model}").effective_window


def _key(row: LedgerRow) -> tuple[str, str]:
    return row.thread, f"{row.seq} {row.digest} {row.input_tokens}"


def _points(
    view: View, ends: Sequence[tuple[LedgerRow, int]], window: int | None
) -> list[tuple[LedgerRow, dict[str, Any]]]:
    """Return a point for each request, of views that are all beginnings of `view`."""
    sums: dict[ContextKind, int] = dict.fromkeys(KINDS, 0)
    for part in head_parts(view.head):
        sums[part.kind] += part.tokens
    found, at = [], 0
    for row, upto in sorted(ends, key=lambda each: each[1]):
        while at < len(view.rows) and (view.rows[at].seq or 0) <= upto:
            for part in row_parts(view.rows[at]):
                sums[part.kind] += part.tokens
            at += 1
        found.append((row, _point(row, sums, window)))
    return found


def _point(row: LedgerRow, sums: dict[ContextKind, int], window: int | None) -> dict[str, Any]:
    estimated = sum(sums.values()) or 1
    tokens = row.input_tokens or estimated
    kinds = {kind: round(count * tokens / estimated) for kind, count in sums.items() if count}
    return {
        "request": row.number,
        "turn": row.turn,
        "time": row.time,
        "tokens": tokens,
        "counted": row.input_tokens is not None,
        "window": window,
        "kinds": kinds,
    }


def _rank_rows(view: View) -> dict[str, Any]:
    rows = [row for row in view.rows if row.seq is not None]
    largest = sorted(rows, key=_tokens, reverse=True)[:_MOST_RANKED]
    unused = sorted(find_unreferred(view.rows), key=_tokens, reverse=True)[:_MOST_RANKED]
    return {
        "largest": [_ranked_row(row) for row in largest],
        "unreferred": [_ranked_row(row) for row in unused],
    }


def _tokens(row: Row) -> int:
    return row.tokens or estimate_item(row.item, len(row.body))


def _ranked_row(row: Row) -> dict[str, Any]:
    text = " ".join(item_text(row.item, row.body)[: 4 * _LABEL].split())
    label = ", ".join(mark.id for mark in row.fragments) or page_of(text, 0, _LABEL).text
    kind = row.shape.role or row.shape.type
    return {
        "seq": row.seq,
        "kind": kind,
        "label": label or kind,
        "tokens": _tokens(row),
        "turn": row.turn,
    }
