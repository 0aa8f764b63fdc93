"""The native projection: the rows of a view as items in the history of a Codex thread.

Owns which rows are sent, in which bytes and under which ids; which states Codex reports
to its model itself; and which messages of a Codex thread are context of Codex's own.
Invariants: the same rows give the same items; nothing that Codex reports to its model is
among them; a message counts as Codex's own only if every part of it is marked so.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Raw

from ...context.outbound import outbound
from ...context.row import Row, shape_of
from ...context.rules import normalise
from ...context.view import View
from ...core.entries import FragmentMark, Head
from ...core.ids import derived_id, item_prefix
from ...core.items import InputImage, InputText, Message, encode_item
from ...core.wire import json_bytes
from ...prompt.announcements import TurnAborted
from ...prompt.instruction_text import INSTRUCTION_STATES, instruction_text
from ...prompt.registry import Registry
from ...prompt.standing_instructions import (
    AgentsMdState,
    CollaborationState,
)
from ...prompt.state_fragment import Known
from ...prompt.thread_state import ModelState
from ...prompt.working_environment import EnvironmentState, PermissionsState
from .binding import fingerprint
from .injectable_items import injectable_row, told_row
from .protocol.client_requests import TURN_TEXT_LIMIT, ImageInput, TextInput, UserInput

__all__ = [
    "CODEX_STATES",
    "RowKey",
    "history_items",
    "is_codex_context",
    "is_input",
    "is_model_output",
    "may_call_skill",
    "row_keys",
    "rows_to_send",
    "thread_instructions",
    "typed_message",
    "typed_row",
]

CODEX_STATES: frozenset[str] = frozenset(
    state.id
    for state in (
        AgentsMdState,
        CollaborationState,
        EnvironmentState,
        ModelState,
        PermissionsState,
    )
)
"""States that Codex reports to its model itself."""

RowKey: TypeAlias = int | str
"""Identifies a row within its thread."""

_OWN_FRAGMENTS = frozenset({*CODEX_STATES, TurnAborted.id})
_OWN_TAGS = (
    "<apps_instructions>",
    "<collaboration_mode>",
    "<context_window",
    "<environment_context>",
    "<goal",
    "<model_instructions>",
    "<model_switch>",
    "<multi_agent",
    "<permissions instructions>",
    "<personality_spec>",
    "<plugins_instructions>",
    "<skills_instructions>",
    "<token_budget",
    "<turn_aborted>",
    "<user_instructions>",
    "# agents.md instructions",
)
"""The beginning of context messages of Codex, in lower case."""

_BASE_INSTRUCTIONS = "model.base_instructions"
"""The kind of the message with the model's own instructions; only its metadata marks it."""

_SKILL_CALL = re.compile(r"\$[A-Za-z0-9_-]")

_members = msgspec.json.Decoder(dict[str, Raw])


def row_keys(rows: Sequence[Row]) -> list[RowKey]:
    """Return the keys of `rows`: the position in the log, the node, or a digest of the body."""
    return [_row_key(row) for row in rows]


def _row_key(row: Row) -> RowKey:
    if row.seq is not None:
        return row.seq
    if row.node is not None:
        return row.node.id
    return hashlib.blake2b(row.body, digest_size=16).hexdigest()


def is_input(row: Row, turn: int) -> bool:
    """Say whether `row` is an input of a user in `turn`."""
    return row.turn == turn and row.shape.role == "user" and not row.contextual


def rows_to_send(rows: Sequence[Row], registry: Registry, *, fresh: bool) -> list[Row]:
    """Return the rows that a Codex thread needs; a `fresh` one has its states as instructions."""
    omitted = CODEX_STATES | frozenset(INSTRUCTION_STATES) if fresh else CODEX_STATES
    stripped = (_without_states(row, omitted, registry) for row in rows)
    return [row for row in stripped if row is not None]


def history_items(
    rows: Sequence[Row], head: Head, thread: str, *, told: Container[int] = ()
) -> tuple[Raw, ...]:
    """Return `rows` as raw items: every call has an output, every item has its own id.

    Those at the positions in `told` are text: Codex could not read them.
    """
    counts: Counter[RowKey] = Counter()
    sent = normalise(list(_outbound_rows(rows, head)))
    readable = (told_row(row) if at in told else row for at, row in enumerate(sent))
    return tuple(Raw(_item_with_id(row, thread, counts)) for row in readable)


def thread_instructions(view: View, registry: Registry) -> str:
    """Return the developer instructions of a thread that starts with `view`."""
    baselines = {name: view.baselines.get(name) for name in INSTRUCTION_STATES}
    states = {name: each.snapshot for name, each in baselines.items() if isinstance(each, Known)}
    return instruction_text(registry, states)


def typed_row(row: Row) -> tuple[UserInput, ...] | None:
    """Return `row` as user input of a turn; None if it cannot be typed."""
    item = row.item
    if not isinstance(item, Message) or item.role != "user" or row.contextual:
        return None
    return typed_message(item)


def typed_message(message: Message) -> tuple[UserInput, ...] | None:
    """Return `message` as user input of a turn; None if it cannot be typed."""
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


def may_call_skill(parts: Sequence[UserInput]) -> bool:
    """Say whether Codex could take typed words for the call of a skill, and add its text.

    It then knows nothing of who trusts that skill; words that are injected call nothing.
    """
    return any(isinstance(part, TextInput) and _SKILL_CALL.search(part.text) for part in parts)


def is_model_output(raw: Raw) -> bool:
    """Say whether the model made an item: the sign that a request was answered."""
    shape = shape_of(raw)
    if shape.type == "message":
        return shape.role == "assistant"
    return not shape.type.endswith("_output")


def is_codex_context(message: Message, registry: Registry, instructions: str = "") -> bool:
    """Say whether `message` is context that Codex wrote for its model.

    `instructions` is the fingerprint of the thread's instructions, which count as such.
    """
    if message.role not in ("developer", "user") or not message.content:
        return False
    if _content_kinds(message) == [_BASE_INSTRUCTIONS]:
        return True
    return all(
        isinstance(part, InputText)
        and (
            _is_codex_text(part.text, message.role, registry)
            or fingerprint(part.text) == (instructions or None)
        )
        for part in message.content
    )


def _content_kinds(message: Message) -> object:
    """Return the kinds of the parts that Codex notes in the metadata of a message."""
    notes = msgspec.json.decode(message.metadata) if isinstance(message.metadata, Raw) else None
    return notes.get("content_item_kinds") if isinstance(notes, dict) else None


def _is_codex_text(text: str, role: str, registry: Registry) -> bool:
    if text.lstrip()[:40].lower().startswith(_OWN_TAGS):
        return True
    found = registry.recognise(role, text)
    return found is not None and (registry.state_of(found) or found) in _OWN_FRAGMENTS


def _without_states(row: Row, states: frozenset[str], registry: Registry) -> Row | None:
    """Return `row` without the parts that report `states`; None if nothing is left."""
    if not row.contextual:
        return row
    item = row.item
    if not isinstance(item, Message):
        return row
    dropped = set(_parts_of_states(row, item, states, registry))
    kept = tuple(part for at, part in enumerate(item.content) if at not in dropped)
    if len(kept) == len(item.content):
        return row
    if not kept:
        return None
    body = encode_item(msgspec.structs.replace(item, content=kept))
    return msgspec.structs.replace(row, body=body, shape=shape_of(body))


def _parts_of_states(
    row: Row, item: Message, states: frozenset[str], registry: Registry
) -> Iterator[int]:
    """Return the positions of parts that report `states`: by their marks, else by their text."""
    marks: Sequence[FragmentMark] = row.fragments
    if marks:
        yield from (mark.part for mark in marks if mark.part is not None and mark.id in states)
        return
    for at, part in enumerate(item.content):
        found = registry.recognise(item.role, part.text) if isinstance(part, InputText) else None
        if found is not None and (registry.state_of(found) or found) in states:
            yield at


def _outbound_rows(rows: Sequence[Row], head: Head) -> Iterator[Row]:
    for row in rows:
        data = outbound(row, head)
        if data is row.body:
            yield injectable_row(row)
        elif data is not None:
            yield injectable_row(msgspec.structs.replace(row, body=data, shape=shape_of(data)))


def _item_with_id(row: Row, thread: str, counts: Counter[RowKey]) -> bytes:
    """Return the item with an id: its own if it has one, else a derived one.

    Sealed reasoning is bound to its id, so that id must not change. `counts` gives
    different ids to equal items of an engine.
    """
    members = _item_members(row)
    if not row.shape.id:
        key = _row_key(row)
        repeated = (counts[key],) if counts[key] else ()
        counts[key] += 1
        name = derived_id(item_prefix(row.shape.type), thread, key, *repeated)
        members["id"] = Raw(json_bytes(name))
    return msgspec.json.encode(members)


def _item_members(row: Row) -> dict[str, Raw]:
    """Return the members of an item as Codex accepts it: no system role, content in parts."""
    members = _members.decode(row.body)
    if row.shape.type == "message":
        if row.shape.role == "system":
            members["role"] = Raw(b'"developer"')
        if bytes(members.get("content", b"")).startswith(b'"'):
            kind = "output_text" if row.shape.role == "assistant" else "input_text"
            members["content"] = Raw(json_bytes([{"type": kind, "text": members["content"]}]))
    return members
