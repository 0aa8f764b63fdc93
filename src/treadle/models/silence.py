"""Silence: how long a stream has carried no event.

Owns telling a stream that lives from one that only keeps its connection busy.
Invariant: bytes that complete no event (comments, one letter at a time) are silence,
and the time a consumer takes is not.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct, field

from .transport import TimedOut

__all__ = ["Silence"]


def _now() -> float:
    return asyncio.get_running_loop().time()


class Silence(Struct):
    """Measures from one event to the next; without a `longest` it may last for ever."""

    longest: float | None
    _since: float = field(default_factory=_now)

    def passes(self, *, broken: bool) -> None:
        """More bytes came; `broken` says whether with an event. Raises `TimedOut`."""
        if broken:
            self._since = _now()
        elif self.longest is not None and _now() - self._since > self.longest:
            raise TimedOut("", "idle", self.longest)
