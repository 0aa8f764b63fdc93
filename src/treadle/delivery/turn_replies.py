"""From an ended turn to the replies that it owes.

Invariants: a turn's row becomes the rows of its replies in one transaction, or stays; the
log is read backwards from the turn's end, and no further than its answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Container
from typing import Literal

from msgspec import Struct, structs

from ..core.entries import Entry, ResponseMark
from ..core.errors import NotFound, StoreCorrupt, StoreTooNew
from ..core.items import Message, decode_item, text_of
from ..store.contract import OutboxRow, Store, TurnState
from .channel import Reply
from .decision import Deliver, Retry, Suppress, TurnFacts, choose_destination, decide
from .outbox import (
    BlockedDelivery,
    DeliveryReport,
    OutboxWriter,
    OwedTurn,
    reply_rows,
    row_in_state,
)
from .replies import final_reply

__all__ = ["TurnReplies", "turn_facts"]

_NOT_SENT = "its answer was sent by no tool; run the turn again, or tell it yourself"
_PAGE = 64
_STATUSES: dict[TurnState, Literal["failed", "aborted"]] = {
    "failed": "failed",
    "aborted": "aborted",
}
_COMMENTARY = "commentary"


class TurnReplies(Struct):
    """Replaces the rows of turns by the rows of their replies."""

    store: Store
    channels: Container[str]
    """The names of the channels that this process has."""
    readable: Callable[[str], bool] | None = None

    def can_resolve(self, owed: OwedTurn) -> bool:
        """Return whether this process knows where the turn's replies go, or that none do."""
        names = [name for name in (owed.origin.channel, owed.dispatcher) if name]
        return not names or any(name in self.channels for name in names)

    async def resolve(self, row: OutboxRow, owed: OwedTurn, writer: OutboxWriter) -> DeliveryReport:
        """Replace the row of a turn by the rows of its replies."""
        try:
            facts = await turn_facts(self.store, row.thread, owed, self.readable)
        except (StoreCorrupt, StoreTooNew) as error:
            return await self.block(row, str(error), writer)
        match decide(facts):
            case Suppress():
                await writer.queue(settle=(row.number,))
                return DeliveryReport(suppressed=1)
            case Retry():
                return await self.block(row, _NOT_SENT, writer)
            case Deliver(replies):
                routed, dropped = self._route(owed, replies)
                rows = reply_rows(row.thread, owed.turn, routed)
                await writer.queue(*rows, settle=(row.number,))
                return DeliveryReport(
                    unrouted=tuple(BlockedDelivery(row.key, reason) for reason in dropped)
                )

    async def block(self, row: OutboxRow, reason: str, writer: OutboxWriter) -> DeliveryReport:
        """Block a row that cannot be resolved, with the reason."""
        await self.store.retry(row.number, reason)
        await writer.queue(row_in_state(row, "blocked"))
        return DeliveryReport(blocked=(BlockedDelivery(row.key, reason),))

    def _route(
        self, owed: OwedTurn, replies: tuple[Reply, ...]
    ) -> tuple[list[tuple[Reply, str, str]], list[str]]:
        """Return replies with their channels and receivers, and why others were dropped."""
        origin = structs.replace(
            owed.origin, routable=owed.origin.routable and owed.origin.channel in self.channels
        )
        routed: list[tuple[Reply, str, str]] = []
        dropped: list[str] = []
        for reply in replies:
            destination = choose_destination(
                reply, origin, dispatcher_available=owed.dispatcher in self.channels
            )
            if destination.kind == "origin":
                routed.append((reply, origin.channel, origin.to))
            elif destination.kind == "dispatcher":
                routed.append((reply, owed.dispatcher, ""))
            else:
                dropped.append(destination.reason)
        return routed, dropped


async def turn_facts(
    store: Store, thread: str, owed: OwedTurn, readable: Callable[[str], bool] | None = None
) -> TurnFacts:
    """Return the facts of a turn, from its row and from its log."""
    state = (await store.turn(thread, owed.turn)).state
    text, error = await _last_message(store, thread, owed.turn)
    status = _STATUSES.get(state, "completed")
    replies: tuple[Reply, ...] = ()
    if status == "completed":
        # The text of a turn before it failed is not its answer.
        replies = _turn_replies(owed.facts, text, readable)
    return structs.replace(owed.facts, status=status, replies=replies, failure=error)


def _turn_replies(
    facts: TurnFacts, text: str, readable: Callable[[str], bool] | None
) -> tuple[Reply, ...]:
    """Return the answer, with what tools have made for it; those leave a private turn, too."""
    answer = final_reply(text, token=facts.token, readable=readable) if text else Reply()
    made = Reply(media=facts.media, as_voice=facts.as_voice, always=True)
    if facts.visible == "automatic":
        media = tuple(dict.fromkeys((*answer.media, *made.media)))
        voiced = answer.as_voice or made.as_voice
        answer, made = structs.replace(answer, media=media, as_voice=voiced), Reply()
    return tuple(reply for reply in (answer, made) if not reply.is_empty)


async def _last_message(store: Store, thread: str, turn: int) -> tuple[str, str]:
    """Return the last message of a turn that is not commentary, and the turn's error."""
    commentary = error = ""
    async for entry in _read_backwards(store, thread, turn):
        if entry.turn != turn:
            continue
        error = error or _error_of(entry)
        if (message := _message_of(entry)) is not None:
            text = text_of(message.content)
            if text and message.phase != _COMMENTARY:
                return text, error
            commentary = commentary or text
    return commentary, error


async def _read_backwards(store: Store, thread: str, turn: int) -> AsyncIterator[Entry]:
    first = (await store.turn(thread, turn)).first
    try:
        last = (await store.turn(thread, turn + 1)).first - 1
    except NotFound:
        last = (await store.info(thread)).last
    while last >= first:
        page = await store.read(thread, first, last, reverse=True, limit=_PAGE)
        for entry in page:
            yield entry
        last = page[-1].seq - 1 if page else 0


def _message_of(entry: Entry) -> Message | None:
    item = decode_item(entry.body) if entry.kind == "item" else None
    return item if isinstance(item, Message) and item.role == "assistant" else None


def _error_of(entry: Entry) -> str:
    control = entry.control if entry.kind == "response" else None
    return control.error or "" if isinstance(control, ResponseMark) else ""
