"""Making: from an offer to an engine that is sound, or the reason why there is none.

Owns the sentences about engines that cannot be used. Invariant: an import or a factory
that raises, hangs or makes something else ends in `Unusable`, in bounded time and without
a secret in its words, and what was made in vain has been asked to let go.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..core.errors import EngineFailed
from .contract import ContextEngine
from .guard import EngineGuard
from .info import EngineInfo
from .offers import HOST, EngineContext, Offer, seconded
from .soundness import defects
from .words import brief, describe_error

__all__ = ["EngineProblem", "ProblemKind", "UnusableEngine", "make_engine"]

ProblemKind: TypeAlias = Literal["missing", "conflict", "import", "factory", "unsound"]


class EngineProblem(Struct, frozen=True, kw_only=True):
    """Why an engine cannot be used."""

    kind: ProblemKind
    cause: str
    remedy: str
    defects: tuple[str, ...] = ()
    """For one that is not sound: all that is wrong with it."""

    @property
    def message(self) -> str:
        """The one line that a user should see."""
        return f"{self.cause}; {self.remedy}"

    def __str__(self) -> str:
        return self.message


class UnusableEngine(Exception):
    """The way out for an engine with a problem; the registry makes a result of it."""

    def __init__(self, problem: EngineProblem) -> None:
        self.problem = problem
        super().__init__(problem.message)


async def make_engine(offer: Offer, context: EngineContext, seconds: float) -> ContextEngine:
    """The engine that is offered; its import and its factory get `seconds` each.

    Raises `Unusable`.
    """
    factory = await _loaded(offer, seconds)
    # Factories take their settings apart, and the next one is given the same.
    context = msgspec.structs.replace(context, config=copy.deepcopy(context.config))
    guard = EngineGuard(EngineInfo(id=offer.id, name=offer.id))
    try:
        candidate = await guard.call("factory", _awaited(factory), context, object, seconds)
    except EngineFailed as error:
        remedy = "check its settings, or choose another engine"
        raise UnusableEngine(
            EngineProblem(kind="factory", cause=brief(str(error)), remedy=remedy)
        ) from error
    if found := defects(candidate):
        await _let_go(guard, candidate, seconds)
        raise UnusableEngine(_unsound(offer, found))
    assert isinstance(candidate, ContextEngine)
    return candidate


async def _loaded(offer: Offer, seconds: float) -> Any:
    try:
        factory = await seconded(offer.load, seconds)
    except TimeoutError as error:
        raise UnusableEngine(_unloadable(offer, f"no end within {seconds:g} s")) from error
    except Exception as error:
        raise UnusableEngine(_unloadable(offer, describe_error(error))) from error
    if not callable(factory):
        kind = type(factory).__name__
        why = f"it is a value of type {kind!r}, not a function that makes an engine"
        raise UnusableEngine(_unloadable(offer, why))
    return factory


async def _let_go(guard: EngineGuard, candidate: Any, seconds: float) -> None:
    dispose = None if isinstance(candidate, type) else getattr(candidate, "dispose", None)
    if callable(dispose):
        try:
            await guard.call("dispose", _awaited(dispose), None, object, seconds)
        except EngineFailed:
            return  # it is rejected already, and for a better reason


def _awaited(function: Any) -> Any:
    """`function`, async or not, as the guard calls things."""

    async def call(*given: object) -> object:
        result = function(*given)
        return await result if inspect.isawaitable(result) else result

    return call


def _unloadable(offer: Offer, why: str) -> EngineProblem:
    mend = "correct what it names" if offer.owner == HOST else f"update or remove {offer.owner!r}"
    return EngineProblem(
        kind="import",
        cause=f"context engine {offer.id!r} cannot be loaded from {offer.target!r}: {why}",
        remedy=f"{mend}, or choose another engine",
    )


def _unsound(offer: Offer, found: tuple[str, ...]) -> EngineProblem:
    return EngineProblem(
        kind="unsound",
        cause=f"context engine {offer.id!r} is not sound: {', and '.join(found)}",
        remedy="update it, or choose another engine",
        defects=found,
    )
