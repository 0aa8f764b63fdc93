"""What a Codex thread is shown: the rows of a view as items of its own history.

Owns which rows are carried over, in which bytes and under which ids, and what a thread
is started with. Invariant: the same rows give the same items, and nothing that Codex
tells its model itself is among them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ...context.outbound import outbound
from ...context.row import Row, shape_of
from ...context.rules import normalise
from ...context.view import View
from ...core.entries import FragmentMark, Head
from ...core.ids import derived_id, item_prefix
from ...core.items import InputImage, InputText, Message, encode_item, text_of
from ...core.wire import json_bytes
from ...prompt.registry import Registry
from ...prompt.state import Known
from ...prompt.tell import context_update
from .protocol.requests import ImageInput, TextInput, UserInput
from .provided import CODEX_STATES, INSTRUCTION_STATES

__all__ = [
    "TURN_TEXT_LIMIT",
    "RowKey",
    "history_items",
    "row_keys",
    "rows_to_send",
    "thread_instructions",
    "typed_message",
    "typed_row",
]

RowKey: TypeAlias = int | str
"""What tells a row from all others of its thread."""

TURN_TEXT_LIMIT = 1 << 20
"""Characters of text that a turn may be started with."""

_members = msgspec.json.Decoder(dict[str, Raw])


def row_keys(rows: Sequence[Row]) -> list[RowKey]:
    """The keys of `rows`: their places in the log, or what they show."""
    return [_key(row) for row in rows]


def _key(row: Row) -> RowKey:
    if row.seq is not None:
        return row.seq
    if row.node is not None:
        return row.node.id
    return hashlib.blake2b(row.body, digest_size=16).hexdigest()


def rows_to_send(rows: Sequence[Row], registry: Registry, *, fresh: bool) -> list[Row]:
    """The rows that a Codex thread must be given; a `fresh` one is started with its states."""
    left_out = CODEX_STATES | frozenset(INSTRUCTION_STATES) if fresh else CODEX_STATES
    stripped = (_without(row, left_out, registry) for row in rows)
    return [row for row in stripped if row is not None]


def history_items(rows: Sequence[Row], head: Head, thread: str) -> tuple[Raw, ...]:
    """`rows` as raw items, every call with its output, every item with an id of its own."""
    times: Counter[RowKey] = Counter()
    return tuple(Raw(_named(row, thread, times)) for row in normalise(list(_sent(rows, head))))


def thread_instructions(view: View, registry: Registry) -> str:
    """The developer instructions of a thread that starts with `view`."""
    known = {name: view.baselines.get(name) for name in INSTRUCTION_STATES}
    states = {name: told.snapshot for name, told in known.items() if isinstance(told, Known)}
    messages = context_update(registry, {}, states).messages
    return "\n\n".join(text_of(told.message.content) for told in messages)


def typed_row(row: Row) -> tuple[UserInput, ...] | None:
    """What a person would have typed for `row`; None where it cannot be typed."""
    item = row.item
    if not isinstance(item, Message) or item.role != "user" or row.contextual:
        return None
    return typed_message(item)


def typed_message(message: Message) -> tuple[UserInput, ...] | None:
    """What a person would have typed for `message`; None where it cannot be typed."""
    parts: list[UserInput] = []
    for part in message.content:
        match part:
            case InputText() if part.text:
                parts.append(TextInput(text=part.text))
            case InputImage():
                parts.append(ImageInput(url=part.image_url, detail=part.detail))
            case _:
                return None
    size = sum(len(part.text) for part in parts if isinstance(part, TextInput))
    return tuple(parts) if parts and size <= TURN_TEXT_LIMIT else None


def _without(row: Row, states: frozenset[str], registry: Registry) -> Row | None:
    """`row` without the parts that tell `states`; None where nothing is left."""
    if not row.contextual:
        return row
    item = row.item
    if not isinstance(item, Message):
        return row
    dropped = set(_telling(row, item, states, registry))
    kept = tuple(part for at, part in enumerate(item.content) if at not in dropped)
    if len(kept) == len(item.content):
        return row
    if not kept:
        return None
    body = encode_item(msgspec.structs.replace(item, content=kept))
    return msgspec.structs.replace(row, body=body, shape=shape_of(body))


def _telling(row: Row, item: Message, states: frozenset[str], registry: Registry) -> Iterator[int]:
    """The parts that tell `states`: by their marks, or by their words where they came in."""
    marks: Sequence[FragmentMark] = row.fragments
    if marks:
        yield from (mark.part for mark in marks if mark.part is not None and mark.id in states)
        return
    for at, part in enumerate(item.content):
        found = registry.recognise(item.role, part.text) if isinstance(part, InputText) else None
        if found is not None and (registry.state_of(found) or found) in states:
            yield at


def _sent(rows: Sequence[Row], head: Head) -> Iterator[Row]:
    for row in rows:
        data = outbound(row, head)
        if data is not None:
            yield (
                row
                if data is row.body
                else msgspec.structs.replace(row, body=data, shape=shape_of(data))
            )


def _named(row: Row, thread: str, times: Counter[RowKey]) -> bytes:
    """The item with an id: its own where it goes back to whom it came from, else a derived one.

    Sealed reasoning is bound to its id, so that one may not change. What an engine says
    several times has several: `times` counts them.
    """
    members = _fitting(row)
    if not row.shape.id:
        key = _key(row)
        again = (times[key],) if times[key] else ()
        times[key] += 1
        name = derived_id(item_prefix(row.shape.type), thread, key, *again)
        members["id"] = Raw(json_bytes(name))
    return msgspec.json.encode(members)


def _fitting(row: Row) -> dict[str, Raw]:
    """The members of an item as Codex takes it: no system role, and content in parts."""
    members = _members.decode(row.body)
    if row.shape.type == "message":
        if row.shape.role == "system":
            members["role"] = Raw(b'"developer"')
        if bytes(members.get("content", b"")).startswith(b'"'):
            kind = "output_text" if row.shape.role == "assistant" else "input_text"
            members["content"] = Raw(json_bytes([{"type": kind, "text": members["content"]}]))
    return members
