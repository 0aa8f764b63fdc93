"""The areas, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module

from attack.attempt import Area, Attempt

__all__ = ["AREAS", "all_areas", "find_attempts"]

AREAS = (
    *("sandbox", "approvals", "hooks", "reading", "rewinding", "environment"),
    *("network", "webhooks", "executors"),
    *("provider", "imports", "forging", "secrets", "store", "crash"),
)


def all_areas(only: Sequence[str] = ()) -> list[Area]:
    """Return the areas, or some of them."""
    names = [name for name in AREAS if not only or name in only]
    return [import_module(f"{__name__}.{name}").AREA for name in names]


def find_attempts(keys: Iterable[str]) -> list[Attempt]:
    """Return the attempts with these keys."""
    wanted = set(keys)
    return [each for area in all_areas() for each in area.attempts if each.key in wanted]
