"""Rebuilding: the ledger from the log alone.

Owns the proof that a request is a function of the log: it renders every recorded
request again and compares digests. Invariant: a lost index costs time, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..core.entries import BREAKING, Entry, RequestMark, ResponseMark
from ..prompt.registry import Registry
from ..store.contract import Index, Store
from .ledger import Ledger
from .request import Renderer, Request
from .view import View, advance, load_view

__all__ = ["Rebuilt", "catch_up", "rebuild_ledger"]

_PAGE = 512


class Rebuilt(Struct, frozen=True):
    """How a rebuild went.

    `differing` are the request entries whose bytes this version renders otherwise.
    """

    requests: int = 0
    differing: tuple[int, ...] = ()


async def rebuild_ledger(store: Store, index: Index, thread: str, registry: Registry) -> Rebuilt:
    """Render every request of a thread again and record it in `index`."""
    await index.forget(thread)
    info = await store.info(thread)
    view = View(thread=thread, upto=0, cache_key=info.root)
    replay = _Replay(Ledger(thread, store, index), view, registry)
    await replay.follow(await store.read(thread, limit=_PAGE), info.last)
    return Rebuilt(replay.requests, tuple(replay.differing))


async def catch_up(ledger: Ledger, registry: Registry) -> int:
    """Record the requests that a crash kept out of the ledger; how many there were.

    Looks for them right after the newest one that it knows of: little can be missing.
    """
    newest = await ledger.newest()
    if newest is None:
        return 0
    store, thread = ledger.store, ledger.thread
    page = await store.read(thread, newest.seq + 1, limit=_PAGE)
    if not any(entry.kind == "request" for entry in page):
        return 0
    view = await load_view(store, thread, registry, upto=newest.seq)
    replay = _Replay(ledger, view, registry)
    await replay.follow(page, (await store.info(thread)).last)
    return replay.requests


class _Replay:
    """Follows a log forward and records each request on the way."""

    def __init__(self, ledger: Ledger, view: View, registry: Registry) -> None:
        self._store, self._index, self._registry = ledger.store, ledger.index, registry
        self._view = view
        self._ledger = ledger
        self._renderer = Renderer()
        self._changed = 0
        self.requests = 0
        self.differing: list[int] = []

    async def follow(self, page: Sequence[Entry], last: int) -> None:
        """Meet the entries of `page`, and all after it up to `last`."""
        while page:
            for entry in page:
                await self.meet(entry)
            page = await self._store.read(self._view.thread, page[-1].seq + 1, last, limit=_PAGE)

    async def meet(self, entry: Entry) -> None:
        self._view = await advance(self._view, self._store, [entry], self._registry)
        if entry.kind == "item" or entry.kind in BREAKING:
            self._changed = entry.seq
        elif entry.thread != self._view.thread:
            return  # The requests of its ancestors stand in their ledgers.
        elif entry.kind == "request":
            await self._record(entry)
        elif entry.kind == "response":
            mark = entry.control
            if isinstance(mark, ResponseMark) and mark.usage is not None:
                await self._index.record_usage(self._view.thread, mark.request, mark.usage)

    async def _record(self, entry: Entry) -> None:
        mark = entry.control
        if not isinstance(mark, RequestMark) or self._view.head is None:
            return
        request = await self._render(mark.upto)
        self.requests += 1
        if request.digest != mark.digest:
            self.differing.append(entry.seq)
        await self._ledger.record(request, entry)

    async def _render(self, upto: int) -> Request:
        if self._changed <= upto:
            return self._renderer.render(self._view)
        # Something was appended after the request was made and before it was noted.
        thread = self._view.thread
        return Renderer().render(await load_view(self._store, thread, self._registry, upto=upto))
