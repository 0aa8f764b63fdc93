"""What a `MemoryStore` holds of one thread, and how a change gets into it.

Owns the rows of one thread and their next state. Invariant: a change is computed first
and put in place at the end, so that one that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from ..core.entries import Draft, Entry
from ..core.errors import NotFound, TurnConflict
from .contract import (
    ENDED_STATES,
    THIS_TURN,
    Admission,
    Change,
    ChangeResult,
    InboxMessage,
    OutboxDraft,
    OutboxRow,
    PastTurn,
    RowName,
    ThreadInfo,
    Turn,
    TurnEnd,
)
from .rows import Link, item_id
from .work import Work

__all__ = ["MemoryLog", "StagedChange"]


@dataclass(slots=True)
class MemoryLog:
    """One thread's own rows; `begins` has the sequence number at which each turn began."""

    link: Link
    info: ThreadInfo
    entries: dict[int, Entry] = field(default_factory=dict)
    turns: dict[int, Turn] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    blobs: dict[str, int] = field(default_factory=dict)
    posted: dict[str, InboxMessage] = field(default_factory=dict)
    inbox: dict[int, InboxMessage] = field(default_factory=dict)
    outbox: dict[int, OutboxRow] = field(default_factory=dict)
    fence: int = 0
    holder: str | None = None
    deleted: bool = False

    def end_open_turns(self, now: int, keep: int | None) -> None:
        """End the turns that a crash left open, but for `keep`."""
        for number, turn in self.turns.items():
            if turn.state not in ENDED_STATES and number != keep:
                self.turns[number] = msgspec.structs.replace(turn, state="aborted", ended=now)

    def find_work(self) -> Work | None:
        """Return what there is to do, if there is something."""
        left = [turn for turn in self.turns.values() if turn.state not in ENDED_STATES]
        posted = [message.time for message in self.inbox.values() if message.kind == "input"]
        times = [turn.admitted for turn in left] + posted
        if not times:
            return None
        return Work(thread=self.info.id, since=min(times), turn=left[-1].id if left else "")


@dataclass(slots=True)
class StagedChange:
    """A change that is applied to a log in two steps; `prepare` may fail, `put` cannot."""

    log: MemoryLog
    now: int
    newest: int
    """The time of the log's last entry."""
    rows: Iterator[int]
    entries: list[Entry] = field(default_factory=list)
    turns: dict[int, Turn] = field(default_factory=dict)
    outbox: dict[int, OutboxRow] = field(default_factory=dict)
    admitted: int | None = None
    begins: dict[int, int] = field(default_factory=dict)
    change: Change = field(default_factory=Change)

    def prepare(self, change: Change) -> None:
        """Compute what the change does. Raises before anything is changed."""
        self.change = change
        self.outbox = dict(self.log.outbox)
        if change.admit is not None:
            self.admit(change.admit)
        for draft in change.entries:
            self.append(draft, self.turn_number(draft.turn))
        for past in change.past:
            self.append_past(past)
        if change.end is not None:
            self.end(change.end)
        self.check_inbox(change.take)
        for name in change.done:
            self.settle_named(name)
        for row in change.outbox:
            self.put_outbox_row(row)
        for number in change.settle:
            self.outbox.pop(number, None)

    def check_inbox(self, messages: tuple[int, ...]) -> None:
        """Raise unless every message waits, and is named once."""
        waiting = set(self.log.inbox)
        for message in messages:
            if message not in waiting:
                raise NotFound(
                    "inbox message", message, "it was already read; read the inbox again"
                )
            waiting.discard(message)

    def put(self) -> ChangeResult:
        """Put what was computed in place."""
        log, info = self.log, self.log.info
        log.entries.update((entry.seq, entry) for entry in self.entries)
        log.begins.update(self.begins)
        if self.admitted is not None:
            log.end_open_turns(self.now, keep=None)
        log.turns.update(self.turns)
        log.outbox = self.outbox
        for message in self.change.take:
            del log.inbox[message]
        log.info = msgspec.structs.replace(
            info,
            last=info.last + len(self.entries),
            turns=info.turns + len(self.begins),
            updated=self.entries[-1].time if self.entries else self.now,
            title=info.title if self.change.title is None else self.change.title,
        )
        turn = None if self.admitted is None else self.turns[self.admitted]
        entries = tuple(self.entries[: len(self.change.entries)])
        return ChangeResult(entries, turn, mail=bool(log.inbox))

    def admit(self, admission: Admission) -> None:
        """Give the turn the next number."""
        self.admitted = number = self.log.info.turns + 1
        self.begins[number] = first = self.log.info.last + 1
        self.turns[number] = Turn(
            id=admission.id,
            number=number,
            input=admission.input,
            state="admitted",
            admitted=self.now,
            first=first,
        )

    def append(self, draft: Draft, turn: int) -> Entry:
        """Give the draft its place and time."""
        fields = {name: getattr(draft, name) for name in Draft.__struct_fields__}
        fields |= {"id": item_id(draft), "turn": turn, "time": self.time_of(draft)}
        seq = self.log.info.last + len(self.entries) + 1
        entry = Entry(**fields, thread=self.log.info.id, seq=seq)
        self.entries.append(entry)
        return entry

    def time_of(self, draft: Draft) -> int:
        """Return an entry's time: not before its predecessor, and not ahead of the clock."""
        if draft.time is None:
            return self.now
        before = self.entries[-1].time if self.entries else self.newest
        return min(max(draft.time, before), self.now)

    def append_past(self, past: PastTurn) -> None:
        """Add a turn that happened elsewhere."""
        if any(past.id == turn.id for turn in (*self.log.turns.values(), *self.turns.values())):
            raise TurnConflict(
                f"turn {past.id!r} of thread {self.log.info.id!r} was admitted before; "
                "use new turn ids"
            )
        number = self.log.info.turns + len(self.begins) + 1
        self.begins[number] = first = self.log.info.last + len(self.entries) + 1
        entries = [self.append(draft, number) for draft in past.entries]
        self.turns[number] = Turn(
            id=past.id,
            number=number,
            input=past.input,
            state=past.state,
            admitted=entries[0].time if entries else self.now,
            first=first,
            ended=entries[-1].time if entries else self.now,
        )

    def turn_number(self, turn: int) -> int:
        """Return the turn number that a draft or end means."""
        if turn != THIS_TURN:
            return turn
        if self.admitted is None:
            raise NotFound("turn", "THIS_TURN", "the change admits none; give the turn's number")
        return self.admitted

    def end(self, end: TurnEnd) -> None:
        """Record how a turn ended."""
        number = self.turn_number(end.number)
        turn = self.turns.get(number) or self.log.turns.get(number)
        if turn is None:
            raise NotFound("turn", number, f"thread {self.log.info.id!r} did not admit it")
        self.turns[number] = msgspec.structs.replace(
            turn,
            state=end.state,
            ended=self.now if end.state in ENDED_STATES else None,
            outcome=end.outcome,
            usage=end.usage,
        )

    def settle_named(self, name: RowName) -> None:
        """Remove the outbox row under a topic and a key."""
        self.outbox = {
            number: row for number, row in self.outbox.items() if (row.topic, row.key) != name
        }

    def put_outbox_row(self, draft: OutboxDraft) -> None:
        """Add an outbox row, or renew the one under its topic and key."""
        kept = next(
            (r for r in self.outbox.values() if (r.topic, r.key) == (draft.topic, draft.key)), None
        )
        if kept is not None:
            self.outbox[kept.number] = msgspec.structs.replace(
                kept, body=draft.body, state=draft.state, updated=self.now
            )
            return
        row = OutboxRow(
            **{name: getattr(draft, name) for name in OutboxDraft.__struct_fields__},
            number=next(self.rows),
            thread=self.log.info.id,
            created=self.now,
            updated=self.now,
        )
        self.outbox[row.number] = row
