"""Deliveries in the outbox: the rows, their order, and the reports about them.

Owns the body of a row and what its state means: *admitted*, a turn has ended and its log says
what to deliver; *accepted*, the reply is known; *ready*, it was handed to a channel that does
not recognise repeats; *blocked*, it is not tried again by itself. Invariants: a row is
written in the transaction that ends its turn, under a key that names thread, turn and kind;
and only the first row for a channel is ever due, those behind it wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol

import msgspec
from msgspec import Raw, Struct, field, structs

from ..core.typed import decode_json
from ..core.wire import json_bytes
from ..store.contract import (
    Admission,
    Change,
    Lease,
    OutboxDraft,
    OutboxRow,
    OutboxState,
    Store,
    TurnEnd,
)
from .channel import Delivery, Reply, ReplyOrigin
from .decision import TurnFacts

__all__ = [
    "EVIDENCE",
    "TOPIC",
    "BlockedDelivery",
    "ChannelBacklog",
    "DeliveryFollower",
    "DeliveryReport",
    "LeasedOutbox",
    "OutboxWriter",
    "OwedReply",
    "OwedTurn",
    "ThreadBacklog",
    "backlog_of",
    "decode_row",
    "delivery_of",
    "evidence_row",
    "merge_reports",
    "reply_rows",
    "retried_turn",
    "row_in_state",
    "stored_evidence",
]

TOPIC = "delivery"
"""The outbox topic of deliveries."""
EVIDENCE = "delivery-evidence"
"""The topic of what the tools of a running turn have sent and made."""


class OwedTurn(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="turn"):
    """A turn has ended; its log says what is to be delivered."""

    turn: int
    origin: ReplyOrigin = ReplyOrigin()
    dispatcher: str = ""
    """The channel for replies that cannot go back to their origin."""
    facts: TurnFacts = TurnFacts()
    """The facts of the turn that are not in the log."""


class OwedReply(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="reply"):
    """One reply that a channel has to carry."""

    turn: int
    position: int = 0
    """Its place among the replies of its turn."""
    channel: str
    to: str = ""
    reply: Reply


_decoder: msgspec.json.Decoder[OwedTurn | OwedReply] = msgspec.json.Decoder(OwedTurn | OwedReply)


def decode_row(row: OutboxRow) -> OwedTurn | OwedReply | None:
    """Decode the body of a row; return None for one that only a newer Treadle can read."""
    try:
        return _decoder.decode(row.body)
    except msgspec.DecodeError:
        return None


def reply_rows(
    thread: str, turn: int, replies: Iterable[tuple[Reply, str, str]]
) -> tuple[OutboxDraft, ...]:
    """Return rows for the replies of one turn, each given with its channel and receiver."""
    kinds: Counter[str] = Counter()
    rows = []
    for position, (reply, channel, to) in enumerate(replies):
        kinds[reply.kind] += 1
        owed = OwedReply(turn=turn, position=position, channel=channel, to=to, reply=reply)
        rows.append(_row(_key(thread, turn, reply.kind, kinds[reply.kind]), owed, "accepted"))
    return tuple(rows)


def delivery_of(row: OutboxRow, owed: OwedReply) -> Delivery:
    """Return the delivery of a row, for its channel."""
    return Delivery(key=row.key, thread=row.thread, turn=owed.turn, to=owed.to, reply=owed.reply)


def retried_turn(row: OutboxRow, owed: OwedTurn) -> OutboxDraft:
    """Return the row of a turn whose answer was not sent, to be resolved once more."""
    facts = structs.replace(owed.facts, retried=True)
    return _row(row.key, structs.replace(owed, facts=facts), "admitted")


def row_in_state(row: OutboxRow, state: OutboxState) -> OutboxDraft:
    """Return the same row in another state."""
    return OutboxDraft(topic=row.topic, key=row.key, body=row.body, state=state)


def evidence_row(turn: int, facts: TurnFacts) -> OutboxDraft:
    """Return the row that keeps, while a turn runs, what its tools have sent and made."""
    kept = TurnFacts(sent=facts.sent, media=facts.media, as_voice=facts.as_voice)
    return OutboxDraft(topic=EVIDENCE, key=str(turn), body=Raw(json_bytes(kept)), state="ready")


def stored_evidence(rows: Sequence[OutboxRow], turn: int) -> TurnFacts | None:
    """Return what is stored of a turn; None if its tools have sent and made nothing."""
    row = next((row for row in rows if row.key == str(turn)), None)
    return None if row is None else decode_json(row.body, TurnFacts)


class DeliveryFollower(Struct):
    """Adds a row to each transaction that ends a turn.

    `facts` has what the log of the turn will not say: what its tools have sent and made. Each
    turn begins with the facts of `policy`; `pending` and `asked` are looked at when it ends.
    """

    thread: str
    origin: ReplyOrigin = field(default_factory=ReplyOrigin)
    dispatcher: str = ""
    policy: TurnFacts = field(default_factory=TurnFacts)
    """The facts that hold for all turns of the thread."""
    facts: TurnFacts = field(default_factory=TurnFacts)
    pending: Callable[[], bool] = lambda: False
    asked: Callable[[], bool] = lambda: False

    def rows_on_admission(self, admission: Admission) -> tuple[OutboxDraft, ...]:
        """Begin a turn; add no row."""
        del admission
        self.facts = self.policy
        return ()

    def rows_on_end(self, end: TurnEnd) -> tuple[OutboxDraft, ...]:
        """Return the row of a turn that ends."""
        owed = OwedTurn(
            turn=end.number,
            origin=self.origin,
            dispatcher=self.dispatcher,
            facts=structs.replace(
                self.facts, replies=(), pending=self.pending(), asked=self.asked()
            ),
        )
        return (_row(_key(self.thread, end.number, "turn"), owed, "admitted"),)

    def rows_on_hiding(
        self, first: int, last: int, reason: Literal["reset", "rollback"]
    ) -> tuple[OutboxDraft, ...]:
        """Add no row: replies in hidden entries are delivered all the same."""
        del first, last, reason
        return ()


def _key(thread: str, turn: int, kind: str, number: int = 1) -> str:
    return f"{thread}.{turn}.{kind}" + (f".{number}" if number > 1 else "")


def _row(key: str, owed: OwedTurn | OwedReply, state: OutboxState) -> OutboxDraft:
    return OutboxDraft(topic=TOPIC, key=key, body=Raw(json_bytes(owed)), state=state)


class OutboxWriter(Protocol):
    """Changes the outbox of one thread; a thread's log is one."""

    async def queue(self, *rows: OutboxDraft, settle: Sequence[int] = ()) -> None:
        """Add rows to the outbox, or give them a new state; remove those to `settle`."""
        ...


class LeasedOutbox(Struct):
    """The outbox writer of a thread that is not open in this process."""

    store: Store
    lease: Lease

    async def queue(self, *rows: OutboxDraft, settle: Sequence[int] = ()) -> None:
        """Change the outbox."""
        await self.store.commit(self.lease, Change(outbox=rows, settle=tuple(settle)))


class ChannelBacklog(Struct, frozen=True):
    """The replies of one thread that wait for one channel, in order."""

    channel: str
    owed: tuple[tuple[OutboxRow, OwedReply], ...]

    @property
    def first(self) -> OutboxRow:
        """The row that is delivered next."""
        return self.owed[0][0]


class ThreadBacklog(Struct, frozen=True):
    """The rows of one thread that wait."""

    channels: tuple[ChannelBacklog, ...]
    turns: tuple[tuple[OutboxRow, OwedTurn], ...]
    """Turns whose replies are not known yet."""
    unreadable: tuple[OutboxRow, ...]


def backlog_of(rows: Sequence[OutboxRow]) -> ThreadBacklog:
    """Sort the rows that wait; leave out blocked ones."""
    waiting = [(row, decode_row(row)) for row in rows if row.state != "blocked"]
    replies = [(row, owed) for row, owed in waiting if isinstance(owed, OwedReply)]
    # A turn's rows may be younger than those of the turn after it.
    replies.sort(key=lambda each: (each[1].turn, each[1].position))
    names = dict.fromkeys(owed.channel for _, owed in replies)
    return ThreadBacklog(
        tuple(
            ChannelBacklog(name, tuple(each for each in replies if each[1].channel == name))
            for name in names
        ),
        tuple((row, owed) for row, owed in waiting if isinstance(owed, OwedTurn)),
        tuple(row for row, owed in waiting if owed is None),
    )


class BlockedDelivery(Struct, frozen=True):
    """A delivery that will not be tried again by itself."""

    key: str
    reason: str


class DeliveryReport(Struct, frozen=True, kw_only=True):
    """The result of one pass over the outbox, or of several."""

    delivered: int = 0
    suppressed: int = 0
    """Turns that had nothing to deliver."""
    held: int = 0
    """Deliveries that wait to be acknowledged."""
    pending: int = 0
    """Deliveries that wait for a later attempt, or for a channel that is not here."""
    due: float | None = None
    """When the first of them should be tried again, by the clock."""
    blocked: tuple[BlockedDelivery, ...] = ()
    unrouted: tuple[BlockedDelivery, ...] = ()
    """Replies without a destination; they stay in their thread."""
    busy: tuple[str, ...] = ()
    """Threads that another process writes to, and delivers for."""


def merge_reports(reports: Sequence[DeliveryReport]) -> DeliveryReport:
    """Return several reports as one."""
    dues = [report.due for report in reports if report.due is not None]
    return DeliveryReport(
        delivered=sum(report.delivered for report in reports),
        suppressed=sum(report.suppressed for report in reports),
        held=sum(report.held for report in reports),
        pending=sum(report.pending for report in reports),
        due=min(dues, default=None),
        blocked=tuple(each for report in reports for each in report.blocked),
        unrouted=tuple(each for report in reports for each in report.unrouted),
        busy=tuple(each for report in reports for each in report.busy),
    )
