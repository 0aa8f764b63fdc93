"""The meter: how full the window is, how much came from a cache, and what it cost.

Owns the figures of a thread while it is open. Invariant: a figure that nobody reported
is left out, and a price that nobody knows is never counted as zero.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec import Struct, field

from ..config.settings import Price
from ..core.money import Bill
from ..core.usage import TokenUsage
from ..harness.events import AgentReported, Event, TurnCompleted, UsageReported
from ..models.prices import find_rate

__all__ = ["Meter"]


class Meter(Struct):
    """Adds up what providers report."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    total: TokenUsage = field(default_factory=TokenUsage)
    occupied: int | None = None
    window: int | None = None
    ended: Bill = field(default_factory=Bill)
    """What the turns cost that have ended, those of agents too."""
    _running: dict[str, Bill] = field(default_factory=dict)
    """What the present turn of each thread has cost so far; the thread itself has no name."""

    def add(self, event: Event, thread: str = "") -> None:
        """Count what an event reports; `thread` is an agent's."""
        match event:
            case AgentReported():
                # What agents use counts; how full their windows are does not.
                occupied, window = self.occupied, self.window
                self.add(event.event, event.thread)
                self.occupied, self.window = occupied, window
            case UsageReported():
                self.total += event.usage
                self.occupied, self.window = event.occupied, event.window
                self._running[thread] = self._running.get(thread, Bill()) + self._cost(event)
            case TurnCompleted():
                # The end knows summaries, too; of a turn that this process did not see, nothing.
                running = self._running.pop(thread, Bill())
                self.ended += event.cost if event.cost.requests else running

    def _cost(self, event: UsageReported) -> Bill:
        provider, _, model = event.model.partition(":")
        rate = find_rate(provider, model, at=int(time.time() * 1000), own=self.prices)
        return Bill.of([None if rate is None else rate.cost(event.usage)])

    @property
    def bill(self) -> Bill:
        """Return what was spent so far."""
        return sum(self._running.values(), start=self.ended)

    @property
    def context(self) -> str:
        """Return how much of the window is used."""
        if self.occupied is None:
            return ""
        if not self.window:
            return f"context {self.occupied:,} tokens"
        return f"context {100 * self.occupied / self.window:.0f}% of {self.window:,}"

    @property
    def tokens(self) -> str:
        """Return the tokens in and out."""
        usage = self.total
        return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"

    @property
    def cache_share(self) -> str:
        """Return the share of the input that came from a cache."""
        cached, given = self.total.cached_input_tokens, self.total.input_tokens
        return "" if cached is None or not given else f"{100 * cached // given}% cached"

    @property
    def cost(self) -> str:
        """Return the cost; nothing, when no request has a price."""
        return str(self.bill) if self.bill.amounts else ""

    def line(self) -> str:
        """Return all figures on one line."""
        return " · ".join(filter(None, [self.tokens, self.cache_share, self.context, self.cost]))
