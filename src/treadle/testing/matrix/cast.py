"""The cast: which harnesses play the rows, and how each comes on stage.

Owns the way from a name to a stage: ours, those of installed packages, and factories as
``module:name``. Invariants: nobody is replaced by another, and who cannot appear says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...core.errors import ConfigError
from ...harness.builtin import CODEX, TREADLE
from ...harness.offers import HarnessOffer
from ...harness.registry import HarnessRegistry, canonical
from .row import SHARED, WIRES, Row, Wire
from .stage import (
    MODEL,
    EngineMaker,
    ModelMaker,
    Opened,
    Scenery,
    codex_stage,
    environ,
    opened_stage,
    treadle_stage,
)

if TYPE_CHECKING:
    from ...harness.contract import Harness
    from ...models.providers import ProviderConfig

__all__ = ["Player", "cast", "no_codex", "scenery"]

Opening: TypeAlias = Callable[[Scenery | None], Opened]
_OURS: Mapping[str, Opening] = {TREADLE: treadle_stage, CODEX: codex_stage}


@dataclass(frozen=True, slots=True)
class Player:
    """Somebody who plays rows."""

    name: str
    opened: Callable[[], Opened] | None = None
    """Opens the stage; None where a row needs none."""
    guest: bool = False
    """Not ours: plays what every harness has to keep."""
    wire: Wire = "responses"

    def plays(self, row: Row) -> bool:
        """Whether a row is meant for it."""
        if WIRES.index(row.wire) > WIRES.index(self.wire):
            return False
        return row.everywhere if self.guest else self.name in row.harnesses


def cast(harness: str | None = None, scenes: Scenery | None = None) -> tuple[Player, ...]:
    """Who plays: everybody of ours, or the one that is named. Raises `ConfigError`.

    With a scenery of somebody else's, the shared rows are not played: they would not see it.
    """
    wire = _wire(scenes)
    ours = [Player(name, partial(opened, scenes), wire=wire) for name, opened in _OURS.items()]
    if harness is None:
        shared = [] if scenes is not None and scenes != Scenery() else [Player(SHARED)]
        # Codex speaks nothing but Responses.
        return (*shared, *(ours if wire == "responses" else ours[:1]))
    if harness == SHARED:
        return (Player(SHARED),)
    if ":" in harness:
        return (_guest(harness, partial(_made, harness), scenes, wire),)
    name = canonical(harness)
    known = [player for player in ours if player.name == name]
    return tuple(known) or (_guest(name, partial(_registered, name), scenes, wire),)


def scenery(engine: str | None = None, model: str | None = None) -> Scenery | None:
    """The scenery that is asked for by names; None for the usual. Raises `ConfigError`."""
    if engine is None and model is None:
        return None
    return Scenery(engine=_engine(engine or "linear"), model=_model(model or MODEL))


async def no_codex() -> str | None:
    """Why Codex cannot play here; None where it can."""
    from ...prompt.codex_import import find_codex

    try:
        await asyncio.to_thread(find_codex)
    except ConfigError as error:
        return str(error)
    return None


def _wire(scenes: Scenery | None) -> Wire:
    if scenes is None or scenes.model == MODEL:
        return "responses"
    return "named" if isinstance(scenes.model, str) else "any"


Making: TypeAlias = "Callable[[HarnessOffer], Any]"


def _guest(name: str, make: Making, scenes: Scenery | None, wire: Wire) -> Player:
    async def made(place: Path, reached: Mapping[str, ProviderConfig]) -> Harness:
        offer = HarnessOffer(home=place / "treadle", environ=environ(place), providers=reached)
        harness: Harness = await make(offer)
        return harness

    return Player(name, lambda: opened_stage(name, made, scenes), guest=True, wire=wire)


async def _made(target: str, offer: HarnessOffer) -> Harness:
    """The harness that the factory `target` makes."""
    from inspect import isawaitable

    made = _found(target)(offer)
    harness: Harness = await made if isawaitable(made) else made
    return harness


async def _registered(name: str, offer: HarnessOffer) -> Harness:
    """The harness that an installed package offers as `name`."""
    registry = HarnessRegistry()
    await registry.load()
    return await registry.make(name, offer)


def _engine(name: str) -> str | EngineMaker:
    if ":" not in name:
        return name
    from ...engines.loading import EngineContext

    factory = _found(name)
    return lambda: factory(EngineContext())


def _model(name: str) -> str | ModelMaker:
    from ...models.catalog import Catalog

    provider, _ = Catalog.load().split(name)
    return name if provider else _found(name)


def _found(target: str) -> Any:
    """What ``module:name`` means. Raises `ConfigError`."""
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{target!r} is not found: {error}; say MODULE:NAME of a factory that can be imported"
        ) from error
