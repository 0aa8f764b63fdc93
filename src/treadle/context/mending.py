"""Mending: rows as a provider with its own demands can read them.

Owns the repairs, by name; which provider needs which is policy, and not decided here.
Invariant: a pure function of one row and the names, so that a request still begins with
the bytes of the one before; a row that needs no repair is handed back as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Literal, TypeAlias

import msgspec

from ..core.items import FunctionCall, Item, Unknown, encode_item
from ..core.wire import json_bytes
from .row import Row, shape_of

__all__ = ["LONGEST_CALL_ID", "Repair", "repair_row"]

Repair: TypeAlias = Literal[
    "plain_call_ids", "nine_call_ids", "short_call_ids", "no_reasoning", "object_arguments"
]
"""What can be repaired.

``plain_call_ids``: letters, digits, ``_`` and ``-``, at most 64 of them; ``nine_call_ids``:
nine letters and digits; ``short_call_ids``: at most 64 characters; ``no_reasoning``: it is not
shown, not even to whom it came from; ``object_arguments``: arguments are a JSON object, because
the server reads them.
"""
LONGEST_CALL_ID = 64
"""Characters of the id of a call that OpenAI takes, also where a longer one came from there."""

_PLAIN = r"[A-Za-z0-9_-]{1,64}"
_NINE = r"[A-Za-z0-9]{9}"
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


def repair_row(row: Row, repairs: Collection[str]) -> Row | None:
    """A row as it is shown; None for one that is not. A name that is not known repairs nothing."""
    if row.shape.type == "reasoning":
        return None if "no_reasoning" in repairs else row
    called = row.shape.call_id
    fits = called is None or _call_id(called, repairs) == called
    if fits and not ("object_arguments" in repairs and row.shape.type == "function_call"):
        return row
    item = row.item
    changed = _repair_item(item, repairs)
    if changed is item:
        return row
    body = encode_item(changed)
    return msgspec.structs.replace(row, body=body, shape=shape_of(body))


def _repair_item(item: Item, repairs: Collection[str]) -> Item:
    """The item with a fitting id and readable arguments; the very same where it has both."""
    if isinstance(item, Unknown):
        return item
    changes: dict[str, str] = {}
    called = getattr(item, "call_id", None)
    if called is not None and (fitting := _call_id(called, repairs)) != called:
        changes["call_id"] = fitting
    if isinstance(item, FunctionCall) and "object_arguments" in repairs:
        readable = _arguments(item.arguments)
        changes |= {} if readable == item.arguments else {"arguments": readable}
    return msgspec.structs.replace(item, **changes) if changes else item


def _call_id(call_id: str, repairs: Collection[str]) -> str:
    """An id that fits: itself, else a digest of it, the same for a call and its output."""
    if "nine_call_ids" in repairs:
        return call_id if re.fullmatch(_NINE, call_id) else _digest(call_id)[:9]
    if "plain_call_ids" in repairs:
        return call_id if re.fullmatch(_PLAIN, call_id) else f"call_{_digest(call_id)}"
    if "short_call_ids" in repairs and len(call_id) > LONGEST_CALL_ID:
        return f"call_{_digest(call_id)}"
    return call_id


def _digest(call_id: str) -> str:
    return hashlib.blake2b(call_id.encode(), digest_size=12).hexdigest()


def _arguments(arguments: str) -> str:
    try:
        _object.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        return json_bytes({"arguments": arguments}).decode()
    return arguments
