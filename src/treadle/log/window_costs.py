"""What the next request costs as it stands, and the window with it for programs.

Owns how the tokens of a window become money. Invariant: it asks for the price of the model that
the window is for, and says None where nobody knows it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec import Struct

from ..config.settings import Price
from ..context.composition import Composition
from ..core.entries import Head
from ..core.money import Cost
from ..core.usage import TokenUsage
from ..models.prices import find_rate

__all__ = ["NextCost", "context_json", "next_cost"]


class NextCost(Struct, frozen=True):
    """What the input of the next request costs, as it stands."""

    cold: Cost
    """Where nothing of it comes from a cache."""
    cached: Cost
    """Where all of it does."""


def next_cost(
    found: Composition, head: Head | None, own: Mapping[str, Price] | None = None
) -> NextCost | None:
    """Return what the next request costs without its answer; None when nobody knows."""
    if head is None:
        return None
    now = int(time.time() * 1000)
    rate = find_rate(head.provider, head.model, at=now, own=own, service_tier=head.service_tier)
    if rate is None:
        return None
    written = found.tokens if rate.price.cache_write is not None else None
    cold = TokenUsage(input_tokens=found.tokens, cache_write_input_tokens=written)
    cached = TokenUsage(input_tokens=found.tokens, cached_input_tokens=found.tokens)
    return NextCost(rate.cost(cold, head.cache_ttl), rate.cost(cached, head.cache_ttl))


def context_json(found: Composition, cost: NextCost | None) -> dict[str, object]:
    """Return what fills the window, for programs."""
    return {
        "tokens": found.tokens,
        "counted": found.counted,
        "window": found.window,
        "free": found.free,
        "kinds": found.by_kind(),
        "parts": found.parts,
        "next_request": cost,
    }
