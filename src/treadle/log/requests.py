"""Requests in the log: what is sent to a model, and what answers it.

Owns the request and response entries of one thread, its ledger, and how full the window is.
Invariant: a request has its entry, with its digest, before the first byte of it is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from ..context.ledger import Ledger
from ..context.request import Renderer, Request
from ..core.entries import (
    CompletionMark,
    Entry,
    Origin,
    RequestMark,
    ResponseMark,
    control_draft,
)
from ..core.errors import StaleEpoch, StoreError
from ..core.items import Item
from ..core.text import approx_tokens
from ..core.typed import decode_json
from ..core.usage import TokenUsage
from ..prompt.state_fragment import Known
from ..prompt.window_use import WindowUse, WindowUseState, window_level
from ..store.contract import Change, ChangeResult, LedgerRow, TurnEnd
from ..store.counted_usage import RequestUsage

if TYPE_CHECKING:
    from .thread_log import ThreadLog

__all__ = ["Requests", "ResponseStatus"]

ResponseStatus = Literal["completed", "failed", "interrupted"]


class Requests:
    """The requests of one thread."""

    def __init__(self, log: ThreadLog) -> None:
        self._log = log
        self._renderer = Renderer()
        self._ledger = Ledger(log.id, log.store, log.index, log.view.upto == 0)
        self._may_miss_rows = log.view.upto > 0
        """There was a log before; a crash may have kept its last requests out of the ledger."""
        self._newest_entry = 0
        self.newest: LedgerRow | None = None
        """The newest request that this writer has sent."""
        self.usage = log.view.count.usage if log.view.count else None
        """What the provider counted for its newest answer."""
        self.answered: list[RequestUsage] = []
        """What the answers of the newest turn used that were recorded here."""

    @property
    def occupied(self) -> int:
        """Tokens of the window in use: as counted by the provider, and estimated since."""
        view = self._log.view
        if view.count is None:
            return self.head_tokens + view.tokens
        since = sum(row.tokens for row in view.rows[view.count.rows :])
        return view.count.usage.total_tokens + since

    @property
    def window_level(self) -> int:
        """The step in which the use of the window is told; it never falls within a base."""
        told = self._log.view.baselines.get(WindowUseState.id)
        known = decode_json(told.snapshot, WindowUse | None) if isinstance(told, Known) else None
        level = window_level(self.occupied, self._log.setup.profile.effective_window)
        return max(level, known.percent if known is not None else 0)

    @property
    def head_tokens(self) -> int:
        """Tokens of everything but items, estimated; 0 before the first request."""
        return approx_tokens(self._renderer.head_size(self._log.view))

    def render(self) -> Request:
        """Return the request that would be sent now, byte for byte."""
        return self._renderer.render(self._log.view)

    async def record(self, request: Request) -> LedgerRow:
        """Note that `request` goes out, and compare it with the last one.

        Raises `StaleEpoch` when the epoch it was rendered in has ended.
        """
        return await self.compare(request, await self.note(request))

    async def note(self, request: Request) -> Entry:
        """Note that `request` goes out; the note survives this process when it returns.

        Raises `StaleEpoch` when the epoch it was rendered in has ended.
        """
        log = self._log
        if request.epoch != log.view.epoch:
            raise StaleEpoch(
                f"the request was rendered in epoch {request.epoch}, thread {log.id!r} is at "
                f"{log.view.epoch}; render it again"
            )
        log.step += 1
        await self._complete_ledger()
        mark = RequestMark(
            upto=request.upto,
            epoch=request.epoch,
            digest=request.digest,
            size=len(request.body),
            items=request.items,
        )
        entry = await self._commit_note(mark)
        self._newest_entry = entry.seq
        return entry

    async def note_completion(self, request: Request, purpose: str) -> Entry:
        """Note that a request outside the conversation goes out, as `note` does for the others."""
        mark = CompletionMark(
            upto=request.upto,
            epoch=request.epoch,
            digest=request.digest,
            size=len(request.body),
            items=request.items,
            purpose=purpose,
        )
        return await self._commit_note(mark)

    async def record_completion(
        self,
        note: Entry | None,
        purpose: str,
        *,
        origin: Origin,
        status: ResponseStatus = "completed",
        usage: TokenUsage | None = None,
    ) -> None:
        """Record how a request outside the conversation ended, and who answered it.

        What cannot be written is lost: the answer counts for more than its price.
        """
        mark = ResponseMark(note.seq if note else 0, status, usage=usage, purpose=purpose)
        draft = control_draft(mark, turn=self._log.turn, step=self._log.step)
        draft = msgspec.structs.replace(draft, origin=origin)
        with suppress(StoreError):
            done = await self._log.commit(Change(entries=(draft,), light=True))
            self._count(done.entries[-1], mark)

    def _count(self, entry: Entry, mark: ResponseMark) -> None:
        """Keep what an answer used, for the end of the turn."""
        if mark.usage is None and mark.status == "failed":
            return  # nobody charges for what was refused
        if self.answered and self.answered[-1].turn != entry.turn:
            self.answered.clear()
        head, origin = self._log.view.head, entry.origin or self._log.origin
        if head and (head.provider, head.model) != (origin.provider, origin.model):
            head = None  # another model wrote a summary, in terms of its own
        self.answered.append(
            RequestUsage(
                thread=self._log.id,
                seq=entry.seq,
                turn=entry.turn,
                time=entry.time,
                provider=origin.provider,
                model=origin.model,
                service_tier=head.service_tier if head else None,
                cache_ttl=head.cache_ttl if head else None,
                purpose=mark.purpose,
                usage=mark.usage,
            )
        )

    async def _commit_note(self, mark: RequestMark | CompletionMark) -> Entry:
        # A request that a loss of power makes unheard-of is asked again; nothing was done yet.
        change = msgspec.structs.replace(self._log.control_change(mark), light=True)
        (entry,) = (await self._log.commit(change)).entries
        return entry

    async def compare(self, request: Request, entry: Entry) -> LedgerRow:
        """Give the ledger a request that was noted, compared with the one before."""
        self.newest = await self._ledger.record(request, entry)
        return self.newest

    async def _complete_ledger(self) -> None:
        """Give the ledger the requests that a crash kept out of it, once."""
        if self._may_miss_rows:
            from ..context.rebuild import catch_up

            await catch_up(self._ledger, self._log.registry)
            self._may_miss_rows = False

    async def record_answer(
        self,
        items: Sequence[Item],
        *,
        status: ResponseStatus = "completed",
        usage: TokenUsage | None = None,
        response_id: str | None = None,
        error: str | None = None,
        end: TurnEnd | None = None,
    ) -> ChangeResult:
        """Record what answered the last request, in one transaction.

        With `end` the turn ends with it, unless an input waits that the turn can still answer:
        then nothing is written, and the result is held back.
        """
        log = self._log
        mark = ResponseMark(self._newest_entry, status, response_id, usage, error)
        entries = (
            *log.drafts(items, log.origin),
            control_draft(mark, turn=log.turn, step=log.step),
        )
        committed = await log.commit(
            Change(
                entries=entries,
                end=end,
                outbox=log.end_rows(end),
                unless_input=end is not None,
            )
        )
        if committed.held_back:
            return committed
        self._count(committed.entries[-1], mark)
        if usage is not None:
            self.usage = usage
            await log.index.record_usage(log.id, self._newest_entry, usage)
        return committed
