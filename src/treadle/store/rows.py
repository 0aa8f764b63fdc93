"""Rows of `log.db`: their ids, which of them make up a log, and how values become columns.

Owns the arithmetic of forks: a fork holds only what came after its cut; the rest is read
from its ancestors. Invariants: row ranges are disjoint, ordered, and cover the log from the
first entry on; what is empty is stored as null, and reading a row gives back an equal value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeAlias, get_args
from zlib import crc32

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..core.entries import Draft, Entry, Flags, FragmentMark, Kind, Origin, Rollback
from ..core.errors import StoreCorrupt
from ..core.ids import item_prefix, new_id
from ..core.provenance import InputProvenance, InternalEvent
from ..core.redact import blank_json
from ..core.typed import decode_json
from ..core.usage import TokenUsage
from ..core.wire import Json, json_bytes
from .contract import Admission, InboxMessage, OutboxRow, ThreadInfo, Turn

__all__ = [
    "INSERT_TURN",
    "MAX_SEQ",
    "Link",
    "Row",
    "RowRange",
    "blob_digest",
    "clip_ranges",
    "decode_entry",
    "decode_message",
    "decode_outbox_row",
    "decode_thread",
    "decode_turn",
    "entry_checksum",
    "is_same_input",
    "is_whole",
    "item_id",
    "json_or_null",
    "raw_or_null",
    "rollback_cut",
    "row_id",
    "row_ranges",
    "turn_row",
]

Row: TypeAlias = tuple[Any, ...]

MAX_SEQ = (1 << 32) - 1
"""The highest sequence or turn number a thread can reach."""

INSERT_TURN = """
  INSERT INTO turns (id, thread, turn, first, state, admitted, ended, outcome, usage, input)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_FLAGS = tuple(Flags(bits) for bits in range(8))
_KINDS = frozenset(get_args(Kind))
_BODY = 13
"""Where the body stands among the columns of an entry; the checksum comes next."""


class _Tagged(Struct):
    type: str = ""


_encode = msgspec.json.Encoder().encode
_fragments = msgspec.json.Decoder(tuple[FragmentMark, ...]).decode
_events = msgspec.json.Decoder(tuple[InternalEvent, ...]).decode
_event = msgspec.json.Decoder(InternalEvent).decode
_elements = msgspec.json.Decoder(list[Raw]).decode
_provenance = msgspec.json.Decoder(InputProvenance).decode
_tagged = msgspec.json.Decoder(_Tagged).decode


class Link(Struct, frozen=True):
    """A thread's place in its family."""

    number: int
    id: str
    parent: int | None
    cut: int
    turn_cut: int


class RowRange(Struct, frozen=True):
    """The rows of one thread that belong to a log; bounds are included."""

    number: int
    id: str
    first: int
    last: int
    first_turn: int
    last_turn: int


def row_ranges(line: Iterable[Link]) -> list[RowRange]:
    """Return the row ranges of the first thread of `line`, oldest first.

    `line` goes from that thread over its parent up to the root. A cut inside a
    prefix that the parent itself shares reaches through to the grandparent.
    """
    found: list[RowRange] = []
    seq = turn = MAX_SEQ
    for link in line:
        found.append(RowRange(link.number, link.id, link.cut + 1, seq, link.turn_cut + 1, turn))
        seq, turn = min(seq, link.cut), min(turn, link.turn_cut)
    found.reverse()
    return [s for s in found if s.first <= s.last or s.first_turn <= s.last_turn]


def clip_ranges(ranges: Iterable[RowRange], first: int, last: int | None) -> Iterator[RowRange]:
    """Yield the parts of the ranges that hold entries `first` to `last`."""
    end = MAX_SEQ if last is None else last
    for part in ranges:
        low, high = max(part.first, first), min(part.last, end)
        if low <= high:
            yield replace(part, first=low, last=high)


def rollback_cut(entry: Entry) -> tuple[int, int]:
    """Return the number of a rollback entry, and the first entry that it hides."""
    rollback = entry.control
    assert isinstance(rollback, Rollback), "its kind says so"
    return entry.seq, rollback.cut


def row_id(number: int, seq: int) -> int:
    """Return the row id of an entry or turn: rows of one thread lie together, in order."""
    return number << 32 | seq


def blob_digest(data: bytes) -> str:
    """Return the digest under which bytes are stored once."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def item_id(draft: Draft) -> str | None:
    """Return the item id of `draft`: its own, or a new one for an item without."""
    if draft.id is not None or draft.kind != "item":
        return draft.id
    try:
        return new_id(item_prefix(_tagged(draft.body).type))
    except msgspec.MsgspecError:
        return new_id(item_prefix(""))


def json_or_null(value: object) -> str | None:
    """Return the column for a struct or tuple; null for an empty one."""
    return json_bytes(value).decode() if value else None


def raw_or_null(value: Json | None) -> str | None:
    """Return the column for JSON that is kept byte for byte."""
    return None if value is None else bytes(value).decode()


def is_same_input(turn: Turn, admission: Admission) -> bool:
    """Return whether a turn was admitted with the input of `admission`, from which secrets are out.

    One that was admitted before a secret was known may still have it.
    """
    stored, given = bytes(turn.input), bytes(admission.input)
    return stored == given or blank_json(stored) == given


def turn_row(thread: int, turn: Turn) -> Row:
    """Return the values of `INSERT_TURN` for a turn of the thread with this number."""
    return (
        row_id(thread, turn.number),
        thread,
        turn.id,
        turn.first,
        turn.state,
        turn.admitted,
        turn.ended,
        raw_or_null(turn.outcome),
        json_or_null(turn.usage),
        raw_or_null(turn.input),
    )


def entry_checksum(columns: Row, body: bytes | None) -> int:
    """Return the checksum of an entry: of its columns up to `source_id`, and of its body.

    The origin is not the number in its column, but the text that the number stands for.
    """
    return crc32(body or b"", crc32(_encode(columns)))


def is_whole(row: Row) -> bool:
    """Return whether an entry is what was written; one without a checksum counts as whole."""
    checksum = row[_BODY + 1]
    return checksum is None or entry_checksum(row[:_BODY], row[_BODY]) == checksum


def _damaged_entry(row: Row, thread: str) -> Entry:
    """Return an entry of which only its place is certain; whoever reads its body hears of it."""
    kind: Kind = row[1] if row[1] in _KINDS else "item"
    return Entry(thread=thread, seq=row[0] & MAX_SEQ, kind=kind, time=0, body=b"")


def _lacks_value(name: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{name} has null where a value must be: the file was damaged, or edited by hand; "
        "`treadle doctor` looks at all of it"
    )


def decode_entry(row: Row, thread: str) -> Entry:
    """Decode an entry from the columns that `queries.ENTRIES` selects."""
    checksum = row[_BODY + 1]
    if checksum is None:
        if None in (row[1], *row[3:8]):
            raise _lacks_value(f"entry {row[0] & MAX_SEQ} of thread {thread!r}")
    elif crc32(row[_BODY] or b"", crc32(_encode(row[:_BODY]))) != checksum:
        return _damaged_entry(row, thread)
    fragments, provenance, events, origin = row[8:12]
    return Entry(
        thread=thread,
        seq=row[0] & MAX_SEQ,
        kind=row[1],
        id=row[2],
        turn=row[3],
        step=row[4],
        time=row[5],
        tokens=row[6],
        flags=_FLAGS[row[7]] if 0 <= row[7] < len(_FLAGS) else Flags(row[7]),
        fragments=() if fragments is None else _fragments(fragments),
        provenance=_known_provenance(provenance),
        events=_known_events(events),
        origin=None if origin is None else _origin(origin),
        source_id=row[12],
        body=b"" if row[13] is None else row[13],
    )


def _known_provenance(text: str | None) -> InputProvenance | None:
    """Decode a provenance; None for a kind that only a newer version knows."""
    if text is None:
        return None
    try:
        return _provenance(text)
    except msgspec.ValidationError:
        return None


def _known_events(text: str | None) -> tuple[InternalEvent, ...]:
    """Decode the events of kinds that this version knows."""
    if text is None:
        return ()
    try:
        return _events(text)
    except msgspec.ValidationError:
        return tuple(event for raw in _elements(text) for event in _if_known(raw))


def _if_known(raw: Raw) -> Iterator[InternalEvent]:
    with suppress(msgspec.ValidationError):
        yield _event(raw)


@lru_cache(maxsize=256)
def _origin(text: str) -> Origin:
    return decode_json(text, Origin)


def decode_thread(row: Row) -> ThreadInfo:
    """Decode a thread from the columns that `queries.THREADS` selects."""
    if None in row[:2] or None in row[3:]:
        raise _lacks_value(f"thread {row[0]!r}")
    names = ("id", "root", "parent", "cut", "cwd", "title", "created", "updated", "last", "turns")
    return ThreadInfo(**dict(zip(names, row, strict=True)))


def decode_turn(row: Row) -> Turn:
    """Decode a turn from the columns that `queries.TURNS` selects."""
    turn, at, given, state, admitted, first, ended, outcome, usage = row
    if None in (turn, given, state, admitted, first):
        raise _lacks_value(f"turn {at & MAX_SEQ}")
    return Turn(
        id=turn,
        number=at & MAX_SEQ,
        input=Raw(given),
        state=state,
        admitted=admitted,
        first=first,
        ended=ended,
        outcome=None if outcome is None else Raw(outcome),
        usage=None if usage is None else decode_json(usage, TokenUsage),
    )


def decode_message(row: Row, thread: str) -> InboxMessage:
    """Decode a message from the columns that `queries.MESSAGES` selects."""
    number, key, kind, time, provenance, events, body = row
    if None in (key, kind, time, body):
        raise _lacks_value(f"message {number} of thread {thread!r}")
    return InboxMessage(
        number=number,
        thread=thread,
        time=time,
        key=key,
        kind=kind,
        body=Raw(body),
        provenance=_known_provenance(provenance),
        events=_known_events(events),
    )


def decode_outbox_row(row: Row) -> OutboxRow:
    """Decode an outbox row from the columns that `queries.OUTBOX` selects."""
    number, thread, topic, key, body, state, attempts, error, created, updated = row
    if None in (topic, key, body, state, attempts, created, updated):
        raise _lacks_value(f"outbox row {number}")
    return OutboxRow(
        number=number,
        thread=thread,
        topic=topic,
        key=key,
        body=Raw(body),
        state=state,
        attempts=attempts,
        error=error,
        created=created,
        updated=updated,
    )
