"""A prompt cache as providers have one, counted in bytes.

Owns the last bodies of each key. Invariant: what is reported as cached is a prefix
that an earlier request of the same key really had.
"""

from __future__ import annotations

from collections import defaultdict, deque

__all__ = ["PromptCache", "common_prefix"]

_KEPT = 8


def common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes both start with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class PromptCache:
    """Remembers bodies and says how much of the next one is known."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, deque[bytes]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def shared(self, key: str, body: bytes) -> int:
        """The longest prefix that `body` shares with an earlier one; remembers it."""
        seen = self._seen[key]
        longest = max((common_prefix(body, earlier) for earlier in seen), default=0)
        seen.append(body)
        return longest
