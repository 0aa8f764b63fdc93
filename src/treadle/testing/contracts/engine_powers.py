"""Powers: which tests apply to an engine.

Owns the choice of tests by what an engine can do. Invariant: a test for a power that the
engine lacks is removed; it is neither run nor skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...engines.contract import ContextEngine
from ...engines.defects import optional_powers

__all__ = ["needs", "remove_tests"]

_NEEDED = "_treadle_needs"

T = TypeVar("T", bound=Callable[..., object])


def needs(*wanted: str) -> Callable[[T], T]:
    """Mark a test for engines with some powers.

    Engines that are given turns have ``turns``; the others have ``passive``.
    """

    def mark(test: T) -> T:
        setattr(test, _NEEDED, frozenset(wanted))
        return test

    return mark


def remove_tests(suite: type, engine: ContextEngine) -> None:
    """Remove from `suite` the tests that `engine` lacks a power for."""
    has = {*optional_powers(engine), "passive" if engine.info.passive else "turns"}
    for name in filter(_is_test, dir(suite)):
        if not getattr(getattr(suite, name), _NEEDED, has) <= has:
            setattr(suite, name, None)


def _is_test(name: str) -> bool:
    return name.startswith("test_")
