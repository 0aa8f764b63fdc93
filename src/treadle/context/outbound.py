"""Outbound items: what of a row is sent to whom.

Owns the rule that opaque parts go home only: encrypted reasoning, compaction
blobs, server ids, unknown types and unknown fields are sent back to the origin
they came from and left out elsewhere. Invariant: a pure function of row and head.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core.entries import Head
from ..core.ids import is_prefixed
from ..core.items import (
    CustomToolCall,
    CustomToolCallOutput,
    EncryptedContent,
    FunctionCall,
    FunctionCallOutput,
    Item,
    LocalShellCall,
    Message,
    Output,
    Part,
    Reasoning,
    ReasoningText,
    ToolSearchCall,
    ToolSearchOutput,
    Unknown,
    encode_item,
)
from .mending import LONGEST_CALL_ID, repair_row
from .row import Row
from .rules import without_media
from .shown_images import IMAGE, shown_row

__all__ = ["has_unreadable_compaction", "outbound"]

_PLAIN_TYPES = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "local_shell_call",
    }
)
_SEALED = frozenset({"compaction", "context_compaction"})
"""What only some models of their origin can read."""
_OPENAI = frozenset({"azure", "codex", "openai"})
"""Who refuses long ids of calls. (No repair of the head's: heads of old logs stay as they are.)"""
_AUDIO = b'"input_audio"'
_PASSTHROUGH = b'"internal_chat_message_metadata_passthrough"'
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def has_unreadable_compaction(rows: Sequence[Row], head: Head) -> bool:
    """Whether some of the conversation is sealed, and not for the model of `head`."""
    sealed = (row for row in rows if row.shape.type in _SEALED)
    return any(row.origin is None or not row.origin.is_readable_by(head) for row in sealed)


def outbound(row: Row, head: Head) -> bytes | None:
    """The bytes of `row` in a request under `head`; None when nothing of it is sent."""
    if head.repairs:
        repaired = repair_row(row, head.repairs)
        if repaired is None:
            return None
        row = repaired
    if len(row.shape.call_id or "") > LONGEST_CALL_ID and _is_openai(head):
        row = repair_row(row, ("short_call_ids",)) or row
    row = shown_row(row, head)
    home = row.origin is not None and row.origin.is_compatible(head)
    if row.shape.type in _SEALED and (row.origin is None or not row.origin.is_readable_by(head)):
        return None
    if _goes_as_is(row, head, home=home):
        return row.body
    made = _with_call_id(row.item)
    item = made if home else _abroad(made)
    if item is None:
        return None
    if not (head.images and head.audio):
        item = without_media(item, images=head.images, audio=head.audio)
    if not isinstance(item, Unknown) and hasattr(item, "id"):
        keep = item.id if item.id and is_prefixed(item.id) else None
        item = msgspec.structs.replace(item, id=keep, metadata=msgspec.UNSET)
    return _encode(item)


def _is_openai(head: Head) -> bool:
    return head.api == "responses" and head.provider in _OPENAI


def _goes_as_is(row: Row, head: Head, *, home: bool) -> bool:
    """Whether the stored bytes can be sent without looking inside."""
    body, shape = row.body, row.shape
    if home:
        if shape.type == "reasoning" or (shape.id and not is_prefixed(shape.id)):
            return False
    elif shape.type not in _PLAIN_TYPES or shape.id or row.origin or b'"encrypted_' in body:
        return False
    if not head.audio and _AUDIO in body:
        return False
    if not head.images and (shape.type == "image_generation_call" or IMAGE in body):
        return False
    return _PASSTHROUGH not in body


def _with_call_id(item: Item) -> Item:
    """Old shell calls are answered by their item id, which need not be sent along."""
    if isinstance(item, LocalShellCall) and item.call_id is None:
        return msgspec.structs.replace(item, call_id=item.id)
    return item


def _abroad(item: Item) -> Item | None:
    """What of an item can be shown to someone who did not make it."""
    match item:
        case Message():
            content = _readable(item.content)
            changed = msgspec.structs.replace(item, id=None, content=content, extra=None)
            return changed if content or not item.content else None
        case FunctionCall():
            return msgspec.structs.replace(item, id=None, encrypted_function_args=None, extra=None)
        case FunctionCallOutput() | CustomToolCallOutput():
            output = _readable_output(item.output)
            return msgspec.structs.replace(item, id=None, output=output, extra=None)
        case CustomToolCall() | LocalShellCall():
            return msgspec.structs.replace(item, id=None, extra=None)
        case ToolSearchCall() | ToolSearchOutput() if item.execution != "server":
            return msgspec.structs.replace(item, id=None, extra=None)
        case _:
            return None


def _readable(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(
        msgspec.structs.replace(part, extra=None) if part.extra else part
        for part in parts
        if not isinstance(part, EncryptedContent | Unknown)
    )


def _readable_output(output: Output) -> Output:
    # A call keeps its result even when nothing of it can be read.
    return output if isinstance(output, str) else _readable(output) or ""


def _encode(item: Item) -> bytes:
    data = encode_item(item)
    if isinstance(item, Reasoning) and item.content is not None:
        raw = any(isinstance(part, ReasoningText) for part in item.content)
        if not raw:
            members = _members.decode(data)
            del members["content"]
            return msgspec.json.encode(members)
    return data
