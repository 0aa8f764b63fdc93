"""The slot: which engine a thread was given, found anew whenever it is not there.

Owns the way from a name or an object to an engine, and what is remembered of its health.
Invariant: a broken choice is never replaced by another one in silence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from .contract import ContextEngine
from .health import EngineHealth
from .offers import EngineContext
from .registry import DEFAULT, EngineRegistry, canonical_name
from .soundness import defects
from .words import brief

__all__ = ["EngineChoice", "Find", "Found"]


class Found(Struct, frozen=True):
    """An engine, or why there is none, and what the user should know of it."""

    engine: ContextEngine | None
    problem: str = ""
    notes: tuple[str, ...] = ()


Find: TypeAlias = Callable[[], Awaitable[Found]]


class EngineChoice(Struct):
    """The place of one thread's engine."""

    name: str = DEFAULT
    find: Find | None = None
    health: EngineHealth | None = None
    disposes: bool = True
    """Whether the engine is the thread's own; what a host brings stays the host's."""

    @property
    def linear(self) -> bool:
        """Whether nothing but the runtime's own way was chosen."""
        return self.find is None

    async def resolve(self) -> Found:
        """The engine, or why there is none."""
        assert self.find is not None, "the linear engine needs no looking for"
        return await self.find()

    async def failed(self, operation: str, reason: str, thread: str) -> None:
        """Remember a failure, for whoever looks at the engine's health."""
        if self.health is not None:
            await self.health.record(self.name, operation, reason, thread)

    async def worked(self, operation: str) -> None:
        """Forget a failure that is over."""
        if self.health is not None:
            await self.health.clear(self.name, operation)

    @classmethod
    def of_host(cls, engine: ContextEngine, home: Path | None) -> EngineChoice:
        """The slot of an engine that the host made."""
        info = getattr(engine, "info", None)
        name = str(getattr(info, "id", "") or type(engine).__name__)

        async def find() -> Found:
            if wrong := defects(engine):
                said = brief("; ".join(wrong))
                return Found(None, f"context engine {name!r} is not sound: {said}")
            return Found(engine)

        return cls(name, find, EngineHealth(home), disposes=False)

    @classmethod
    def by_name(
        cls,
        name: str,
        registry: EngineRegistry,
        *,
        home: Path | None,
        cwd: Path,
        config: dict[str, Any] | None = None,
    ) -> EngineChoice:
        """The slot of an engine that was chosen by name."""
        name = canonical_name(name)
        if name == DEFAULT:
            return cls()
        context = EngineContext.of(name, home=home, config=config, cwd=cwd)

        async def find() -> Found:
            made = await registry.resolve(name, context)
            problem = "" if made.problem is None else str(made.problem)
            return Found(made.engine, problem, made.notes)

        return cls(name, find, EngineHealth(home))
