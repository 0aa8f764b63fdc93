"""Capabilities: the small Protocols that a plug-in may or may not fulfil.

Owns the question that is asked in every turn. Invariant: the answer is that of `isinstance`;
before Python 3.12 that takes as long as a query of the log, so here it looks at names alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Generic, Protocol, TypeGuard, TypeVar

__all__ = ["offers"]

T = TypeVar("T")


def offers(thing: object, capability: Callable[..., T]) -> TypeGuard[T]:
    """Whether `thing` has all that the Protocol `capability` names."""
    return all(hasattr(thing, name) for name in _members(capability))


@cache
def _members(capability: type) -> tuple[str, ...]:
    """Return the public names of a Protocol, those that it inherits too."""
    bases = [base for base in capability.__mro__ if base not in (Protocol, Generic, object)]
    names = (name for base in bases for name in (*vars(base), *_annotated(base)))
    return tuple(dict.fromkeys(name for name in names if not name.startswith("_")))


def _annotated(base: type) -> tuple[str, ...]:
    return tuple(getattr(base, "__annotations__", {}))
