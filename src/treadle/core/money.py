"""Money: what something cost, and sums of it.

Owns how amounts are added and written. Invariant: what nobody knows is never counted as
nothing: a sum with an unknown part says that it is the least that was spent.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

__all__ = ["Bill", "Cost", "money"]


class Cost(Struct, frozen=True):
    """An amount of money."""

    amount: float
    currency: str = "USD"

    def __str__(self) -> str:
        return money(self.amount, self.currency)


class Bill(Struct, frozen=True):
    """A sum of costs. Where some are not known it is the least that was spent."""

    amounts: dict[str, float] = {}
    """By currency."""
    requests: int = 0
    unpriced: int = 0
    """How many of the requests have no price, or reported no usage."""

    @classmethod
    def of(cls, costs: Iterable[Cost | None]) -> Bill:
        """Return the sum of `costs`; None stands for a request whose cost nobody knows."""
        bill = cls()
        for each in costs:
            bill += cls({}, 1, 1) if each is None else cls({each.currency: each.amount}, 1, 0)
        return bill

    def __add__(self, other: Bill) -> Bill:
        amounts = dict(self.amounts)
        for currency, amount in other.amounts.items():
            amounts[currency] = amounts.get(currency, 0.0) + amount
        return Bill(amounts, self.requests + other.requests, self.unpriced + other.unpriced)

    @property
    def known(self) -> bool:
        """Whether the cost of every request is known."""
        return not self.unpriced

    def __str__(self) -> str:
        if not self.amounts:
            return "not known" if self.unpriced else money(0.0)
        total = " + ".join(money(amount, name) for name, amount in sorted(self.amounts.items()))
        return f"at least {total}" if self.unpriced else total


def money(amount: float, currency: str = "USD") -> str:
    """Return an amount as people read it.

    >>> money(12.3456), money(0.01234), money(0.0000012), money(0), money(3, "EUR")
    ('$12.35', '$0.0123', 'below $0.0001', '$0.00', '3.00 EUR')
    """
    if 0 < amount < 0.0001:
        return f"below {_with_currency('0.0001', currency)}"
    places = 2 if amount >= 1 or not amount else 4
    return _with_currency(f"{amount:,.{places}f}", currency)


def _with_currency(figure: str, currency: str) -> str:
    return f"${figure}" if currency == "USD" else f"{figure} {currency}"
