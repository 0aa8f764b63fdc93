"""When a delivery that failed is tried again.

Invariant: the number of attempts and the time of the last are in the outbox, so that a new
process waits no less than the old one would have.
"""

from __future__ import annotations

from msgspec import Struct, field

from ..store.contract import OutboxRow

__all__ = ["Waits"]


class Waits(Struct):
    """Waits that double up to a longest one; what the other side wishes comes first."""

    first: float = 1.0
    longest: float = 300.0
    longest_wish: float = 3600.0
    _wishes: dict[int, float] = field(default_factory=dict)

    def wish(self, row: int, now: float, seconds: float | None) -> None:
        """The other side said when to come back."""
        if seconds is None:
            self._wishes.pop(row, None)
        else:
            self._wishes[row] = now + min(max(seconds, 0.0), self.longest_wish)

    def due(self, row: OutboxRow) -> float:
        """When to try a row; in the past for one that was never tried."""
        if row.attempts == 0:
            return 0.0
        wait = min(self.first * 2.0 ** min(row.attempts - 1, 32), self.longest)
        return self._wishes.get(row.number, row.updated / 1000 + wait)
