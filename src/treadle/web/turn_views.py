"""Turns as the inspector shows them: what was asked, how it went, what it cost.

Owns what is told of a turn besides its row. Invariant: a page of turns reads the control
entries of those turns, and no bodies of items unless their answers are asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from ..config.settings import Price
from ..core.entries import Entry, Flags, Head, ResponseMark
from ..core.errors import NotFound, StoreError
from ..core.items import Message, decode_item, text_of
from ..core.money import Bill, Cost
from ..log.bills import cost_of
from ..store.contract import Turn
from ..store.counted_usage import RequestUsage
from .api_answers import page_of
from .endings import find_ending
from .inspected_home import ShownHome
from .ledger_views import ShownLedger

__all__ = ["ShownTurns"]

_TEXT = 400
_FEW = 8
"""Entries at the start of a turn among which its input is looked for."""
_MOST_ANSWERS = 2_000
"""Answers that one page of turns reads; the steps and costs of turns behind them are not told."""


class _Facts(Struct):
    """What the answers of a turn say."""

    steps: int = 0
    costs: list[Cost | None] = field(default_factory=list)
    model: str | None = None
    head: Head | None = None
    """The head in force, for answers to requests that nobody noted."""


class ShownTurns:
    """Tells about the turns of threads."""

    def __init__(self, home: ShownHome, ledger: ShownLedger) -> None:
        self._home, self._ledger = home, ledger

    async def page(
        self, thread: str, before: int | None, limit: int, *, answers: bool = False
    ) -> dict[str, Any]:
        """Return the newest turns with a number below `before`, oldest first.

        With `answers` also how each ended, for which a few of its items are read.
        """
        info = await self._home.thread(thread)
        turns = await self._home.store.turn_page(info.id, before=before, limit=limit)
        following = await self._next_first(info.id, turns, info.last)
        facts = await self._facts(info.id, turns)
        shown = []
        for turn, after in zip(turns, following, strict=True):
            told = await self._turn(info.id, turn, after - 1, facts.get(turn.number))
            shown.append({**told, **await self._ending(info.id, told)} if answers else told)
        more = bool(turns) and turns[0].number > 1
        return {"turns": shown, "next": turns[0].number if more else None, "total": info.turns}

    async def _next_first(self, thread: str, turns: Sequence[Turn], last: int) -> list[int]:
        """Return where the turn after each of `turns` begins."""
        if not turns:
            return []
        try:
            newest = (await self._home.store.turn(thread, turns[-1].number + 1)).first
        except NotFound:
            newest = last + 1
        return [*(turn.first for turn in turns[1:]), newest]

    async def _facts(self, thread: str, turns: Sequence[Turn]) -> dict[int, _Facts]:
        facts: dict[int, _Facts] = defaultdict(_Facts)
        if not turns:
            return facts
        numbers = {turn.number for turn in turns}
        epochs = await self._epochs(thread, turns[0].first)
        answers = await self._home.store.read_kinds(
            thread, {"response"}, turns[0].first, limit=_MOST_ANSWERS
        )
        for entry in answers:
            if entry.turn > turns[-1].number:
                break
            mark = _mark(entry)
            if entry.turn in numbers and mark is not None:
                head = await self._head(thread, facts[entry.turn], entry, epochs.get(mark.request))
                _add(facts[entry.turn], entry, mark, head, self._home.prices)
        return facts

    async def _epochs(self, thread: str, first: int) -> dict[int, int]:
        """Return the epochs of the requests behind an entry, by the requests' entries."""
        index = self._home.index
        row = await index.request_after(thread, first - 1)
        if row is None:
            return {}
        rows = await index.request_page(thread, row.number, row.number + _MOST_ANSWERS)
        return {each.seq: each.epoch for each in rows}

    async def _head(
        self, thread: str, facts: _Facts, entry: Entry, epoch: int | None
    ) -> Head | None:
        """Return the head of an answer's request; where nobody noted it, that of its turn."""
        if epoch is not None:
            return (await self._ledger.prefix(thread, epoch)).head
        if facts.head is None:
            facts.head = await self._ledger.head_at(thread, entry.seq)
        return facts.head

    async def _turn(
        self, thread: str, turn: Turn, last: int, facts: _Facts | None
    ) -> dict[str, Any]:
        return {
            "number": turn.number,
            "id": turn.id,
            "state": turn.state,
            "admitted": turn.admitted,
            "ended": turn.ended,
            "first": turn.first,
            "last": last,
            "steps": facts.steps if facts else None,
            "text": page_of(await self._read_words(thread, turn), 0, _TEXT).text,
            "usage": turn.usage,
            "cost": Bill.of(facts.costs) if facts and facts.costs else None,
            "outcome": turn.outcome,
            "model": facts.model if facts else None,
        }

    async def _ending(self, thread: str, told: dict[str, Any]) -> dict[str, Any]:
        """Return what is told of how a turn ended."""
        ending = await find_ending(self._home.store, thread, told["first"], told["last"])
        return {"answer": page_of(ending.answer, 0, _TEXT).text, "harness": ending.harness}

    async def _read_words(self, thread: str, turn: Turn) -> str:
        """Return what was asked, as its sender wrote it."""
        if said := _words(bytes(turn.input)):
            return said
        # An imported turn has its input in the log alone.
        for entry in await self._home.store.read(thread, turn.first, limit=_FEW):
            if entry.turn == turn.number and entry.kind == "item":
                sent = not entry.has_flag(Flags.CONTEXTUAL)
                if sent and (said := _words(entry.body)):
                    return said
        return ""


def _add(
    facts: _Facts,
    entry: Entry,
    mark: ResponseMark,
    head: Head | None,
    prices: Mapping[str, Price],
) -> None:
    facts.steps = max(facts.steps, entry.step)
    origin = entry.origin
    provider = (origin.provider if origin else "") or (head.provider if head else "")
    model = (origin.model if origin else "") or (head.model if head else "")
    if not mark.purpose:
        facts.model = f"{provider}:{model}" if model else facts.model
    if mark.usage is None and mark.status == "failed":
        return  # nobody charges for what was refused
    used = RequestUsage(
        thread=entry.thread,
        seq=entry.seq,
        time=entry.time,
        provider=provider,
        model=model,
        service_tier=head.service_tier if head else None,
        cache_ttl=head.cache_ttl if head else None,
        usage=mark.usage,
    )
    facts.costs.append(cost_of(used, prices))


def _words(body: bytes) -> str:
    try:
        item = decode_item(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    return text_of(item.content) if isinstance(item, Message) and item.role == "user" else ""


def _mark(entry: Entry) -> ResponseMark | None:
    try:
        control = entry.control
    except StoreError:
        return None
    return control if isinstance(control, ResponseMark) else None
