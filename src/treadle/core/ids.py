"""Identifiers: prefixed UUIDv7, and ids derived from what they name.

Owns the prefix of every kind of id. Fresh ids sort by creation time, also
within one millisecond of one process. Derived ids are a pure function of their
parts, so that rebuilding a synthetic item never changes a byte.
"""

from __future__ import annotations

import os
import threading
import time
from uuid import UUID, uuid5

__all__ = ["derived_id", "is_prefixed", "item_prefix", "new_id", "uuid7"]

_NAMESPACE = UUID("90d38d3e-6a5b-4d52-bfe2-2f1e634bfac4")

_ITEM_PREFIXES = {
    "additional_tools": "at",
    "agent_message": "amsg",
    "compaction": "cmp",
    "context_compaction": "cmp",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "function_call": "fc",
    "function_call_output": "fco",
    "image_generation_call": "ig",
    "local_shell_call": "lsh",
    "message": "msg",
    "reasoning": "rs",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "web_search_call": "ws",
}

_lock = threading.Lock()
_last = 0


def uuid7() -> UUID:
    """Return a time-ordered UUID; two from one process never compare out of order."""
    return UUID(int=_next())


def _next() -> int:
    global _last
    with _lock:
        # 48 bits of milliseconds and 12 bits of fraction count as one clock.
        tick = max(time.time_ns() * 4096 // 1_000_000, _last + 1)
        _last = tick
    millis, fraction = divmod(tick, 4096)
    value = (millis & (1 << 48) - 1) << 80 | 0x7 << 76 | fraction << 64
    return value | 0b10 << 62 | int.from_bytes(os.urandom(8), "big") >> 2


def new_id(prefix: str) -> str:
    """Return a new id such as ``thr_0198c0de-…``."""
    # Spelt by hand: a UUID object in between would cost more than all the rest.
    digits = f"{_next():032x}"
    return f"{prefix}_{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def derived_id(prefix: str, *parts: str | int) -> str:
    """Return the id that these parts always get."""
    return f"{prefix}_{uuid5(_NAMESPACE, ':'.join(map(str, (prefix, *parts))))}"


def item_prefix(item_type: str) -> str:
    """Return the id prefix of an item type; unknown types share ``itm``."""
    return _ITEM_PREFIXES.get(item_type, "itm")


def is_prefixed(value: str) -> bool:
    """Return whether ``value`` has a non-empty part on both sides of its first underscore."""
    head, found, tail = value.partition("_")
    return bool(head and found and tail)
