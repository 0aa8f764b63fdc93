"""Counted usage: what an index keeps of the answers of models.

Owns the values, and the optional power of an index to keep them. Invariant: an answer is kept
once, under the thread that asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ..core.usage import TokenUsage

__all__ = ["Counted", "CountsUsage", "RequestUsage"]


class RequestUsage(Struct, frozen=True, kw_only=True):
    """What an answer used, and who gave it."""

    thread: str
    """The thread that asked."""
    seq: int
    """The entry in which it ended; the request, where no end was recorded."""
    turn: int = 0
    time: int
    provider: str = ""
    """Empty where nobody knows."""
    model: str = ""
    service_tier: str | None = None
    cache_ttl: str | None = None
    purpose: str = ""
    """What it was for, outside the conversation."""
    usage: TokenUsage | None = None
    """None where the provider did not say."""


class Counted(Struct, frozen=True):
    """How far the answers of a thread are counted, and what the counter has to remember."""

    upto: int
    state: bytes = b""


@runtime_checkable
class CountsUsage(Protocol):
    """An index that keeps what each answer used."""

    async def usage_progress(self) -> dict[str, Counted]:
        """Return how far each thread is counted."""
        ...

    async def add_usages(
        self, thread: str, after: int, rows: Sequence[RequestUsage], now: Counted
    ) -> None:
        """Keep the answers of `thread` after the entry `after`, if it is counted up to there."""
        ...

    async def usages(
        self, *, since: int = 0, until: int | None = None, threads: Sequence[str] | None = None
    ) -> list[RequestUsage]:
        """Return the answers from `since` to before `until`, the oldest first."""
        ...

    async def forget_usages(self, thread: str) -> None:
        """Delete what is known of a thread's answers."""
        ...
