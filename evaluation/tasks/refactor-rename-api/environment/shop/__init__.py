"""A shop."""

from .pricing import calc

__all__ = ["calc"]
