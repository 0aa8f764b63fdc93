"""How long a model may take for a summary: as long as it was measured to need, and some more.

Owns what was measured of each model. Invariant: a limit never falls below the usual one and
never rises above half an hour; a call that ran out of time raises the next limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct, field

__all__ = ["CallPace"]

_SLACK = 3.0
"""How many times longer than expected a call may take."""
_WRITING = 3
"""How many tokens are read in the time in which one is written."""
_NEWEST = 0.5
"""How much the newest measurement counts."""


class CallPace(Struct, frozen=True):
    """The pace of the models that write summaries."""

    usual: float = 60.0
    """Seconds for each call of a model of which nothing is known."""
    most: float = 1_800.0
    clock: Callable[[], float] = time.monotonic
    """Returns seconds that only grow."""
    _seconds_per_token: dict[str, float] = field(default_factory=dict)

    def limit(self, model: str, read: int, written: int) -> float:
        """Return the seconds for a call that reads and writes so many tokens."""
        expected = self._seconds_per_token.get(model, 0.0) * _work(read, written)
        return min(self.most, max(self.usual, _SLACK * expected))

    def record(
        self, model: str, read: int, written: int, seconds: float, *, answered: bool
    ) -> None:
        """Note how long a call took; one that was not answered would have taken longer."""
        measured = seconds / _work(read, written)
        before = self._seconds_per_token.get(model)
        if not answered:
            measured = max(measured, before or 0.0)
        elif before is not None:
            measured = _NEWEST * measured + (1 - _NEWEST) * before
        self._seconds_per_token[model] = measured


def _work(read: int, written: int) -> int:
    return max(1, read + _WRITING * written)
