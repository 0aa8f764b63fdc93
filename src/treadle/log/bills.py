"""Bills: what answers cost, by the prices of their time.

Owns how a usage becomes money, and sums by whatever a caller groups by. Invariant: every
answer is in exactly one group, with its cost or as one that nobody knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from ..config.settings import Price
from ..core.money import Bill, Cost
from ..core.usage import TokenUsage
from ..models.prices import find_rate
from ..store.counted_usage import RequestUsage

__all__ = ["Spent", "cost_of", "group_spent", "spent_on"]

Key = TypeVar("Key")


class Spent(Struct, frozen=True):
    """What some answers used and cost."""

    bill: Bill = Bill()
    usage: TokenUsage = TokenUsage()

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.bill + other.bill, self.usage + other.usage)


def cost_of(row: RequestUsage, own: Mapping[str, Price] | None = None) -> Cost | None:
    """Return what an answer cost; None when nobody knows."""
    if row.usage is None or not row.model:
        return None
    rate = find_rate(row.provider, row.model, at=row.time, own=own, service_tier=row.service_tier)
    return None if rate is None else rate.cost(row.usage, row.cache_ttl)


def spent_on(rows: Iterable[RequestUsage], own: Mapping[str, Price] | None = None) -> Spent:
    """Return what `rows` used and cost in all."""
    return sum((_spent(row, own) for row in rows), start=Spent())


def group_spent(
    rows: Iterable[RequestUsage],
    key: Callable[[RequestUsage], Key],
    own: Mapping[str, Price] | None = None,
) -> dict[Key, Spent]:
    """Return what `rows` used and cost, by their key; in the order in which keys first come."""
    groups: dict[Key, Spent] = {}
    for row in rows:
        group = key(row)
        groups[group] = groups.get(group, Spent()) + _spent(row, own)
    return groups


def _spent(row: RequestUsage, own: Mapping[str, Price] | None) -> Spent:
    return Spent(Bill.of([cost_of(row, own)]), row.usage or TokenUsage())
