"""Wrapping: an engine with a wrapper around every call.

Owns how tests get between a runtime and an engine: to watch, to fail, to be killed.
Invariant: the wrapped engine has the same powers as the engine.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, cast

from ..engines.contract import ContextEngine
from ..engines.defects import optional_powers

__all__ = ["CallWrapper", "RecordedCalls", "Work", "wrap_engine"]

Work: TypeAlias = Callable[[Any], Awaitable[Any]]
"""The engine's own method, with its parameters; None for a call without parameters."""

_REQUIRED = ("ingest", "assemble", "compact")


class CallWrapper(Protocol):
    """Is called instead of the methods of an engine."""

    async def __call__(self, call: str, given: Any, work: Work, /) -> Any:
        """Do `work` with the parameters `given`, or something else."""
        ...


def wrap_engine(engine: ContextEngine, around: CallWrapper) -> ContextEngine:
    """Return `engine` with `around` between each call and its method."""
    members: dict[str, Any] = {"info": property(lambda _: engine.info)}
    for name in (*_REQUIRED, *optional_powers(engine)):
        method = getattr(engine, name)
        members[name] = staticmethod(method if name == "tools" else _wrap_method(method, around))
    # A class of its own: runtime protocols look at classes, not at `__getattr__`.
    return cast("ContextEngine", type(f"Wrapped{type(engine).__name__}", (), members)())


def _wrap_method(method: Callable[..., Awaitable[Any]], around: CallWrapper) -> Callable[..., Any]:
    async def work(given: Any) -> Any:
        return await (method() if given is None else method(given))

    @functools.wraps(method)
    async def intercept(*given: Any) -> Any:
        return await around(method.__name__, given[0] if given else None, work)

    return intercept


class RecordedCalls(list[tuple[str, Any]]):
    """The calls of an engine and their parameters, in order."""

    async def __call__(self, call: str, given: Any, work: Work, /) -> Any:
        """Record the call if it did not fail."""
        result = await work(given)
        self.append((call, given))
        return result

    def given_to(self, *calls: str) -> list[Any]:
        """Return the parameters of some calls, in order."""
        return [given for call, given in self if call in calls]
