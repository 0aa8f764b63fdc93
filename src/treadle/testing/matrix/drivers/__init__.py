"""Drivers: each carries out one kind of row and returns what it observed.

Owns the names that rows use for them: ``module.function``, in this package. Invariant: a
driver calls the public parts of Treadle and does not know what a row expects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

__all__ = ["Driver", "find_driver"]

Driver: TypeAlias = Callable[[Mapping[str, Any], Any], Awaitable[Mapping[str, Any]]]
"""Carries out what is given, on a fixture or without one; returns what it observed."""


def find_driver(name: str) -> Driver | None:
    """Return the driver that a row names; None if there is none."""
    module, _, function = name.partition(".")
    try:
        found: Driver | None = getattr(import_module(f"{__name__}.{module}"), function, None)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{module}":
            raise
        return None
    return found
