"""Wrapping: an engine with something in the way of every call.

Owns how tests get between a runtime and an engine: to watch, to fail, to be killed.
Invariant: what is wrapped has the same powers as before, and no others.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, cast

from ..engines.contract import ContextEngine
from ..engines.defects import optional_powers

__all__ = ["CallWrapper", "RecordedCalls", "Work", "wrap_engine"]

Work: TypeAlias = Callable[[Any], Awaitable[Any]]
"""The engine's own doing, with what it is to be given; None where a call is given nothing."""

_REQUIRED = ("ingest", "assemble", "compact")


class CallWrapper(Protocol):
    """Stands around the calls of an engine."""

    async def __call__(self, call: str, given: Any, work: Work, /) -> Any:
        """Do `work` with what is `given`, or something else."""
        ...


def wrap_engine(engine: ContextEngine, around: CallWrapper) -> ContextEngine:
    """`engine`, with `around` in the way of every call."""
    members: dict[str, Any] = {"info": property(lambda _: engine.info)}
    for name in (*_REQUIRED, *optional_powers(engine)):
        method = getattr(engine, name)
        members[name] = staticmethod(method if name == "tools" else _intercepted(method, around))
    # A class of its own: runtime protocols look at classes, not at `__getattr__`.
    return cast("ContextEngine", type(f"Wrapped{type(engine).__name__}", (), members)())


def _intercepted(method: Callable[..., Awaitable[Any]], around: CallWrapper) -> Callable[..., Any]:
    async def work(given: Any) -> Any:
        return await (method() if given is None else method(given))

    @functools.wraps(method)
    async def intercept(*given: Any) -> Any:
        return await around(method.__name__, given[0] if given else None, work)

    return intercept


class RecordedCalls(list[tuple[str, Any]]):
    """Notes every call of an engine and what it was given."""

    async def __call__(self, call: str, given: Any, work: Work, /) -> Any:
        """Note the call when it has ended well."""
        result = await work(given)
        self.append((call, given))
        return result

    def given_to(self, *calls: str) -> list[Any]:
        """What some calls were given, in order."""
        return [given for call, given in self if call in calls]
