"""Prices."""


def calc(lst, discount=0):
    """Return the sum of the prices, less a discount in percent."""
    total = sum(lst)
    return round(total * (100 - discount) / 100, 2)
