"""Pricing: by which prices the answers of an attempt are charged to the limit of a turn.

Owns what decides on the price of an answer. Invariant: the same request at the same time costs
the same; a price that nobody knows is no price.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from msgspec import Struct

from ..config.settings import Price
from ..core.money import Cost
from ..core.usage import TokenUsage
from ..models.prices import find_rate

__all__ = ["Pricing"]


class Pricing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What decides on the price of an attempt's answers."""

    provider: str
    model: str
    own: Mapping[str, Price] = {}
    """The user's own prices."""
    service_tier: str | None = None
    cache_ttl: str | None = None

    @property
    def currency(self) -> str:
        """The currency of the price; empty where the price is not known."""
        rate = find_rate(
            self.provider, self.model, at=_now(), own=self.own, service_tier=self.service_tier
        )
        return "" if rate is None else rate.price.currency

    def cost(self, usage: TokenUsage) -> Cost | None:
        """Return what an answer costs that comes now."""
        rate = find_rate(
            self.provider, self.model, at=_now(), own=self.own, service_tier=self.service_tier
        )
        return None if rate is None else rate.cost(usage, self.cache_ttl)


def _now() -> int:
    return int(datetime.now(UTC).timestamp() * 1_000)
