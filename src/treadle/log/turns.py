"""Turns in the log: how they are admitted, opened and ended, and what a crash left open.

Owns the first and the last entries of a turn. Invariant: an input is admitted once, whatever
happens to its writer, and every call of a turn gets exactly one result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from ..context.compose import inbox_draft, missing_outputs, opening_drafts
from ..core.entries import Draft, Entry
from ..core.ids import new_id
from ..core.items import Message, encode_item
from ..core.provenance import InputProvenance, InternalEvent
from ..core.usage import TokenUsage
from ..core.wire import Json
from ..prompt.announcements import TurnAborted
from ..prompt.input import user_message
from ..prompt.prompt_context import PromptContext
from ..store.contract import (
    ENDED_STATES,
    THIS_TURN,
    Admission,
    Change,
    InboxMessage,
    OutboxDraft,
    Turn,
    TurnEnd,
    TurnState,
)
from .staging import answer_drafts, staged_outputs
from .turn_input import TurnInput

if TYPE_CHECKING:
    from ..context.preview import NextRequest
    from .thread_log import ThreadLog

__all__ = ["Turns"]

_OPENING_ENTRIES = 1_000
"""Within so many entries after its admission, a turn's input stands."""


class Turns:
    """The turns of one thread."""

    def __init__(self, log: ThreadLog) -> None:
        self._log = log
        self._unrecovered = log.view.upto
        """The newest entry that a crash may have left behind; 0 once it was looked at."""

    async def admit(
        self,
        message: str | Message | TurnInput,
        *,
        turn_id: str | None = None,
        context: PromptContext | None = None,
        provenance: InputProvenance | None = None,
        events: Sequence[InternalEvent] = (),
    ) -> Turn:
        """Admit an input and open its turn, in one transaction.

        The same `turn_id` with the same input is admitted once, also after a crash;
        calls that a crash left open are then answered, for nobody else will.
        `context` is what fragments see; by default the machine is looked at.
        """
        await self.recover()
        given = message
        if not isinstance(given, TurnInput):
            given = user_message(given) if isinstance(given, str) else given
            given = TurnInput(message=given, provenance=provenance, events=tuple(events))
        context = context or await self._log.setup.observe()
        async with self._log.writing:
            entries = await self._opening_drafts(given, context)
            turn, opened = await self._admit(given.message, turn_id, entries, _numbers(given.mail))
        if not opened:
            await self.open(turn, given, context=context)
        return turn

    async def reserve(self, message: Message, *, turn_id: str | None = None) -> tuple[Turn, bool]:
        """Make an input durable before its turn is opened; whether it has been opened before."""
        await self.recover()
        async with self._log.writing:
            return await self._admit(message, turn_id)

    async def open(
        self,
        turn: Turn,
        given: TurnInput,
        *,
        context: PromptContext | None = None,
        light: bool = False,
    ) -> None:
        """Append what changed since, and the input with what stands around it.

        It is `light` where nobody hears of it but by a request that is noted, too: the input
        itself is on the disk.
        """
        context = context or await self._log.setup.observe()
        async with self._log.writing:
            entries = tuple(
                msgspec.structs.replace(draft, turn=turn.number)
                if draft.turn == THIS_TURN
                else draft
                for draft in await self._opening_drafts(given, context)
            )
            await self._log.write(Change(entries=entries, take=_numbers(given.mail), light=light))

    async def preview(
        self, given: TurnInput, context: PromptContext, *, with_input: bool = True
    ) -> NextRequest:
        """Return the first request of a turn that would be opened now; nothing is written.

        Without its input, it shows the context only.
        """
        from ..context.preview import preview

        log = self._log
        answers, _ = await self._answers(log.view.upto)
        drafts = (*answers, *self._context_and_input(given, context))
        drafts += tuple(inbox_draft(mail, log.registry, THIS_TURN, 0) for mail in await log.inbox())
        if not with_input:
            said = encode_item(given.message)
            drafts = tuple(draft for draft in drafts if draft.body != said)
        return preview(log.view, await log.setup.head(log.view.head), drafts, log.registry)

    async def _opening_drafts(self, given: TurnInput, context: PromptContext) -> tuple[Draft, ...]:
        head = await self._log.epochs.head_drafts()
        drafts = self._context_and_input(given, context)
        return (*missing_outputs(self._log.view), *head, *drafts)

    def _context_and_input(self, given: TurnInput, context: PromptContext) -> tuple[Draft, ...]:
        """Return what changed since, then the input with what stands around it."""
        log = self._log
        states = log.snapshots(context)
        ahead = (log.fragment_draft(fragment, turn=THIS_TURN) for fragment in given.ahead)
        rest = (inbox_draft(message, log.registry, THIS_TURN, 0) for message in given.mail[1:])
        drafts = opening_drafts(
            log.view,
            log.registry,
            {name: state for name, state in states.items() if name not in given.untold},
            given.message,
            provenance=given.provenance,
            events=given.events,
            problems=context.agents_docs.problems if context.agents_docs else (),
            before=(*ahead, *given.before),
            after=(*rest, *given.after),
        )
        added = (log.fragment_draft(fragment, turn=THIS_TURN) for fragment in given.behind)
        return (*drafts, *added)

    async def _admit(
        self,
        message: Message,
        turn_id: str | None,
        entries: tuple[Draft, ...] = (),
        take: tuple[int, ...] = (),
    ) -> tuple[Turn, bool]:
        """Return the turn, and whether its input is in the log."""
        log = self._log
        admission = Admission(id=turn_id or new_id("turn"), input=Raw(encode_item(message)))
        rows = (each.rows_on_admission(admission) for each in log.followers)
        outbox = tuple(row for each in rows for row in each)
        committed = await log.write(
            Change(admit=admission, entries=entries, outbox=outbox, take=take)
        )
        turn = committed.turn
        assert turn is not None
        if committed.repeated:
            return turn, await self.was_opened(turn)
        log.turn, log.step = turn.number, 0
        return turn, bool(entries)

    async def was_opened(self, turn: Turn) -> bool:
        """Return whether a turn that was admitted before got as far as its input."""
        if turn.state in ENDED_STATES:
            return True
        log = self._log
        entries = await log.store.read(log.id, turn.first, limit=_OPENING_ENTRIES)
        return any(entry.kind == "item" and entry.turn == turn.number for entry in entries)

    async def recover(self) -> tuple[Entry, ...]:
        """Answer the calls that a crash left open: with what was staged, else as unknown.

        Looks only at what was there when the thread was opened, and only once.
        """
        entries = await self.answer_open_calls(self._unrecovered) if self._unrecovered else ()
        self._unrecovered = 0
        return entries

    async def answer_open_calls(self, upto: int | None = None) -> tuple[Entry, ...]:
        """Answer every open call, up to entry `upto`, for nobody else will any more."""
        log = self._log
        drafts, done = await self._answers(log.view.upto if upto is None else upto)
        if not drafts and not done:
            return ()
        entries = (await log.commit(Change(entries=drafts, settle=done))).entries
        log.forget_staged()
        return entries

    async def _answers(self, upto: int) -> tuple[tuple[Draft, ...], tuple[int, ...]]:
        """Return an answer to every open call up to entry `upto`, and the rows that waited."""
        log = self._log
        calls = [call for call in log.view.open_calls if (call.seq or 0) <= upto]
        waiting = await staged_outputs(log.store, log.id)
        drafts = answer_drafts(calls, waiting, log.setup.truncation)
        return drafts, tuple(row.number for row in waiting.values())

    async def finish(
        self,
        state: TurnState = "completed",
        *,
        outcome: Json | None = None,
        usage: TokenUsage | None = None,
        outbox: Sequence[OutboxDraft] = (),
    ) -> None:
        """End the turn; the rows of `outbox` become durable with its end."""
        log = self._log
        end = TurnEnd(number=log.turn, state=state, outcome=outcome, usage=usage)
        await log.commit(Change(end=end, outbox=(*log.end_rows(end), *outbox)))

    async def abort(self, turn: Turn) -> None:
        """End a turn that was broken off; the model hears of it where it has seen the input."""
        log = self._log
        log.turn = turn.number
        if await self.was_opened(turn):
            await log.say(TurnAborted())
        await self.finish("aborted")


def _numbers(mail: Sequence[InboxMessage]) -> tuple[int, ...]:
    return tuple(message.number for message in mail)
