"""How a change becomes rows.

Owns everything that `Store.commit` writes. Invariant: `apply` runs inside one
savepoint of the writer, so that whatever it raises leaves no row behind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from ..core.entries import Draft, Entry, Origin
from ..core.errors import LeaseLost, NotFound, TurnConflict
from ..core.wire import json_bytes
from .contract import (
    THIS_TURN,
    Admission,
    Change,
    Committed,
    InboxMessage,
    OutboxDraft,
    Past,
    Post,
    Turn,
    TurnEnd,
)
from .queries import MESSAGES, find_turn, numbered_turn, ranges_of, stretches_of, thread_number
from .rows import Row, digest_of, json_or_null, message_from, named, place, raw_or_null

__all__ = ["ENDED", "INLINE_BYTES", "apply", "count_attempt", "post_message", "use_blob"]

INLINE_BYTES: Final = 64 * 1024
"""A longer body is stored as a blob."""

ENDED: Final = frozenset({"completed", "failed", "aborted"})
"""States that no turn leaves."""

_TURN = """
  INSERT INTO turns (id, thread, turn, first, state, admitted, ended, input)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_ENTRY = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def apply(
    connection: sqlite3.Connection, thread: str, fence: int, change: Change, now: int
) -> Committed:
    """Write `change` for the holder of lease `fence`."""
    log = _open_log(connection, thread, fence, now)
    turn = None
    if change.admit is not None:
        if (earlier := _admitted_before(connection, thread, change.admit)) is not None:
            return Committed(turn=earlier, repeated=True, mail=log.mail())
        turn = log.admit(change.admit)
    entries = tuple(log.append(draft) for draft in change.entries)
    log.append_past(change.past)
    if change.end is not None:
        log.end(change.end)
    for message in change.take:
        log.take(message)
    for row in change.outbox:
        log.put_out(row)
    for number in change.settle:
        log.settle(number)
    log.close(change.title)
    if turn is not None and change.end is not None:
        turn = numbered_turn(connection, thread, turn.number)
    return Committed(entries, turn, mail=log.mail())


class _Log(Struct):
    """One thread while a change is written to it."""

    connection: sqlite3.Connection
    thread: str
    number: int
    last: int
    turns: int
    now: int
    admitted: int | None = None
    newest: int | None = None
    """The time of the last entry, once it matters."""
    origins: dict[Origin, int] = field(default_factory=dict)

    def admit(self, admission: Admission) -> Turn:
        self.turns += 1
        self.admitted = self.turns
        turn = Turn(
            id=admission.id,
            number=self.turns,
            input=admission.input,
            state="admitted",
            admitted=self.now,
            first=self.last + 1,
        )
        self.connection.execute(_TURN, self.turn_row(turn))
        return turn

    def turn_row(self, turn: Turn) -> Row:
        return (
            place(self.number, turn.number),
            self.number,
            turn.id,
            turn.first,
            turn.state,
            turn.admitted,
            turn.ended,
            raw_or_null(turn.input),
        )

    def append(self, draft: Draft) -> Entry:
        entry = self.placed(draft, self.resolve(draft.turn))
        self.connection.execute(_ENTRY, self.entry_row(entry))
        return entry

    def append_past(self, turns: Sequence[Past]) -> None:
        """Add whole turns; two statements, however many they are."""
        begun: list[Row] = []
        entries: list[Row] = []
        for past in turns:
            self.turns += 1
            first = self.last + 1
            placed = [self.placed(draft, self.turns) for draft in past.entries]
            entries += map(self.entry_row, placed)
            turn = Turn(
                id=past.id,
                number=self.turns,
                input=past.input,
                state=past.state,
                admitted=placed[0].time if placed else self.now,
                first=first,
                ended=placed[-1].time if placed else self.now,
            )
            begun.append(self.turn_row(turn))
        try:
            self.connection.executemany(_TURN, begun)
        except sqlite3.IntegrityError as error:
            raise TurnConflict(
                f"one of {len(begun)} past turns of thread {self.thread!r} has an id that was "
                "admitted before; use new turn ids"
            ) from error
        self.connection.executemany(_ENTRY, entries)

    def placed(self, draft: Draft, turn: int) -> Entry:
        self.last += 1
        return Entry(
            thread=self.thread,
            seq=self.last,
            kind=draft.kind,
            id=named(draft),
            turn=turn,
            step=draft.step,
            time=self.time_of(draft),
            tokens=draft.tokens,
            flags=draft.flags,
            fragments=draft.fragments,
            provenance=draft.provenance,
            events=draft.events,
            origin=draft.origin,
            source_id=draft.source_id,
            body=draft.body,
        )

    def time_of(self, draft: Draft) -> int:
        """When an entry happened: not before its predecessor, and not ahead of the clock."""
        if draft.time is None:
            self.newest = self.now
            return self.now
        if self.newest is None:
            # This entry has its number already; the one before it is the last of the log.
            before = self.last - 1
            found = ranges_of(self.connection, self.thread, [(before, before)]) if before else []
            self.newest = found[0].time if found else 0
        self.newest = min(max(draft.time, self.newest), self.now)
        return self.newest

    def entry_row(self, entry: Entry) -> Row:
        blob = None
        if len(entry.body) > INLINE_BYTES:
            blob = use_blob(self.connection, self.number, entry.seq, entry.body)
        return (
            place(self.number, entry.seq),
            entry.kind,
            entry.id,
            entry.turn,
            entry.step,
            entry.time,
            entry.tokens,
            int(entry.flags),
            json_or_null(entry.fragments),
            json_or_null(entry.provenance),
            json_or_null(entry.events),
            self.number_of(entry.origin),
            entry.source_id,
            blob,
            entry.body if blob is None else None,
        )

    def number_of(self, origin: Origin | None) -> int | None:
        if origin is None:
            return None
        if origin not in self.origins:
            self.origins[origin] = _intern(self.connection, origin)
        return self.origins[origin]

    def resolve(self, turn: int) -> int:
        if turn != THIS_TURN:
            return turn
        if self.admitted is None:
            raise NotFound("turn", "THIS_TURN", "the change admits none; give the turn's number")
        return self.admitted

    def end(self, end: TurnEnd) -> None:
        number = self.resolve(end.number)
        changed = self.connection.execute(
            "UPDATE turns SET state = ?, ended = ?, outcome = ?, usage = ? WHERE id = ?",
            (
                end.state,
                self.now if end.state in ENDED else None,
                raw_or_null(end.outcome),
                json_or_null(end.usage),
                place(self.number, number),
            ),
        )
        if changed.rowcount == 0:
            raise NotFound("turn", number, f"thread {self.thread!r} did not admit it")

    def take(self, message: int) -> None:
        changed = self.connection.execute(
            "UPDATE inbox SET taken = ? WHERE number = ? AND thread = ? AND taken IS NULL",
            (self.now, message, self.number),
        )
        if changed.rowcount == 0:
            raise NotFound("inbox message", message, "it was taken before; read the inbox again")

    def mail(self) -> bool:
        waiting = "SELECT 1 FROM inbox WHERE thread = ? AND taken IS NULL LIMIT 1"
        return self.connection.execute(waiting, (self.number,)).fetchone() is not None

    def put_out(self, row: OutboxDraft) -> None:
        self.connection.execute(
            "INSERT INTO outbox (thread, topic, key, body, state, created, updated) "
            "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (thread, topic, key) "
            "DO UPDATE SET body = ?4, state = ?5, updated = ?6",
            (self.number, row.topic, row.key, raw_or_null(row.body), row.state, self.now),
        )

    def settle(self, row: int) -> None:
        self.connection.execute(
            "DELETE FROM outbox WHERE number = ? AND thread = ?", (row, self.number)
        )

    def close(self, title: str | None) -> None:
        self.connection.execute(
            "UPDATE threads SET last = ?, turns = ?, updated = ?, title = coalesce(?, title) "
            "WHERE number = ?",
            (self.last, self.turns, self.now, title, self.number),
        )


def _open_log(connection: sqlite3.Connection, thread: str, fence: int, now: int) -> _Log:
    row = connection.execute(
        "SELECT number, last, turns, updated, fence, holder FROM threads "
        "WHERE id = ? AND deleted IS NULL",
        (thread,),
    ).fetchone()
    if row is None:
        raise NotFound("thread", thread, "it was deleted")
    number, last, turns, updated, newest, holder = row
    if newest != fence or holder is None:
        raise LeaseLost(thread)
    # A clock that is set back must not put an entry before its predecessor.
    return _Log(connection, thread, number, last, turns, max(now, updated))


def _admitted_before(
    connection: sqlite3.Connection, thread: str, admission: Admission
) -> Turn | None:
    turn = find_turn(connection, stretches_of(connection, thread), admission.id)
    if turn is not None and bytes(turn.input) != bytes(admission.input):
        raise TurnConflict(
            f"turn {admission.id!r} of thread {thread!r} was admitted with another input; "
            "use a new turn id for a new input"
        )
    return turn


def _intern(connection: sqlite3.Connection, origin: Origin) -> int:
    text = json_bytes(origin).decode()
    row = connection.execute("SELECT number FROM origins WHERE origin = ?", (text,)).fetchone()
    if row is None:
        row = connection.execute(
            "INSERT INTO origins (origin) VALUES (?) RETURNING number", (text,)
        ).fetchone()
    return int(row[0])


def use_blob(connection: sqlite3.Connection, thread: int, seq: int, data: bytes) -> int:
    """Store `data` once and note that the thread needs it from entry `seq` on."""
    digest = digest_of(data)
    row = connection.execute("SELECT number FROM blobs WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        row = connection.execute(
            "INSERT INTO blobs (digest, data) VALUES (?, ?) RETURNING number", (digest, data)
        ).fetchone()
    connection.execute(
        "INSERT INTO blob_users (thread, blob, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (thread, row[0], seq),
    )
    return int(row[0])


def post_message(
    connection: sqlite3.Connection, thread: str, message: Post, now: int
) -> InboxMessage:
    """Leave a message, or find the one that was left under the same key."""
    number = thread_number(connection, thread)
    connection.execute(
        "INSERT INTO inbox (thread, key, kind, time, provenance, events, body) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (thread, key) DO NOTHING",
        (
            number,
            message.key,
            message.kind,
            now,
            json_or_null(message.provenance),
            json_or_null(message.events),
            raw_or_null(message.body),
        ),
    )
    row = connection.execute(
        f"{MESSAGES} WHERE thread = ? AND key = ?", (number, message.key)
    ).fetchone()
    return message_from(row, thread)


def count_attempt(connection: sqlite3.Connection, row: int, error: str, now: int) -> None:
    """Note that the work of an outbox row failed once more."""
    changed = connection.execute(
        "UPDATE outbox SET attempts = attempts + 1, error = ?, updated = ? WHERE number = ?",
        (error, now, row),
    )
    if changed.rowcount == 0:
        raise NotFound("outbox row", row, "it was settled before")
