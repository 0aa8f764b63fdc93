"""Prices: what a request cost.

Owns which price a request has (the user's own, else the provider's list) and what follows from
its usage. Invariant: a price that nobody knows is no price, and the cost is None then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from ..config.settings import Price
from ..core.money import Cost
from ..core.usage import TokenUsage
from .profile import ModelProfile

__all__ = ["Cost", "Rate", "cost", "find_rate"]

_MILLION = 1_000_000
_LONG_LIVED = frozenset({"1h", "12h"})
"""Lifetimes (`cache_ttl`) for which providers charge more than for the shortest one."""
_SNAPSHOT = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2})$")
"""The date at the end of a model's name; its price is that of the model."""
_OWN_MACHINE = frozenset({"llamacpp", "lmstudio", "local", "ollama", "vllm"})
_SAME_LIST = {"codex": "openai"}
"""Providers whose models another one sells."""
_HOSTED = ("-cloud", ":cloud")
"""How names of models end that a local server only passes on."""
_SATURDAY = 5
_HOUR_MS = 3_600_000
"""No list changes within an hour."""


class Rate(Struct, frozen=True, kw_only=True):
    """What a model's tokens cost at one time, and who says so."""

    price: Price
    long_from: int = 0
    """Input tokens from which the whole request costs `long`; 0: it never does."""
    long: Price | None = None
    own: bool = False
    """Whether it is the user's own price."""
    looked_up: str = ""
    """The day on which the list was read; empty for an own price."""
    source: str = ""

    def cost(self, usage: TokenUsage, cache_ttl: str | None = None) -> Cost:
        """Return what `usage` costs, if prefixes were to be kept for `cache_ttl`."""
        price = self.price
        if self.long is not None and self.long_from and usage.input_tokens >= self.long_from:
            price = self.long
        read = usage.cached_input_tokens or 0
        # A wrong report must not make other input negative.
        written = min(usage.cache_write_input_tokens or 0, max(usage.input_tokens - read, 0))
        write = price.cache_write
        if cache_ttl in _LONG_LIVED and price.cache_write_long is not None:
            write = price.cache_write_long
        fresh = max(usage.input_tokens - read - written, 0)
        amount = (
            fresh * price.input
            + read * _or_input(price.cached_input, price)
            + written * _or_input(write, price)
            + usage.output_tokens * price.output
        )
        return Cost(amount / _MILLION, price.currency)


def cost(
    usage: TokenUsage,
    profile: ModelProfile,
    *,
    at: int,
    own: Mapping[str, Price] | None = None,
    cache_ttl: str | None = None,
    service_tier: str | None = None,
) -> Cost | None:
    """Return what one request to the model of `profile` cost; None when nobody knows.

    `at` is when it was answered, in milliseconds since 1970; `own` are the prices in the
    settings; `cache_ttl` and `service_tier` are what the request asked for.
    """
    rate = find_rate(profile.provider, profile.slug, at=at, own=own, service_tier=service_tier)
    return None if rate is None else rate.cost(usage, cache_ttl)


def find_rate(
    provider: str,
    model: str,
    *,
    at: int,
    own: Mapping[str, Price] | None = None,
    service_tier: str | None = None,
) -> Rate | None:
    """Return what tokens of `model` cost at the time `at`, in milliseconds since 1970.

    The user's own price, by ``provider:model`` or by the model alone, wins and holds for all
    times and service tiers.
    """
    for name in (f"{provider}:{model}", model):
        if own and name in own:
            return Rate(price=own[name], own=True)
    return _listed_rate(provider, model, at // _HOUR_MS, service_tier)


@lru_cache(maxsize=256)
def _listed_rate(provider: str, model: str, hour: int, service_tier: str | None) -> Rate | None:
    from .known_prices import KNOWN_PRICES, OWN_MACHINE  # most commands never ask for a price

    slug = model.lower()
    listed = KNOWN_PRICES.get(_SAME_LIST.get(provider, provider), {})
    spans = listed.get(slug) or listed.get(_SNAPSHOT.sub("", slug))
    if provider in _OWN_MACHINE and not slug.endswith(_HOSTED):
        spans = (OWN_MACHINE,)
    try:
        when = datetime.fromtimestamp(hour * _HOUR_MS / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    day = when.date().isoformat()
    begun = [span for span in spans or () if span.since <= day]
    if not begun:
        return None
    found = begun[-1]
    factor = found.tiers.get(service_tier or "auto")
    if factor is None:
        return None
    if found.busy_hours and not _is_busy(when, found.busy_hours):
        factor *= found.quiet
    return Rate(
        price=_times(found.price, factor),
        long_from=found.long_from,
        long=None if found.long is None else _times(found.long, factor),
        looked_up=found.looked_up,
        source=found.source,
    )


def _is_busy(when: datetime, hours: Iterable[tuple[int, int]]) -> bool:
    # Working days are those of Beijing; its hours of work lie on the same day in UTC.
    there = when + timedelta(hours=8)
    return there.weekday() < _SATURDAY and any(a <= when.hour < b for a, b in hours)


def _or_input(special: float | None, price: Price) -> float:
    return price.input if special is None else special


def _times(price: Price, factor: float) -> Price:
    def scaled(amount: float | None) -> float | None:
        return None if amount is None else amount * factor

    return replace(
        price,
        input=price.input * factor,
        output=price.output * factor,
        cached_input=scaled(price.cached_input),
        cache_write=scaled(price.cache_write),
        cache_write_long=scaled(price.cache_write_long),
    )
