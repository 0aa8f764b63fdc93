"""Threads as the inspector lists them.

Owns what is told of a thread besides its entries: its names, who writes it, what it was made
of, what it sent and cost. Invariant: what a list costs depends on its length, not on how long
its threads are; sums of a thread go on from where they were.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from ..context.view import load_head
from ..core.entries import Entry, Epoch, Head, Notice
from ..core.errors import NotFound, StoreError
from ..store.contract import Holder, LedgerRow, ThreadInfo
from ..store.json_views import thread_json
from ..store.pages import LedgerTotals
from ..store.thread_names import thread_name
from ..subagents.access import find_lineage
from ..subagents.records import Lineage
from .endings import find_ending
from .inspected_home import Remembered, ShownHome
from .spent import ThreadSpending

__all__ = ["ShownThreads", "living_holder"]

_OPENING = 32
_NOT_KNOWN = (
    "the bytes of its requests: they were sent by another program",
    "what its provider served from a cache for each request",
    "which settings and tools were in force, unless its file said so",
)
_RUNNING = frozenset({"admitted", "running"})


class _Made(Struct, frozen=True):
    """What never changes about a thread that has begun."""

    name: str
    lineage: Lineage | None
    imported: dict[str, Any] | None


class ShownThreads:
    """Tells about the threads of a home."""

    def __init__(self, home: ShownHome, spending: ThreadSpending) -> None:
        self._home, self._spending = home, spending
        self._made: Remembered[str, _Made] = Remembered(2_000)
        self._sums: Remembered[str, tuple[int, LedgerTotals]] = Remembered(2_000)
        self._heads: Remembered[str, Head] = Remembered(64)
        self._known: Remembered[str, tuple[object, dict[str, object]]] = Remembered(500)

    async def page(
        self, *, before: tuple[int, str] | None, cwd: str | None, limit: int
    ) -> dict[str, object]:
        """Return the threads written before `before`, the newest first."""
        found = await self._home.store.thread_page(before=before, cwd=cwd, limit=limit + 1)
        shown = await asyncio.gather(*(self.thread(info) for info in found[:limit]))
        last = found[limit - 1] if len(found) > limit else None
        return {"threads": shown, "next": f"{last.updated}-{last.id}" if last else None}

    async def thread(self, info: ThreadInfo) -> dict[str, object]:
        """Return what is told of one thread."""
        newest = await self._home.index.newest_row(info.id)
        facts = await self._facts(info, newest)
        figures = self._spending.figures(info)
        holder = living_holder((await self._home.store.holders([info.id])).get(info.id))
        return {
            **thread_json(info),
            **facts,
            "bytes": figures.bytes,
            "cost": figures.cost,
            "counting": figures.counting,
            "writer": holder,
            "running": holder is not None and await self._runs(info),
        }

    async def _facts(self, info: ThreadInfo, newest: LedgerRow | None) -> dict[str, object]:
        """Return what stays the same until a thread is written."""
        sent = (newest.number, newest.digest, newest.input_tokens) if newest else None
        state = info.updated, info.last, info.title, sent
        known = self._known.get(info.id)
        if known is not None and known[0] == state:
            return known[1]
        made = await self._what_it_is(info)
        epoch = await self._epoch(info, newest)
        head = await self._head(epoch)
        facts = {
            "name": info.title or made.name,
            "model": f"{head.provider}:{head.model}" if head else None,
            "harness": await self._harness(info),
            "engine": _engine(epoch),
            **totals_json(await self.totals(info.id, newest)),
            "indexed": newest is not None or not await self._has_requests(info),
            "imported": made.imported,
            "agent_of": made.lineage.parent if made.lineage else None,
            "nickname": made.lineage.nickname if made.lineage else None,
        }
        self._known.put(info.id, (state, facts))
        return facts

    async def whole(self, info: ThreadInfo) -> dict[str, object]:
        """Return what is told of one thread, with its family."""
        family = await self._home.store.family(info.id, limit=200)
        made = await self._what_it_is(info)
        return {
            **await self.thread(info),
            "family": [
                {
                    "id": each.id,
                    "parent": each.parent,
                    "cut": each.cut,
                    "name": each.title or (await self._what_it_is(each)).name,
                    "turns": each.turns,
                    "agent": (await self._what_it_is(each)).lineage is not None,
                }
                for each in family
            ],
            "what_is_not_known": list(_NOT_KNOWN) if made.imported else [],
        }

    async def totals(self, thread: str, newest: LedgerRow | None) -> LedgerTotals:
        """Return the sums over all requests of a thread; only new ones are read."""
        if newest is None:
            return LedgerTotals()
        # The newest may still get its usage.
        upto, known = self._sums.get(thread) or (0, LedgerTotals())
        if upto > newest.number - 1:
            upto, known = 0, LedgerTotals()  # it was rebuilt
        settled = _add_totals(known, await self._between(thread, upto, newest.number - 1))
        self._sums.put(thread, (newest.number - 1, settled))
        return _add_totals(settled, await self._home.index.totals(thread, after=newest.number - 1))

    async def _between(self, thread: str, after: int, last: int) -> LedgerTotals:
        if last <= after:
            return LedgerTotals()
        found = await self._home.index.buckets(thread, after + 1, last, 1)
        return found[0] if found else LedgerTotals()

    async def _what_it_is(self, info: ThreadInfo) -> _Made:
        if (made := self._made.get(info.id)) is not None:
            return made
        lineage = None
        with suppress(NotFound, StoreError):
            lineage = await find_lineage(self._home.store, info)
        opening = await self._home.store.read(info.id, 1, limit=_OPENING)
        name = await thread_name(self._home.store, msgspec.structs.replace(info, title=""))
        made = _Made(name, lineage, _import_facts(opening))
        return self._made.put(info.id, made) if info.turns else made

    async def _epoch(self, info: ThreadInfo, newest: LedgerRow | None) -> list[Epoch]:
        """Return the newest epochs; enough of them to find a head and an engine."""
        last = info.last
        if newest is not None and newest.epoch:
            found = await self._home.store.read_kinds_back(
                info.id, {"epoch"}, newest.epoch, first=max(newest.epoch - 512, 1), limit=8
            )
        else:
            first = max(last - 2_000, 1)
            found = await self._home.store.read_kinds_back(
                info.id, {"epoch"}, last, first=first, limit=8
            )
            opening = await self._home.store.read_kinds(info.id, {"epoch"}, 1, limit=1)
            found += [each for each in opening if each.seq < first]
        return [control for entry in found if isinstance(control := _control(entry), Epoch)]

    async def _head(self, epochs: list[Epoch]) -> Head | None:
        digest = next((each.head for each in epochs if each.head), None)
        if digest is None:
            return None
        if (head := self._heads.get(digest)) is not None:
            return head
        try:
            return self._heads.put(digest, await load_head(self._home.store, digest))
        except (NotFound, StoreError, msgspec.MsgspecError):
            return None

    async def _harness(self, info: ThreadInfo) -> str | None:
        """Return who ran the newest turn."""
        if not info.turns:
            return None
        return (await find_ending(self._home.store, info.id, 1, info.last)).harness

    async def _runs(self, info: ThreadInfo) -> bool:
        turns = await self._home.store.turn_page(info.id, limit=1)
        return bool(turns) and turns[0].state in _RUNNING

    async def _has_requests(self, info: ThreadInfo) -> bool:
        found = await self._home.store.read_kinds_back(
            info.id, {"request"}, info.last, first=max(info.last - 500, 1), limit=1
        )
        return bool(found) and found[0].thread == info.id


def living_holder(holder: Holder | None) -> Holder | None:
    """Return who writes a thread; None for a process of this machine that has died."""
    if holder is None or holder.host != socket.gethostname():
        return holder
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it runs, as somebody else
    return holder


def totals_json(totals: LedgerTotals) -> dict[str, object]:
    """Return sums under the names that a thread and a ledger have for them."""
    names = LedgerTotals.__struct_fields__
    return {name: getattr(totals, name) for name in names}


def _add_totals(one: LedgerTotals, other: LedgerTotals) -> LedgerTotals:
    sums = {
        name: _sum(getattr(one, name), getattr(other, name))
        for name in LedgerTotals.__struct_fields__
    }
    return LedgerTotals(**sums)


def _sum(one: int | None, other: int | None) -> Any:
    return one if other is None else other if one is None else one + other


def _engine(epochs: list[Epoch]) -> str | None:
    named = [each.projection.engine for each in epochs if each.projection is not None]
    return named[0] if named else "linear" if epochs else None


def _control(entry: Entry) -> object:
    try:
        return entry.control
    except StoreError:
        return None


def _import_facts(opening: list[Entry]) -> dict[str, Any] | None:
    """Return where a thread comes from whose first entries another program wrote."""
    if not any(entry.source_id is not None for entry in opening):
        return None
    notes = [control for entry in opening if isinstance(control := _control(entry), Notice)]
    harness = next((entry.origin.harness for entry in opening if entry.origin), "")
    said = next((note.text for note in notes if note.source == "import"), "")
    return {"from": harness or "another program", "note": said}
