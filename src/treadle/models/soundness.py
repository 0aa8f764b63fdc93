"""Sound items: what of a provider's answer may enter the log.

An item of an answer is kept for good, read by everything that comes later, and told to
other providers. Invariant: what passes here can be read by all of them, is not more than
anyone asked for, and speaks in nobody else's name.
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
"""Items that only this side of a conversation may say."""


def is_readable(body: bytes | Raw) -> bool:
    """Whether everyone can read an item, now and later."""
    data = bytes(body)
    if is_nested_deeper(data, MOST_LEVELS):
        return False
    try:
        msgspec.json.decode(data)
    except UNREADABLE:
        return False
    return True


class ItemChecker:
    """Looks at the items of one answer, in order."""

    def __init__(self) -> None:
        self._seen = 0

    def error(self, body: bytes | Raw) -> StreamCut | None:
        """Why the answer cannot go on with this item; None where it can."""
        self._seen += 1
        if self._seen > MOST_ITEMS:
            return StreamCut(
                f"the answer holds more than {MOST_ITEMS} items; try again, or ask for less",
                code="too_many_items",
            )
        if not is_readable(body):
            return StreamCut(
                "an item of the answer cannot be read; try again", retryable=True, code="unreadable"
            )
        if (name := _forged(body)) is not None:
            return StreamCut(
                f"the provider answered with {name}, which only this side may say; "
                "use another provider",
                code="forged_item",
            )
        return None


class _Claim(msgspec.Struct):
    type: str = ""
    role: str = "assistant"


_claim = msgspec.json.Decoder(_Claim)


def _forged(body: bytes | Raw) -> str | None:
    """What an item is that a model cannot say."""
    try:
        claim = _claim.decode(body)
    except msgspec.ValidationError:
        return None
    if claim.type in _OURS:
        return repr(claim.type)
    if claim.type == "message" and claim.role != "assistant":
        return f"a message of the role {claim.role[:40]!r}"
    return None
