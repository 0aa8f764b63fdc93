"""The ledger as the inspector shows it: requests, their answers, what they cost.

Owns what is told of a request besides its ledger row. Invariant: a page of requests costs a
page of the log, wherever in the thread it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..context.view import load_head
from ..core.entries import BREAKING, Entry, Epoch, Head, ResponseMark, Rollback
from ..core.errors import NotFound, StoreError
from ..core.usage import TokenUsage
from ..log.bills import cost_of
from ..store.contract import LedgerRow
from ..store.counted_usage import RequestUsage
from .inspected_home import Remembered, ShownHome

__all__ = ["Prefix", "ShownLedger"]

_FAR = 2_000
"""Entries behind a request among which its answer is looked for."""


class Prefix(Struct, frozen=True):
    """What an epoch began with."""

    reason: str
    head: Head | None


class ShownLedger:
    """Tells about the requests of threads."""

    def __init__(self, home: ShownHome) -> None:
        self._home = home
        self._prefixes: Remembered[tuple[str, int], Prefix] = Remembered(1_000)

    async def rows(self, thread: str, rows: Sequence[LedgerRow]) -> list[dict[str, Any]]:
        """Return what is told of these requests, which follow one another."""
        if not rows:
            return []
        answers = await self._answers(thread, rows)
        before = await self._home.index.request_page(thread, rows[0].number - 1, rows[0].number - 1)
        shown = []
        for row in rows:
            shown.append(await self._row(row, before[-1] if before else None, answers.get(row.seq)))
            before = [row]
        return shown

    async def number_requests(self, thread: str, shown: Sequence[dict[str, Any]]) -> None:
        """Give the entries of requests and of their answers the numbers of those requests."""
        asked = {_request_of(each): each for each in shown if _request_of(each)}
        if not asked:
            return
        row = await self._home.index.request_after(thread, min(asked) - 1)
        if row is None:
            return
        rows = await self._home.index.request_page(thread, row.number, row.number + len(shown))
        numbers = {each.seq: each.number for each in rows}
        for each in shown:
            if (number := numbers.get(_request_of(each))) is not None:
                each["view"]["request_number"] = number

    async def apart(self, thread: str, rows: Sequence[LedgerRow]) -> list[dict[str, Any]]:
        """Return what is told of requests that lie anywhere."""
        return [each for row in rows for each in await self.rows(thread, [row])]

    async def _row(
        self, row: LedgerRow, before: LedgerRow | None, answer: Entry | None
    ) -> dict[str, Any]:
        prefix = await self.prefix(row.thread, row.epoch)
        head = prefix.head
        mark = _mark(answer)
        usage = mark.usage if mark is not None else None
        return {
            **msgspec.structs.asdict(row),
            "epoch_reason": prefix.reason,
            "model": f"{head.provider}:{head.model}" if head else None,
            "status": mark.status if mark else None,
            "error": mark.error if mark else None,
            "purpose": mark.purpose if mark else "",
            "output_tokens": usage.output_tokens if usage else None,
            "reasoning_tokens": usage.reasoning_output_tokens if usage else None,
            "written_tokens": usage.cache_write_input_tokens if usage else None,
            "expected_cached_tokens": _expected_cached(row, before),
            "latency": answer.time - row.time if answer is not None else None,
            "cost": self._cost(row, head, usage, answer),
        }

    def _cost(
        self, row: LedgerRow, head: Head | None, usage: TokenUsage | None, answer: Entry | None
    ) -> Any:
        if head is None or usage is None or answer is None:
            return None
        used = RequestUsage(
            thread=row.thread,
            seq=answer.seq,
            time=answer.time,
            provider=head.provider,
            model=head.model,
            service_tier=head.service_tier,
            cache_ttl=head.cache_ttl,
            usage=usage,
        )
        return cost_of(used, self._home.prices)

    async def prefix(self, thread: str, epoch: int) -> Prefix:
        """Return what an epoch began with; its head is its own or an earlier one's."""
        if (known := self._prefixes.get((thread, epoch))) is not None:
            return known
        reason, digest = "", None
        entries = await self._home.store.read_kinds_back(
            thread, BREAKING, epoch, first=max(epoch - _FAR, 1), limit=32
        )
        hidden = epoch + 1
        for entry in entries:
            if entry.seq >= hidden:
                continue
            control = _control(entry)
            if isinstance(control, Rollback):
                hidden = control.cut
            if entry.seq == epoch:
                reason = control.reason.value if isinstance(control, Epoch) else "rollback"
            if isinstance(control, Epoch) and control.head is not None:
                digest = control.head
                break
        if digest is None:
            digest = await self._earlier_head(thread, hidden - 1)
        prefix = Prefix(reason, await self._head(digest))
        return self._prefixes.put((thread, epoch), prefix)

    async def head_at(self, thread: str, seq: int) -> Head | None:
        """Return the head that was in force at an entry."""
        found = await self._home.store.read_kinds_back(thread, BREAKING, seq, limit=1)
        return (await self.prefix(thread, found[0].seq)).head if found else None

    async def _earlier_head(self, thread: str, last: int) -> str | None:
        """Return the newest head before an entry, however far back."""
        for entry in await self._home.store.read_kinds_back(thread, {"epoch"}, last, limit=64):
            control = _control(entry)
            if isinstance(control, Epoch) and control.head is not None:
                return control.head
        return None

    async def _head(self, digest: str | None) -> Head | None:
        if digest is None:
            return None
        try:
            return await load_head(self._home.store, digest)
        except (NotFound, StoreError, msgspec.MsgspecError):
            return None

    async def _answers(self, thread: str, rows: Sequence[LedgerRow]) -> dict[int, Entry]:
        """Return the entries in which these requests ended, by the requests'."""
        wanted = {row.seq for row in rows}
        found: dict[int, Entry] = {}
        first, last = rows[0].seq + 1, rows[-1].seq + _FAR
        page = await self._home.store.read_kinds(
            thread, {"response"}, first, limit=2 * len(rows) + 16
        )
        for entry in page:
            mark = _mark(entry)
            if entry.seq <= last and mark is not None and mark.request in wanted:
                found[mark.request] = entry
        return found


def _expected_cached(row: LedgerRow, before: LedgerRow | None) -> int | None:
    """Return how many tokens a cache could have served: the shared part, in what was counted.

    The tokens of a request are spread evenly over its bytes; so it is an estimate.
    """
    if before is None or row.input_tokens is None or not row.size:
        return 0 if before is None else None
    return row.input_tokens * row.shared_size // row.size


def _request_of(shown: dict[str, Any]) -> int:
    """Return the entry of the request that an entry is about; 0 for any other."""
    if shown["kind"] == "request":
        return int(shown["seq"])
    return int(shown["view"].get("request") or 0)


def _mark(entry: Entry | None) -> ResponseMark | None:
    control = _control(entry) if entry is not None else None
    return control if isinstance(control, ResponseMark) else None


def _control(entry: Entry) -> object:
    try:
        return entry.control
    except StoreError:
        return None
