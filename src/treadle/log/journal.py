"""The journal: the writing side of one thread.

Owns how inputs, answers and outputs become entries, and what a crash left open.
Invariant: nothing is acted upon before the entry that says so is durable.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

import msgspec
from msgspec import Raw, field

from ..context.compose import (
    change_of_head,
    missing_outputs,
    opening,
    posted,
    recordable,
    retelling,
)
from ..context.ledger import Ledger
from ..context.request import HEAD_SEGMENTS, Renderer, Request
from ..context.view import View
from ..core.entries import Draft, Entry, Origin, RequestMark, ResponseMark, control_draft
from ..core.errors import NotFound, StaleEpoch
from ..core.ids import new_id
from ..core.items import Item, Message, encode_item
from ..core.provenance import InputProvenance, InternalEvent
from ..core.service import later
from ..core.text import approx_tokens
from ..core.usage import TokenUsage
from ..core.wire import Json
from ..prompt.events import TurnAborted
from ..prompt.fragment import Fragment
from ..prompt.input import user_message
from ..prompt.observation import PromptContext
from ..prompt.tell import take_snapshots
from ..store.contract import (
    THIS_TURN,
    Admission,
    Change,
    InboxMessage,
    LedgerRow,
    OutboxDraft,
    Turn,
    TurnEnd,
    TurnState,
)
from .pen import Pen
from .staging import ToolOutput, answers, settled, stage, staged
from .turn_input import TurnInput

__all__ = ["Journal", "ResponseStatus"]


ResponseStatus = Literal["completed", "failed", "interrupted"]

_ENDED = frozenset({"completed", "failed", "aborted"})
_OPENING_ENTRIES = 1_000
"""Within so many entries after its admission, a turn's input stands."""


class Journal(Pen):
    """A conversation that this process writes.

    `admit` an input, look at the `request` it makes, say that it was `sent`, record what was
    `received` and what tools put out (`append`), and `finish` the turn.
    """

    newest: LedgerRow | None = None
    """The newest request that this writer has sent."""
    usage: TokenUsage | None = None
    """What the provider counted for its newest answer."""
    _renderer: Renderer = field(default_factory=Renderer)
    _ledger: Ledger = later()
    _known: bool = later()
    """There was a log before; a crash may have kept its last requests out of the ledger."""
    _sent: int = 0
    _staged: int = 0
    _opened: int = later()
    _crashed: int = later()
    """The newest turn when the thread was opened; a crash may have left it open."""

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.id, self.store, self.index, self.view.upto == 0)
        self._opened, self._crashed = self.view.upto, self.turn
        self._known = bool(self._opened)

    async def admit(
        self,
        said: str | Message | TurnInput,
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
        given = said if isinstance(said, TurnInput) else _said(said, provenance, events)
        context = context or await self.observe()
        async with self._writing:
            entries = await self._opening(given, context)
            turn, begun = await self._admitted(given.said, turn_id, entries, _taken(given.mail))
        if not begun:
            await self.open_turn(turn, given, context=context)
        return turn

    async def reserve(self, said: Message, *, turn_id: str | None = None) -> tuple[Turn, bool]:
        """Make an input durable before its turn is opened; whether it has been opened before."""
        await self.recover()
        async with self._writing:
            return await self._admitted(said, turn_id)

    async def open_turn(
        self, turn: Turn, given: TurnInput, *, context: PromptContext | None = None
    ) -> None:
        """Append what changed since, and the input with what stands around it."""
        context = context or await self.observe()
        async with self._writing:
            entries = tuple(
                msgspec.structs.replace(draft, turn=turn.number)
                if draft.turn == THIS_TURN
                else draft
                for draft in await self._opening(given, context)
            )
            await self._write(Change(entries=entries, take=_taken(given.mail)))

    async def _opening(self, given: TurnInput, context: PromptContext) -> tuple[Draft, ...]:
        states = take_snapshots(self.registry, context)
        ahead = (self._spoken(fragment, turn=THIS_TURN) for fragment in given.ahead)
        drafts = opening(
            self.view,
            self.registry,
            {name: state for name, state in states.items() if name not in given.untold},
            given.said,
            provenance=given.provenance,
            events=given.events,
            problems=context.agents_docs.problems if context.agents_docs else (),
            before=(*ahead, *given.before),
            after=given.after,
        )
        rest = (posted(message, self.registry, THIS_TURN, 0) for message in given.mail[1:])
        added = (self._spoken(fragment, turn=THIS_TURN) for fragment in given.behind)
        return (*missing_outputs(self.view), *await self._new_head(), *drafts, *rest, *added)

    async def _admitted(
        self,
        said: Message,
        turn_id: str | None,
        entries: tuple[Draft, ...] = (),
        take: tuple[int, ...] = (),
    ) -> tuple[Turn, bool]:
        """The turn, and whether its input is in the log."""
        admission = Admission(id=turn_id or new_id("turn"), input=Raw(encode_item(said)))
        told = (each.admitted(admission) for each in self.followers)
        outbox = tuple(row for rows in told for row in rows)
        committed = await self._write(
            Change(admit=admission, entries=entries, outbox=outbox, take=take)
        )
        turn = committed.turn
        assert turn is not None
        if committed.repeated:
            await self._end_crashed()
            turn = await self.store.turn(self.id, turn.number)
            return turn, await self._was_opened(turn)
        self.turn, self.step = turn.number, 0
        await self._end_crashed()
        return turn, bool(entries)

    async def _was_opened(self, turn: Turn) -> bool:
        """Whether a turn that was admitted before got as far as its input."""
        if turn.state in _ENDED:
            return True
        entries = await self.store.read(self.id, turn.first, limit=_OPENING_ENTRIES)
        return any(entry.kind == "item" and entry.turn == turn.number for entry in entries)

    async def _end_crashed(self) -> None:
        """End the turns that crashes left open before the newest: nobody goes on with them."""
        number = min(self._crashed, self.turn - 1)
        if number == self._crashed:
            self._crashed = 0
        # A turn that a fork shares is its parent's to end.
        with suppress(NotFound):
            while number > 0 and (await self.store.turn(self.id, number)).state not in _ENDED:
                await self._write(Change(end=TurnEnd(number=number, state="aborted")))
                number -= 1

    async def preview(self, said: str) -> tuple[View, Request]:
        """What would be sent if `said` were admitted now. Writes nothing."""
        from ..context.preview import preview

        states = take_snapshots(self.registry, await self.observe())
        told = opening(self.view, self.registry, states, user_message(said))
        drafts = (*missing_outputs(self.view), *told)
        head = await self._wanted_head()
        reason = change_of_head(self.view.head, head)
        return preview(self.view, head, drafts, self.registry, reason=reason)

    def request(self) -> Request:
        """The request that would be sent now, byte for byte."""
        return self._renderer.render(self.view)

    async def sent(self, request: Request) -> LedgerRow:
        """Note that `request` goes out, and compare it with the last one.

        Raises `StaleEpoch` when the epoch it was rendered in has ended.
        """
        if request.epoch != self.view.epoch:
            raise StaleEpoch(
                f"the request was rendered in epoch {request.epoch}, thread {self.id!r} is at "
                f"{self.view.epoch}; render it again"
            )
        self.step += 1
        await self._catch_up()
        mark = RequestMark(
            upto=request.upto,
            epoch=request.epoch,
            digest=request.digest,
            size=len(request.body),
            items=request.items,
        )
        # A request that a loss of power makes unheard-of is asked again; nothing was done yet.
        noted = msgspec.structs.replace(self._says(mark), light=True)
        (entry,) = (await self._commit(noted)).entries
        self._sent = entry.seq
        self._head_size = sum(part.size for part in request.segments[:HEAD_SEGMENTS])
        self.newest = await self._ledger.record(request, entry)
        return self.newest

    async def _catch_up(self) -> None:
        """Give the ledger the requests that a crash kept out of it, once."""
        if self._known:
            from ..context.rebuild import catch_up

            await catch_up(self._ledger, self.registry)
            self._known = False

    async def received(
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
        from .calibration import learn

        estimated = self.view.tokens + self.head_tokens
        mark = ResponseMark(self._sent, status, response_id, usage, error)
        drafts = [self._draft(item, self.origin) for item in items if recordable(item)]
        marked = control_draft(mark, turn=self.turn, step=self.step)
        change = Change(entries=(*drafts, marked), end=end, outbox=self._following(end))
        committed = await self._commit(change)
        if usage is not None:
            self._counted, self.usage = (usage.total_tokens, len(self.view.rows)), usage
            await self.index.report(self.id, self._sent, usage)
            if calibrates:
                learnt = partial(learn, estimated=estimated, reported=usage.input_tokens)
                await self.index.calibrate(self.model, learnt)
        return committed.entries

    async def append(
        self, *items: Item, origin: Origin | None = None, light: bool = False
    ) -> tuple[Entry, ...]:
        """Record items of the present step, such as the outputs of tools.

        They are `light` where only a request is made of them before the next change.
        """
        drafts = tuple(self._draft(item, origin) for item in items if recordable(item))
        done: tuple[int, ...] = ()
        if self._staged:
            waiting = await staged(self.store, self.id)
            done = settled(items, self.turn, self.step, waiting)
        committed = await self._commit(Change(entries=drafts, settle=done, light=light))
        self._staged -= len(done)
        return committed.entries

    async def say(self, fragment: Fragment) -> tuple[Entry, ...]:
        """Tell the model something once, as the runtime."""
        draft = self._spoken(fragment, turn=self.turn, step=self.step)
        return (await self._commit(Change(entries=(draft,)))).entries

    async def retell(self, context: PromptContext, *names: str) -> None:
        """Tell what changed of some states since the turn began."""
        async with self._writing:
            seen = take_snapshots(self.registry, context)
            states = {name: seen[name] for name in names if name in seen}
            drafts = retelling(self.view, self.registry, states, self.turn, self.step)
            if drafts:
                await self._write(Change(entries=drafts))

    def _spoken(self, fragment: Fragment, *, turn: int, step: int = 0) -> Draft:
        draft = fragment.input_item(self.registry.vocabulary)
        tokens = approx_tokens(len(draft.body))
        return msgspec.structs.replace(draft, turn=turn, step=step, tokens=tokens)

    async def waiting(self) -> bool:
        """Whether others have left messages for this thread."""
        return bool(await self.mail())

    async def take_inbox(self, *numbers: int) -> int:
        """Append what others have left, in order; how many messages that were.

        With `numbers`, only those.
        """
        mail = await self.mail()
        messages = [each for each in mail if not numbers or each.number in numbers]
        where = self.registry, self.turn, self.step
        drafts = tuple(posted(message, *where) for message in messages)
        if drafts:
            await self._commit(Change(entries=drafts, take=_taken(messages)))
        return len(drafts)

    async def mail(self) -> list[InboxMessage]:
        """The messages that others have left, oldest first."""
        return [message for message in await self.store.inbox(self.id) if message.kind == "input"]

    async def stage(self, output: ToolOutput) -> None:
        """Make the output of a tool durable before its place in the log is free."""
        await self._commit(Change(outbox=(stage(output, self.turn, self.step),)))
        self._staged += 1

    async def unstage(self, output: ToolOutput) -> None:
        """Take back an output that was staged for the present step."""
        done = settled((output,), self.turn, self.step, await staged(self.store, self.id))
        await self._commit(Change(settle=done))
        self._staged -= len(done)

    async def recover(self) -> tuple[Entry, ...]:
        """Answer the calls that a crash left open: with what was staged, else as unknown.

        Looks only at what was there when the thread was opened, and only once.
        """
        entries = await self.answer_open(self._opened) if self._opened else ()
        self._opened = 0
        return entries

    async def answer_open(self, upto: int | None = None) -> tuple[Entry, ...]:
        """Answer every open call, up to entry `upto`, for nobody else will any more."""
        last = self.view.upto if upto is None else upto
        calls = [call for call in self.view.open_calls if (call.seq or 0) <= last]
        waiting = await staged(self.store, self.id)
        if not calls and not waiting:
            return ()
        drafts = answers(calls, waiting, self.profile.truncation)
        done = tuple(row.number for row in waiting.values())
        entries = (await self._commit(Change(entries=drafts, settle=done))).entries
        self._staged = 0
        return entries

    async def finish(
        self,
        state: TurnState = "completed",
        *,
        outcome: Json | None = None,
        usage: TokenUsage | None = None,
    ) -> None:
        """End the turn."""
        end = TurnEnd(number=self.turn, state=state, outcome=outcome, usage=usage)
        await self._commit(Change(end=end, outbox=self._following(end)))

    async def abort(self, turn: Turn) -> None:
        """End a turn that was broken off; the model hears of it where it has seen the input."""
        self.turn = turn.number
        if await self._was_opened(turn):
            await self.say(TurnAborted())
        await self.finish("aborted")

    def _following(self, end: TurnEnd | None) -> tuple[OutboxDraft, ...]:
        told = (each.ended(end) for each in self.followers) if end is not None else ()
        return tuple(row for rows in told for row in rows)


def _said(
    said: str | Message, provenance: InputProvenance | None, events: Sequence[InternalEvent]
) -> TurnInput:
    message = user_message(said) if isinstance(said, str) else said
    return TurnInput(said=message, provenance=provenance, events=tuple(events))


def _taken(mail: Sequence[InboxMessage]) -> tuple[int, ...]:
    return tuple(message.number for message in mail)
