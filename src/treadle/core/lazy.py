"""Deferred names: a package offers names whose modules load at first use.

Owns the module-level `__getattr__` of packages. Invariant: importing such a package loads
none of its modules; a name that was used once is found without asking again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_attributes"]


def lazy_attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package; `homes` maps each module to its names."""
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def look_up(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f".{home_of[name]}", package), name)
        setattr(sys.modules[package], name, found)
        return found

    return look_up
