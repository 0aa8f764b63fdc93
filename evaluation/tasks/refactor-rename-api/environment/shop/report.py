"""Reports."""

from shop.pricing import calc


def average(orders):
    """Return the average price of orders."""
    return calc([calc(order) for order in orders]) / len(orders)
