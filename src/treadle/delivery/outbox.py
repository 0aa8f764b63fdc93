"""Deliveries in the outbox: what is owed to a channel, row by row.

Owns the body of a row and what its state means: *admitted*, a turn has ended and its log says
what to tell; *accepted*, the reply is known; *ready*, it was handed to a channel that cannot
tell repeats apart; *blocked*, put aside. Invariant: a row joins the transaction that ends its
turn, under a key that names thread, turn and kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Raw, Struct, field, structs

from ..core.wire import json_bytes
from ..store.contract import Admission, OutboxDraft, OutboxRow, OutboxState, TurnEnd
from .channel import Delivery
from .decision import TurnFacts
from .payload import Reply
from .route import Origin

__all__ = [
    "TOPIC",
    "DeliveryFollower",
    "Owed",
    "OwedTurn",
    "delivery_of",
    "moved",
    "owed_rows",
    "read_row",
]

TOPIC = "delivery"
"""The outbox topic of deliveries."""


class OwedTurn(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="turn"):
    """A turn has ended; its log says what is to be told."""

    turn: int
    origin: Origin = Origin()
    dispatcher: str = ""
    """The channel that takes what cannot go back to its origin."""
    facts: TurnFacts = TurnFacts()
    """What the log does not say of the turn."""


class Owed(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="reply"):
    """One reply that a channel is to carry."""

    turn: int
    position: int = 0
    """Its place among the replies of its turn."""
    channel: str
    to: str = ""
    reply: Reply


_decoder: msgspec.json.Decoder[OwedTurn | Owed] = msgspec.json.Decoder(OwedTurn | Owed)


def read_row(row: OutboxRow) -> OwedTurn | Owed | None:
    """What a row says; None for one that only a newer Treadle can read."""
    try:
        return _decoder.decode(row.body)
    except msgspec.DecodeError:
        return None


def owed_rows(
    thread: str, turn: int, replies: Iterable[tuple[Reply, str, str]]
) -> tuple[OutboxDraft, ...]:
    """Rows for the replies of one turn, each with its channel and whom it is for."""
    kinds: Counter[str] = Counter()
    rows = []
    for position, (reply, channel, to) in enumerate(replies):
        kinds[reply.kind] += 1
        owed = Owed(turn=turn, position=position, channel=channel, to=to, reply=reply)
        rows.append(_row(_key(thread, turn, reply.kind, kinds[reply.kind]), owed, "accepted"))
    return tuple(rows)


def delivery_of(row: OutboxRow, owed: Owed) -> Delivery:
    """What a channel is handed for a row."""
    return Delivery(key=row.key, thread=row.thread, turn=owed.turn, to=owed.to, reply=owed.reply)


def moved(row: OutboxRow, state: OutboxState) -> OutboxDraft:
    """The same row in another state."""
    return OutboxDraft(topic=row.topic, key=row.key, body=row.body, state=state)


class DeliveryFollower(Struct):
    """Leaves what is owed in the transactions that end turns.

    Set `facts` while a turn runs, to what its log will not say: what tools have sent, whether
    the turn goes on later. They begin anew with every turn.
    """

    thread: str
    origin: Origin = field(default_factory=Origin)
    dispatcher: str = ""
    policy: TurnFacts = field(default_factory=TurnFacts)
    """What holds for all turns of the thread."""
    facts: TurnFacts = field(default_factory=TurnFacts)

    def rows_on_admission(self, admission: Admission) -> tuple[OutboxDraft, ...]:
        """A turn begins: nothing is known of it yet."""
        del admission
        self.facts = self.policy
        return ()

    def rows_on_end(self, end: TurnEnd) -> tuple[OutboxDraft, ...]:
        """A turn ends: it may have something to tell."""
        owed = OwedTurn(
            turn=end.number,
            origin=self.origin,
            dispatcher=self.dispatcher,
            facts=structs.replace(self.facts, replies=()),
        )
        return (_row(_key(self.thread, end.number, "turn"), owed, "admitted"),)

    def rows_on_hiding(
        self, first: int, last: int, reason: Literal["reset", "rollback"]
    ) -> tuple[OutboxDraft, ...]:
        """Entries are hidden; what was said in them is owed all the same."""
        del first, last, reason
        return ()


def _key(thread: str, turn: int, kind: str, number: int = 1) -> str:
    return f"{thread}.{turn}.{kind}" + (f".{number}" if number > 1 else "")


def _row(key: str, owed: OwedTurn | Owed, state: OutboxState) -> OutboxDraft:
    return OutboxDraft(topic=TOPIC, key=key, body=Raw(json_bytes(owed)), state=state)
