"""Requests in the log: what is sent to a model, and what answers it.

Owns the request and response entries of one thread, its ledger, and how full the window is.
Invariant: a request has its entry, with its digest, before the first byte of it is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import msgspec

from ..context.compose import change_of_head, missing_outputs, opening_drafts
from ..context.ledger import Ledger
from ..context.preview import preview
from ..context.request import HEAD_SEGMENTS, Renderer, Request
from ..context.view import View
from ..core.entries import CompletionMark, Entry, RequestMark, ResponseMark, control_draft
from ..core.errors import StaleEpoch
from ..core.items import Item
from ..core.redact import blank_value
from ..core.text import approx_tokens
from ..core.usage import TokenUsage
from ..prompt.input import user_message
from ..store.contract import Change, LedgerRow, TurnEnd
from .calibration import learn

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
        self._counted: tuple[int, int] | None = None
        """Tokens that the provider counted, and the rows they cover."""
        self._head_size = 0
        self._newest_entry = 0
        self.newest: LedgerRow | None = None
        """The newest request that this writer has sent."""
        self.usage: TokenUsage | None = None
        """What the provider counted for its newest answer."""

    @property
    def occupied(self) -> int:
        """Tokens of the window in use: as counted by the provider, and estimated since."""
        view = self._log.view
        if self._counted is None:
            return self.head_tokens + view.tokens
        counted, rows = self._counted
        return counted + sum(row.tokens for row in view.rows[rows:])

    @property
    def head_tokens(self) -> int:
        """Tokens of everything but items, as the newest request had them."""
        return approx_tokens(self._head_size)

    def forget_count(self) -> None:
        """Go back to estimates: the view that the provider counted is gone."""
        self._counted = None

    def render(self) -> Request:
        """Return the request that would be sent now, byte for byte."""
        return self._renderer.render(self._log.view)

    async def preview(self, text: str) -> tuple[View, Request]:
        """Return what would be sent if `text` were admitted now. Writes nothing."""
        log = self._log
        states = log.snapshots(await log.setup.observe())
        drafts = opening_drafts(log.view, log.registry, states, user_message(text))
        head = await log.setup.head(log.view.head)
        reason = change_of_head(log.view.head, head)
        missing = missing_outputs(log.view)
        drafts = blank_value((*missing, *drafts))
        return preview(log.view, head, drafts, log.registry, reason=reason)

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
        self._head_size = sum(part.size for part in request.segments[:HEAD_SEGMENTS])
        return entry

    async def note_completion(self, request: Request, purpose: str) -> None:
        """Note that a request outside the conversation goes out, as `note` does for the others."""
        mark = CompletionMark(
            upto=request.upto,
            epoch=request.epoch,
            digest=request.digest,
            size=len(request.body),
            items=request.items,
            purpose=purpose,
        )
        await self._commit_note(mark)

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
        calibrates: bool = True,
    ) -> tuple[Entry, ...]:
        """Record what answered the last request, in one transaction.

        With `end` the turn ends with it. What was counted for a request that others have
        put more into says nothing about our estimates: it does not calibrate.
        """
        log = self._log
        estimated = log.view.tokens + self.head_tokens
        mark = ResponseMark(self._newest_entry, status, response_id, usage, error)
        entries = (
            *log.drafts(items, log.origin),
            control_draft(mark, turn=log.turn, step=log.step),
        )
        committed = await log.commit(Change(entries=entries, end=end, outbox=log.end_rows(end)))
        if usage is not None:
            self._counted, self.usage = (usage.total_tokens, len(log.view.rows)), usage
            await log.index.record_usage(log.id, self._newest_entry, usage)
            if calibrates:
                learnt = partial(learn, estimated=estimated, reported=usage.input_tokens)
                await log.index.calibrate(log.setup.model, learnt)
        return committed.entries
