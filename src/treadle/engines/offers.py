"""Offers: who offers a context engine, and how its factory is found.

Owns the entry points of packages and names such as ``module:name``. Invariant: nothing
of a package is imported before its engine is wanted, and an import that hangs holds up
neither the event loop nor the end of the process.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from ..core.errors import ConfigError
from ..core.plugins import installed_points
from .contract import ContextEngine

__all__ = [
    "ENTRY_POINTS",
    "HOST",
    "EngineContext",
    "Factory",
    "Offer",
    "installed",
    "named",
    "seconded",
]

ENTRY_POINTS = "treadle.engines"
"""The entry point group under which packages offer engines."""

HOST = "host"
"""The owner of what the program around Treadle registers, unless it says another name."""


class EngineContext(Struct, frozen=True, kw_only=True):
    """What an engine is made with."""

    home: Path | None = None
    """A directory of the engine's own, which it makes when it needs it; None: keep nothing."""
    config: dict[str, Any] = {}
    """The table ``[engines.<id>]`` of the configuration."""
    cwd: Path = Path()
    """Where the thread works."""

    @classmethod
    def of(
        cls, engine: str, *, home: Path | None, config: dict[str, Any] | None = None, cwd: Path
    ) -> EngineContext:
        """The context of the engine with this id, below Treadle's home."""
        own = None if home is None else home / "engines" / engine
        return cls(home=own, config=config or {}, cwd=cwd)


Factory: TypeAlias = Callable[[EngineContext], ContextEngine | Awaitable[ContextEngine]]
"""Makes an engine. It runs on the event loop and must not block it."""


class Offer(Struct, frozen=True):
    """An engine that somebody offers."""

    id: str
    owner: str
    """``treadle``, ``host``, or the distribution it is from."""
    target: str
    """Where its factory is, as ``module:name``; empty for one that was registered in code."""
    load: Callable[[], object]
    """Finds the factory; imports what it needs and may raise anything."""


def installed(group: str = ENTRY_POINTS) -> tuple[Offer, ...]:
    """What installed packages offer, by id and owner. Raises `ConfigError`."""
    try:
        points = [(point, point.dist) for point in installed_points(group)]
    except Exception as error:
        raise ConfigError(
            f"installed packages cannot be searched for engines ({error!r}); "
            "mend or remove the package whose metadata is broken"
        ) from error
    offers = [
        Offer(point.name, dist.name if dist else "an unknown package", point.value, point.load)
        for point, dist in points
    ]
    return tuple(sorted(offers, key=lambda offer: (offer.id, offer.owner)))


def named(target: str) -> Offer:
    """The offer of whoever writes ``module:name``; its id is the target itself."""
    module, _, name = target.partition(":")

    def load() -> object:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    return Offer(target, HOST, target, load)


async def seconded(work: Callable[[], object], seconds: float) -> object:
    """What `work` returns, done by a thread that is left alone when its time is up.

    Raises what `work` raises, and `TimeoutError`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()

    def settle(result: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = _tried(work)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    # Not an executor's thread: Python waits for those at its end.
    threading.Thread(target=run, name="treadle-engine-import", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done


def _tried(work: Callable[[], object]) -> tuple[object, Exception | None]:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
        return None, error
    except BaseException as error:  # noqa: BLE001 - a module that exits must not end the process
        return None, ImportError(f"it raised {error!r}")
