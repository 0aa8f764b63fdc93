"""Drivers: each plays one kind of row and says what was seen.

Owns the names that rows call them by: ``module.function``, in this package. Invariant: a
driver drives the public parts of Treadle and does not know what a row expects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

__all__ = ["Driver", "find_driver"]

Driver: TypeAlias = Callable[[Mapping[str, Any], Any], Awaitable[Mapping[str, Any]]]
"""Plays what is given, on a stage or on none; what was seen."""


def find_driver(name: str) -> Driver | None:
    """The driver that a row names; None where there is none."""
    module, _, function = name.partition(".")
    try:
        found: Driver | None = getattr(import_module(f"{__name__}.{module}"), function, None)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{module}":
            raise
        return None
    return found
