"""What is written to the log of a thread: changes, blobs and messages.

Owns how a change becomes rows. Invariant: each function runs inside one savepoint of the
writer, so that whatever raises leaves no row behind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.entries import Draft, Entry, Origin
from ..core.errors import LeaseLost, NotFound, TurnConflict
from ..core.wire import json_bytes
from .contract import (
    ENDED_STATES,
    THIS_TURN,
    Admission,
    Change,
    ChangeResult,
    InboxDraft,
    InboxMessage,
    OutboxDraft,
    PastTurn,
    Turn,
    TurnEnd,
)
from .queries import (
    MESSAGES,
    find_turn,
    find_turn_by_id,
    read_entries,
    thread_number,
    thread_ranges,
)
from .rows import (
    INSERT_TURN,
    Row,
    blob_digest,
    decode_message,
    entry_checksum,
    is_same_input,
    item_id,
    json_or_null,
    raw_or_null,
    row_id,
    turn_row,
)

__all__ = [
    "INLINE_BYTES",
    "apply_change",
    "count_attempt",
    "post_message",
    "store_blob",
]

INLINE_BYTES: Final = 64 * 1024
"""A longer body is stored as a blob."""

_ENTRY = """
  INSERT INTO entries (id, kind, item, turn, step, time, tokens, flags, fragments, provenance,
    events, origin, source_id, blob, body, checksum)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def apply_change(
    connection: sqlite3.Connection, thread: str, fence: int, change: Change, now: int
) -> ChangeResult:
    """Write `change` for the holder of lease `fence`."""
    log = _open_log(connection, thread, fence, now)
    turn = None
    if change.admit is not None:
        earlier = _earlier_turn(connection, thread, change.admit)
        log.end_open_turns(keep=None if earlier is None else log.turns)
        if earlier is not None:
            return ChangeResult(turn=log.as_it_is(earlier), repeated=True, mail=log.has_mail())
        turn = log.admit(change.admit)
    entries = tuple(log.append(draft) for draft in change.entries)
    log.append_past(change.past)
    if change.end is not None:
        log.end(change.end)
    for message in change.take:
        log.take(message)
    for row in change.outbox:
        log.put_outbox_row(row)
    for number in change.settle:
        log.settle(number)
    log.close(change.title)
    if turn is not None and change.end is not None:
        turn = find_turn(connection, thread, turn.number)
    return ChangeResult(entries, turn, mail=log.has_mail())


class _ThreadRows(Struct):
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
    origins: dict[Origin, tuple[str, int]] = field(default_factory=dict)

    def end_open_turns(self, keep: int | None) -> None:
        """End the thread's turns that a crash left open, but for `keep`."""
        self.connection.execute(
            "UPDATE turns SET state = 'aborted', ended = ? "
            "WHERE thread = ? AND ended IS NULL AND id <> ?",
            (self.now, self.number, row_id(self.number, keep or 0)),
        )

    def as_it_is(self, earlier: Turn) -> Turn:
        """Return a turn that is asked for again: open only if nobody but this thread has it."""
        if earlier.state in ENDED_STATES:
            return earlier
        turn = find_turn(self.connection, self.thread, earlier.number)
        own = "SELECT 1 FROM turns WHERE id = ?"
        is_own = self.connection.execute(own, (row_id(self.number, turn.number),)).fetchone()
        return turn if is_own else replace(turn, state="aborted")

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
        self.connection.execute(INSERT_TURN, turn_row(self.number, turn))
        return turn

    def append(self, draft: Draft) -> Entry:
        entry = self.number_entry(draft, self.turn_number(draft.turn))
        self.connection.execute(_ENTRY, self.entry_row(entry))
        return entry

    def append_past(self, turns: Sequence[PastTurn]) -> None:
        """Add whole turns, with two statements for all of them."""
        turn_rows: list[Row] = []
        entries: list[Row] = []
        for past in turns:
            self.turns += 1
            first = self.last + 1
            numbered = [self.number_entry(draft, self.turns) for draft in past.entries]
            entries += map(self.entry_row, numbered)
            turn = Turn(
                id=past.id,
                number=self.turns,
                input=past.input,
                state=past.state,
                admitted=numbered[0].time if numbered else self.now,
                first=first,
                ended=numbered[-1].time if numbered else self.now,
            )
            turn_rows.append(turn_row(self.number, turn))
        try:
            self.connection.executemany(INSERT_TURN, turn_rows)
        except sqlite3.IntegrityError as error:
            raise TurnConflict(
                f"one of {len(turn_rows)} past turns of thread {self.thread!r} has an id that was "
                "admitted before; use new turn ids"
            ) from error
        self.connection.executemany(_ENTRY, entries)

    def number_entry(self, draft: Draft, turn: int) -> Entry:
        self.last += 1
        return Entry(
            thread=self.thread,
            seq=self.last,
            kind=draft.kind,
            id=item_id(draft),
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
        """Return an entry's time: not before its predecessor, and not ahead of the clock."""
        if draft.time is None:
            self.newest = self.now
            return self.now
        if self.newest is None:
            # This entry has its number already; the one before it is the last of the log.
            before = self.last - 1
            found = read_entries(self.connection, self.thread, [(before, before)]) if before else []
            self.newest = found[0].time if found else 0
        self.newest = min(max(draft.time, self.newest), self.now)
        return self.newest

    def entry_row(self, entry: Entry) -> Row:
        blob = None
        if len(entry.body) > INLINE_BYTES:
            blob = store_blob(self.connection, self.number, entry.seq, entry.body)
        said = (
            row_id(self.number, entry.seq),
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
        )
        origin, number = self.stored_origin(entry.origin)
        checksum = entry_checksum((*said, origin, entry.source_id), entry.body)
        body = entry.body if blob is None else None
        return (*said, number, entry.source_id, blob, body, checksum)

    def stored_origin(self, origin: Origin | None) -> tuple[str | None, int | None]:
        """Return the text and the number of an origin."""
        if origin is None:
            return None, None
        if origin not in self.origins:
            text = json_bytes(origin).decode()
            self.origins[origin] = text, _store_origin(self.connection, text)
        return self.origins[origin]

    def turn_number(self, turn: int) -> int:
        if turn != THIS_TURN:
            return turn
        if self.admitted is None:
            raise NotFound("turn", "THIS_TURN", "the change admits none; give the turn's number")
        return self.admitted

    def end(self, end: TurnEnd) -> None:
        number = self.turn_number(end.number)
        changed = self.connection.execute(
            "UPDATE turns SET state = ?, ended = ?, outcome = ?, usage = ? WHERE id = ?",
            (
                end.state,
                self.now if end.state in ENDED_STATES else None,
                raw_or_null(end.outcome),
                json_or_null(end.usage),
                row_id(self.number, number),
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
            raise NotFound("inbox message", message, "it was already read; read the inbox again")

    def has_mail(self) -> bool:
        waiting = "SELECT 1 FROM inbox WHERE thread = ? AND taken IS NULL LIMIT 1"
        return self.connection.execute(waiting, (self.number,)).fetchone() is not None

    def put_outbox_row(self, row: OutboxDraft) -> None:
        self.connection.execute(
            "INSERT INTO outbox (thread, topic, key, body, state, created, updated) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (thread, topic, key) "
            "DO UPDATE SET body = excluded.body, state = excluded.state, "
            "updated = excluded.updated",
            (
                *(self.number, row.topic, row.key, raw_or_null(row.body), row.state),
                *(self.now, self.now),
            ),
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


def _open_log(connection: sqlite3.Connection, thread: str, fence: int, now: int) -> _ThreadRows:
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
    return _ThreadRows(connection, thread, number, last, turns, max(now, updated))


def _earlier_turn(connection: sqlite3.Connection, thread: str, admission: Admission) -> Turn | None:
    turn = find_turn_by_id(connection, thread_ranges(connection, thread), admission.id)
    if turn is not None and not is_same_input(turn, admission):
        raise TurnConflict(
            f"turn {admission.id!r} of thread {thread!r} was admitted with another input; "
            "use a new turn id for a new input"
        )
    return turn


def _store_origin(connection: sqlite3.Connection, text: str) -> int:
    row = connection.execute("SELECT number FROM origins WHERE origin = ?", (text,)).fetchone()
    if row is None:
        row = connection.execute(
            "INSERT INTO origins (origin) VALUES (?) RETURNING number", (text,)
        ).fetchone()
    return int(row[0])


def store_blob(connection: sqlite3.Connection, thread: int, seq: int, data: bytes) -> int:
    """Store `data` once and record that the thread needs it from entry `seq` on."""
    digest = blob_digest(data)
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
    connection: sqlite3.Connection, thread: str, message: InboxDraft, now: int
) -> InboxMessage:
    """Store a message, or find the one that was stored under the same key."""
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
    return decode_message(row, thread)


def count_attempt(connection: sqlite3.Connection, row: int, error: str, now: int) -> None:
    """Record that the work of an outbox row failed once more."""
    changed = connection.execute(
        "UPDATE outbox SET attempts = attempts + 1, error = ?, updated = ? WHERE number = ?",
        (error, now, row),
    )
    if changed.rowcount == 0:
        raise NotFound("outbox row", row, "it was already settled")
