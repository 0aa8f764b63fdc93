"""Testing: what hosts and third parties prove their own parts with.

Offers `layout` (a request as one line per item), the `guard` plugin (no test may
break a prompt prefix without saying so) and the `contracts` of the seams.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .layouts import layout

if TYPE_CHECKING:
    from . import contracts, guard

__all__ = ["contracts", "guard", "layout"]


def __getattr__(name: str) -> Any:
    # Both need pytest, and pytest wants to be the first to import its plugins.
    if name in ("contracts", "guard"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
