"""What is written to the log of a thread: changes, blobs and messages.

Owns how a change becomes rows. Invariant: each function runs inside one transaction or
savepoint of its caller, so that whatever raises leaves no row behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

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
from .log_database import LogDatabase
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
    "INSERT_ENTRY",
    "ThreadRows",
    "apply_change",
    "count_attempt",
    "open_log",
    "post_message",
    "store_blob",
    "store_origin",
]

INLINE_BYTES: Final = 64 * 1024
"""A longer body is stored as a blob."""

INSERT_ENTRY = """
  INSERT INTO entries (id, kind, item, turn, step, time, tokens, flags, fragments, provenance,
    events, origin, source_id, blob, body, checksum)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


_OPEN = """
  SELECT number, last, turns, updated, fence, holder,
    EXISTS (SELECT 1 FROM inbox WHERE inbox.thread = threads.number AND taken IS NULL)
  FROM threads WHERE id = ? AND deleted IS NULL
"""


def apply_change(log: ThreadRows, change: Change) -> ChangeResult:
    """Write `change` to an open log; whether mail waits is left for the caller to say."""
    if change.unless_input and log.has_input():
        return ChangeResult(held_back=True)
    turn = None
    if change.admit is not None:
        earlier = log.earlier_turn(change.admit)
        log.end_open_turns(keep=None if earlier is None else log.turns)
        if earlier is not None:
            return ChangeResult(turn=log.as_it_is(earlier), repeated=True)
        turn = log.admit(change.admit)
    entries = tuple(log.append(draft) for draft in change.entries)
    log.append_past(change.past)
    if change.end is not None:
        ended = log.end(change.end)
        if turn is not None and ended == turn.number:
            turn = log.as_ended(turn, change.end)
    for message in change.take:
        log.take(message)
    for name in change.done:
        log.settle_named(*name)
    for row in change.outbox:
        log.put_outbox_row(row)
    for number in change.settle:
        log.settle(number)
    log.close(change.title)
    return ChangeResult(entries, turn)


class ThreadRows(Struct):
    """One thread while a change is written to it."""

    CLOSE: ClassVar[str] = (
        "UPDATE threads SET last = ?, turns = ?, updated = ?, title = coalesce(?, title) "
        "WHERE number = ?"
    )

    connection: LogDatabase
    thread: str
    number: int
    last: int
    turns: int
    now: int
    admitted: int | None = None
    newest: int | None = None
    """The time of the last entry, once it matters."""
    origins: dict[Origin, tuple[str, int]] = field(default_factory=dict)
    found_mail: bool = False
    """Whether messages waited when it was opened."""

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
        """Add a turn of its own."""
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

    def earlier_turn(self, admission: Admission) -> Turn | None:
        """Return the turn that was admitted under the id of `admission` before, if any."""
        line = thread_ranges(self.connection, self.thread)
        turn = find_turn_by_id(self.connection, line, admission.id)
        if turn is not None and not is_same_input(turn, admission):
            raise TurnConflict(
                f"turn {admission.id!r} of thread {self.thread!r} was admitted with another "
                "input; use a new turn id for a new input"
            )
        return turn

    def append(self, draft: Draft) -> Entry:
        """Add one entry."""
        entry = self.number_entry(draft, self.turn_number(draft.turn))
        self.connection.execute(INSERT_ENTRY, self.entry_row(entry))
        return entry

    def append_past(self, turns: Sequence[PastTurn]) -> None:
        """Add whole turns, with two statements for all of them."""
        if not turns:
            return
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
        self.insert_turns(turn_rows)
        self.connection.executemany(INSERT_ENTRY, entries)

    def insert_turns(self, rows: Sequence[Row]) -> None:
        """Add turns. Raises `TurnConflict` where the id of one is taken."""
        # Asked for: an error of the database would end a whole transaction of PostgreSQL.
        added = self.connection.executemany(f"{INSERT_TURN} ON CONFLICT DO NOTHING", rows)
        if added.rowcount < len(rows):
            raise TurnConflict(
                f"one of {len(rows)} past turns of thread {self.thread!r} has an id that was "
                "admitted before; use new turn ids"
            )

    def number_entry(self, draft: Draft, turn: int) -> Entry:
        """Return a draft as the next entry of the log."""
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
        """Return the columns of an entry; a long body is stored as a blob."""
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
            self.origins[origin] = text, self.origin_number(text)
        return self.origins[origin]

    def origin_number(self, text: str) -> int:
        """Return under which number an origin is stored; store one that is new."""
        return store_origin(self.connection, text)

    def turn_number(self, turn: int) -> int:
        """Return the number of a turn that may stand for the admitted one."""
        if turn != THIS_TURN:
            return turn
        if self.admitted is None:
            raise NotFound("turn", "THIS_TURN", "the change admits none; give the turn's number")
        return self.admitted

    def end(self, end: TurnEnd) -> int:
        """Record how a turn ended; return its number."""
        number = self.turn_number(end.number)
        self.change_one(
            "UPDATE turns SET state = ?, ended = ?, outcome = ?, usage = ? WHERE id = ?",
            (
                end.state,
                self.now if end.state in ENDED_STATES else None,
                raw_or_null(end.outcome),
                json_or_null(end.usage),
                row_id(self.number, number),
            ),
            NotFound("turn", number, f"thread {self.thread!r} did not admit it"),
        )
        return number

    def as_ended(self, turn: Turn, end: TurnEnd) -> Turn:
        """Return a turn of this change as it is when the change also ended it."""
        return replace(
            turn,
            state=end.state,
            ended=self.now if end.state in ENDED_STATES else None,
            outcome=end.outcome,
            usage=end.usage,
        )

    def take(self, message: int) -> None:
        """Record that an inbox message was read."""
        self.change_one(
            "UPDATE inbox SET taken = ? WHERE number = ? AND thread = ? AND taken IS NULL",
            (self.now, message, self.number),
            NotFound("inbox message", message, "it was already read; read the inbox again"),
        )

    def change_one(self, sql: str, parameters: Row, missing: NotFound) -> None:
        """Change a row that must be there."""
        if self.connection.execute(sql, parameters).rowcount == 0:
            raise missing

    def has_input(self) -> bool:
        """Return whether an input waits."""
        waiting = "SELECT 1 FROM inbox WHERE thread = ? AND taken IS NULL AND kind = 'input'"
        found = self.found_mail and self.connection.execute(waiting, (self.number,)).fetchone()
        return bool(found)

    def has_mail(self) -> bool:
        """Return whether messages wait."""
        waiting = "SELECT 1 FROM inbox WHERE thread = ? AND taken IS NULL LIMIT 1"
        return self.connection.execute(waiting, (self.number,)).fetchone() is not None

    def put_outbox_row(self, row: OutboxDraft) -> None:
        """Add work to do, or renew it."""
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
        """Remove work that is done."""
        self.connection.execute(
            "DELETE FROM outbox WHERE number = ? AND thread = ?", (row, self.number)
        )

    def settle_named(self, topic: str, key: str) -> None:
        """Remove work that is done, by its topic and key."""
        self.connection.execute(
            "DELETE FROM outbox WHERE thread = ? AND topic = ? AND key = ?",
            (self.number, topic, key),
        )

    def close(self, title: str | None) -> None:
        """Record how far the log reaches now."""
        self.connection.execute(
            self.CLOSE,
            # What is imported was written when it was written.
            (self.last, self.turns, self.newest or self.now, title, self.number),
        )


def open_log(connection: LogDatabase, thread: str, fence: int, now: int) -> ThreadRows:
    """Open a thread's log for the holder of lease `fence`. Raises `LeaseLost`."""
    row = connection.execute(_OPEN, (thread,)).fetchone()
    if row is None:
        raise NotFound("thread", thread, "it was deleted")
    number, last, turns, updated, newest, holder, mail = row
    if newest != fence or holder is None:
        raise LeaseLost(thread)
    # A clock that is set back must not put an entry before its predecessor.
    now = max(now, updated)
    return ThreadRows(connection, thread, number, last, turns, now, found_mail=bool(mail))


def store_origin(connection: LogDatabase, text: str) -> int:
    """Return under which number an origin is stored; store one that is new."""
    known = "SELECT number FROM origins WHERE origin = ?"
    row = connection.execute(known, (text,)).fetchone()
    if row is None:
        added = "INSERT INTO origins (origin) VALUES (?) ON CONFLICT DO NOTHING"
        connection.execute(added, (text,))
        row = connection.execute(known, (text,)).fetchone()
    return int(row[0])


def store_blob(connection: LogDatabase, thread: int, seq: int, data: bytes) -> int:
    """Store `data` once and record that the thread needs it from entry `seq` on."""
    digest = blob_digest(data)
    known = "SELECT number FROM blobs WHERE digest = ?"
    row = connection.execute(known, (digest,)).fetchone()
    if row is None:
        added = "INSERT INTO blobs (digest, data) VALUES (?, ?) ON CONFLICT DO NOTHING"
        connection.execute(added, (digest, data))
        row = connection.execute(known, (digest,)).fetchone()
    connection.execute(
        "INSERT INTO blob_users (thread, blob, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        (thread, row[0], seq),
    )
    return int(row[0])


def post_message(
    connection: LogDatabase, thread: str, message: InboxDraft, now: int
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


def count_attempt(connection: LogDatabase, row: int, error: str, now: int) -> None:
    """Record that the work of an outbox row failed once more."""
    changed = connection.execute(
        "UPDATE outbox SET attempts = attempts + 1, error = ?, updated = ? WHERE number = ?",
        (error, now, row),
    )
    if changed.rowcount == 0:
        raise NotFound("outbox row", row, "it was already settled")
