"""Checks of the items in a provider's answer, before they may enter the log.

An item of an answer is kept for good, read by everything that comes later, and sent to
other providers. Invariant: an item that passes here can be read by all of them, is not more
than a request may ask for, and does not claim to come from the user or the runtime.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from ..core.wire import UNREADABLE, is_nested_deeper
from .contract import StreamCut

__all__ = ["MOST_ITEMS", "MOST_LEVELS", "ItemChecker", "is_readable"]

MOST_ITEMS = 1024
"""Items of one answer; each call among them is run."""

MOST_LEVELS = 128
"""How deep an item may nest; deeper ones break readers that go down by recursion."""

_OURS = frozenset(
    (
        *("additional_tools", "agent_message", "compaction_trigger"),
        *("custom_tool_call_output", "function_call_output"),
    )
)
"""Types of items that only this side of a conversation may send."""


def is_readable(body: bytes | Raw) -> bool:
    """Return whether every reader can decode an item, now and later."""
    data = bytes(body)
    if is_nested_deeper(data, MOST_LEVELS):
        return False
    try:
        msgspec.json.decode(data)
    except UNREADABLE:
        return False
    return True


class ItemChecker:
    """Checks the items of one answer, in order."""

    def __init__(self) -> None:
        self._count = 0

    def error(self, body: bytes | Raw) -> StreamCut | None:
        """Return why the answer cannot go on with this item; None if it can."""
        self._count += 1
        if self._count > MOST_ITEMS:
            return StreamCut(
                f"the answer holds more than {MOST_ITEMS} items; try again, or ask for less",
                code="too_many_items",
            )
        if not is_readable(body):
            return StreamCut(
                "an item of the answer cannot be read; try again", retryable=True, code="unreadable"
            )
        if (kind := _forged_kind(body)) is not None:
            return StreamCut(
                f"the provider answered with {kind}, which only this side may say; "
                "use another provider",
                code="forged_item",
            )
        return None


class _Claim(msgspec.Struct):
    type: str = ""
    role: str = "assistant"


_claim = msgspec.json.Decoder(_Claim)


def _forged_kind(body: bytes | Raw) -> str | None:
    """Return what an item claims to be that a model cannot send; None for all others."""
    try:
        claim = _claim.decode(body)
    except msgspec.ValidationError:
        return None
    if claim.type in _OURS:
        return repr(claim.type)
    if claim.type == "message" and claim.role != "assistant":
        return f"a message of the role {claim.role[:40]!r}"
    return None
