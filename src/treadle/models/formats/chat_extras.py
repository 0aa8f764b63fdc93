"""What a provider adds to Chat Completions and wants back: signatures and sealed reasoning.

Owns `extra_content` (Gemini's thought signatures), which stays an extra field of the item it
came with, and `reasoning_details` (OpenRouter), which stand as JSON in the `encrypted_content`
of a reasoning item. Invariants: both are opaque parts, so that only their origin gets them
back; details go back in the order they came in, and only to a model of the vendor that made
them: no other could verify their signatures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw, Struct

from ...core.items import CustomToolCall, FunctionCall, Item, Message, Reasoning
from ...core.typed import decode_json
from ...core.wire import UNREADABLE, json_bytes

__all__ = [
    "EXTRA_CONTENT",
    "Detail",
    "SealedDetails",
    "extra_content",
    "join_details",
    "seal_details",
    "sealed_details",
    "verifiable_details",
    "with_extra_content",
]

EXTRA_CONTENT = "extra_content"
"""The field of a message or a call that holds what only its provider reads."""

Detail: TypeAlias = dict[str, Any]

_GROWING = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The kinds of details that come piece by piece, and the field that grows."""
_SIGNED = ("anthropic-", "google-")
"""Formats whose readable reasoning is refused without its signature."""


class SealedDetails(Struct, frozen=True, omit_defaults=True):
    """What a reasoning item keeps of a chat answer."""

    reasoning_details: list[Detail]
    model: str = ""
    late: bool = False
    """Whether they came behind the text or the calls that they belong to."""

    def may_return_to(self, model: str) -> bool:
        """Return whether `model` is of the vendor that made them."""
        return _vendor(self.model) == _vendor(model)


def extra_content(item: Item) -> Raw | None:
    """Return what the provider added to a message or a call."""
    if isinstance(item, Message | FunctionCall | CustomToolCall):
        return (item.extra or {}).get(EXTRA_CONTENT)
    return None


def with_extra_content(
    item: Message | FunctionCall | CustomToolCall, extra: Mapping[str, Any]
) -> Message | FunctionCall | CustomToolCall:
    """Return `item` with what the provider added to it."""
    if not extra:
        return item
    return msgspec.structs.replace(item, extra={EXTRA_CONTENT: Raw(json_bytes(extra))})


def seal_details(sealed: SealedDetails) -> str:
    """Return the `encrypted_content` that keeps details, their pieces joined."""
    joined = join_details(sealed.reasoning_details)
    return json_bytes(msgspec.structs.replace(sealed, reasoning_details=joined)).decode()


def sealed_details(item: Item) -> SealedDetails | None:
    """Return the details that a reasoning item keeps; None if it keeps none."""
    if not isinstance(item, Reasoning) or not item.encrypted_content:
        return None
    try:
        return decode_json(item.encrypted_content.encode(), SealedDetails)
    except UNREADABLE:
        return None


def join_details(details: Iterable[Detail]) -> list[Detail]:
    """Return details with the pieces of one joined; they stay in the order they began in."""
    pieces: list[list[Detail]] = []
    for detail in details:
        if pieces and _continues(detail, pieces[-1][-1]):
            pieces[-1].append(detail)
        else:
            pieces.append([detail])
    return [_join(each) if len(each) > 1 else each[0] for each in pieces]


def verifiable_details(details: Iterable[Detail]) -> list[Detail]:
    """Return `details`, joined, without reasoning whose signature never came."""
    return [detail for detail in join_details(details) if not _is_unsigned(detail)]


def _continues(detail: Detail, before: Detail) -> bool:
    kind = detail.get("type")
    same = all(detail.get(name) == before.get(name) for name in ("type", "index"))
    named = {str(each["id"]) for each in (detail, before) if each.get("id")}
    return same and kind in _GROWING and len(named) < 2


def _join(pieces: list[Detail]) -> Detail:
    name = _GROWING[str(pieces[0]["type"])]
    whole: Detail = {}
    for piece in pieces:
        whole |= {key: value for key, value in piece.items() if value is not None}
    text = "".join(str(piece.get(name) or "") for piece in pieces)
    return whole | ({name: text} if text else {})


def _is_unsigned(detail: Detail) -> bool:
    signed = str(detail.get("format") or "").startswith(_SIGNED)
    return signed and detail.get("type") == "reasoning.text" and not detail.get("signature")


def _vendor(model: str) -> str:
    return model.partition("/")[0] if "/" in model else ""
