"""The harnesses that rows run on: our own, installed ones, and factories as ``module:name``.

Owns the way from a name to a test fixture. Invariant: no harness is replaced by another; one
that cannot be made is an error with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ...core.errors import ConfigError
from ...engines.loading import EngineContext
from ...harness.builtin import CODEX, TREADLE
from ...harness.offers import HarnessOffer
from ...harness.registry import HarnessRegistry, canonical
from ...models.catalog import Catalog
from .contract_rows import SHARED, WIRES, ContractRow, Wire
from .fixture import (
    MODEL,
    EngineMaker,
    FixtureContext,
    ModelMaker,
    ThreadDefaults,
    codex_fixture,
    environ,
    open_fixture,
    treadle_fixture,
)

if TYPE_CHECKING:
    from ...harness.contract import Harness
    from ...models.providers import ProviderConfig

__all__ = ["HarnessUnderTest", "harnesses_under_test", "thread_defaults", "why_codex_is_missing"]

FixtureOpener: TypeAlias = Callable[[ThreadDefaults | None], FixtureContext]
_OURS: Mapping[str, FixtureOpener] = {TREADLE: treadle_fixture, CODEX: codex_fixture}


@dataclass(frozen=True, slots=True)
class HarnessUnderTest:
    """A harness that rows run on; or none, for rows about the shared policy."""

    name: str
    open_fixture: Callable[[], FixtureContext] | None = None
    """Opens the test fixture; None for rows that need none."""
    third_party: bool = False
    """Not ours: it runs the rows that hold for every harness."""
    wire: Wire = "responses"

    def can_run(self, row: ContractRow) -> bool:
        """Return whether a row holds for this harness and its wire format."""
        if WIRES.index(row.wire) > WIRES.index(self.wire):
            return False
        return row.is_for_all if self.third_party else self.name in row.harnesses


def harnesses_under_test(
    harness: str | None = None, defaults: ThreadDefaults | None = None
) -> tuple[HarnessUnderTest, ...]:
    """Return all of our harnesses, or the one that is named. Raises `ConfigError`.

    With defaults of the caller's, the shared rows are left out: they do not use them.
    """
    wire = _wire(defaults)
    ours = [
        HarnessUnderTest(name, partial(opener, defaults), wire=wire)
        for name, opener in _OURS.items()
    ]
    if harness is None:
        shared = (
            []
            if defaults is not None and defaults != ThreadDefaults()
            else [HarnessUnderTest(SHARED)]
        )
        # Codex speaks nothing but Responses.
        return (*shared, *(ours if wire == "responses" else ours[:1]))
    if harness == SHARED:
        return (HarnessUnderTest(SHARED),)
    if ":" in harness:
        return (_third_party(harness, partial(_make_from_factory, harness), defaults, wire),)
    name = canonical(harness)
    known = [each for each in ours if each.name == name]
    return tuple(known) or (_third_party(name, partial(_make_registered, name), defaults, wire),)


def thread_defaults(
    engine: str | None = None, model: str | None = None, store: str | None = None
) -> ThreadDefaults | None:
    """Return the defaults that these names mean; None for the usual. Raises `ConfigError`."""
    if engine is None and model is None and store is None:
        return None
    return ThreadDefaults(
        engine=_engine(engine or "linear"), model=_model(model or MODEL), store=store
    )


async def why_codex_is_missing() -> str | None:
    """Return why Codex cannot be run here; None if it can."""
    from ...prompt.codex_import import find_codex

    try:
        await asyncio.to_thread(find_codex)
    except ConfigError as error:
        return str(error)
    return None


def _wire(defaults: ThreadDefaults | None) -> Wire:
    if defaults is None or defaults.model == MODEL:
        return "responses"
    return "named" if isinstance(defaults.model, str) else "any"


HarnessFactory: TypeAlias = "Callable[[HarnessOffer], Any]"


def _third_party(
    name: str, make: HarnessFactory, defaults: ThreadDefaults | None, wire: Wire
) -> HarnessUnderTest:
    async def make_harness(place: Path, reached: Mapping[str, ProviderConfig]) -> Harness:
        offer = HarnessOffer(home=place / "treadle", environ=environ(place), providers=reached)
        harness: Harness = await make(offer)
        return harness

    return HarnessUnderTest(
        name, lambda: open_fixture(name, make_harness, defaults), third_party=True, wire=wire
    )


async def _make_from_factory(target: str, offer: HarnessOffer) -> Harness:
    """Make the harness with the factory `target`."""
    made = _import_target(target)(offer)
    harness: Harness = await made if isawaitable(made) else made
    return harness


async def _make_registered(name: str, offer: HarnessOffer) -> Harness:
    """Make the harness that an installed package registers as `name`."""
    registry = HarnessRegistry()
    await registry.load()
    return await registry.make(name, offer)


def _engine(name: str) -> str | EngineMaker:
    if ":" not in name:
        return name
    factory = _import_target(name)
    return lambda: factory(EngineContext())


def _model(name: str) -> str | ModelMaker:
    provider, _ = Catalog.load().split(name)
    return name if provider else _import_target(name)


def _import_target(target: str) -> Any:
    """Import ``module:name``. Raises `ConfigError`."""
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{target!r} is not found: {error}; say MODULE:NAME of a factory that can be imported"
        ) from error
