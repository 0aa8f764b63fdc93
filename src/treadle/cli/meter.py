"""The meter: how full the window is, how much came from a cache, and what it cost.

Owns the figures of a thread while it is open. Invariant: a figure that nobody reported
and a price that nobody configured are left out, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from ..config.settings import Price
from ..core.usage import TokenUsage
from ..harness.events import AgentReported, Event, UsageReported

__all__ = ["Meter"]

_MILLION = 1_000_000


class Meter(Struct):
    """Adds up what providers report."""

    prices: Mapping[str, Price] = field(default_factory=dict)
    total: TokenUsage = field(default_factory=TokenUsage)
    occupied: int | None = None
    window: int | None = None
    _costs: dict[str, float] = field(default_factory=dict)
    _unpriced: bool = False

    def add(self, event: Event, model: str) -> None:
        """Count what an event reports about a request to `model`."""
        if isinstance(event, AgentReported):
            # What agents use counts; how full their windows are does not.
            occupied, window = self.occupied, self.window
            self.add(event.event, model)
            self.occupied, self.window = occupied, window
        if not isinstance(event, UsageReported):
            return
        self.total += event.usage
        self.occupied, self.window = event.occupied, event.window
        price = self.prices.get(model) or self.prices.get(model.partition(":")[2])
        if price is None:
            self._unpriced = True
        else:
            so_far = self._costs.get(price.currency, 0.0)
            self._costs[price.currency] = so_far + _cost(event.usage, price)

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
        """Return the cost, when every request has a price."""
        if self._unpriced or not self._costs:
            return ""
        return " + ".join(f"{amount:.4f} {currency}" for currency, amount in self._costs.items())

    def line(self) -> str:
        """Return all figures on one line."""
        return " · ".join(filter(None, [self.tokens, self.cache_share, self.context, self.cost]))


def _cost(usage: TokenUsage, price: Price) -> float:
    cached = usage.cached_input_tokens or 0
    cheaper = price.input if price.cached_input is None else price.cached_input
    given = (usage.input_tokens - cached) * price.input + cached * cheaper
    return (given + usage.output_tokens * price.output) / _MILLION
