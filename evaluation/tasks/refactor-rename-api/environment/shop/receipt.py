"""Receipts."""

from . import pricing
from .pricing import calc as _calc


def receipt(items, discount=0):
    """Return a receipt as text."""
    lines = [f"{name:<10}{price:>8.2f}" for name, price in items]
    total = _calc(lst=[price for _, price in items], discount=discount)
    full = pricing.calc([price for _, price in items])
    return "\n".join([*lines, f"{'total':<10}{total:>8.2f}", f"saved {full - total:.2f}"])
