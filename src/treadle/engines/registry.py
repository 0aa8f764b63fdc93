"""The registry of engines: who offers which, and which one a name means.

Owns registration, reserved ids and conflicts. Invariants: of two packages that claim one
id none is chosen silently, and whatever is wrong with an engine is a `Resolution` that
says so, never an exception.
"""

from __future__ import annotations

import asyncio
import functools

from msgspec import Struct, field

from ..core.errors import ConfigError, EngineConflict
from ..core.patterns import regex
from ..core.service import Service, later
from .contract import ContextEngine
from .making import EngineProblem, UnusableEngine, make_engine
from .offers import HOST, EngineContext, Factory, Offer, installed, named

__all__ = [
    "DEFAULT",
    "EngineContext",
    "EngineProblem",
    "EngineRegistry",
    "Factory",
    "Offer",
    "Resolution",
    "canonical_name",
    "engine_registry",
]

DEFAULT = "linear"
"""The engine of threads whose user has chosen none."""

_TREADLE = "treadle"
_ALIASES = {"legacy": DEFAULT}
_ID = regex(r"[a-z][a-z0-9_-]{0,63}")


class Resolution(Struct, frozen=True, kw_only=True):
    """An engine, or why there is none."""

    id: str
    """The id that was asked for, under its proper name."""
    owner: str = ""
    engine: ContextEngine | None = None
    problem: EngineProblem | None = None
    notes: tuple[str, ...] = ()
    """What the user should know although the engine works: who else claims its id."""


class EngineRegistry(Service):
    """The engines of one process."""

    timeout: float = 30.0
    """Seconds that an import may take, and a factory."""
    _registered: dict[str, Offer] = later()
    _refused: list[EngineConflict] = field(default_factory=list)
    _installed: tuple[Offer, ...] | None = None

    def __post_init__(self) -> None:
        self._registered = {
            name: Offer(name, _TREADLE, "", functools.partial(_itself, factory))
            for name, factory in (("linear", _linear), ("lossless", _lossless))
        }

    def register(
        self, engine_id: str, factory: Factory, *, owner: str = HOST, refresh: bool = False
    ) -> None:
        """Offer an engine in code; with `refresh`, instead of an older one of the same owner.

        Raises `EngineConflict` when the id is taken, and `ConfigError` for a wrong one.
        """
        name = engine_id.strip()
        if wrong := _id_defect(name):
            raise ConfigError(f"{wrong}; rename it")
        if owner == _TREADLE:
            raise ConfigError(
                f"the owner {owner!r} is Treadle itself; register under your own name"
            )
        taken = self._owner(name)
        if taken is not None and not (taken == owner and refresh):
            conflict = EngineConflict(name, taken, owner)
            if taken != owner:
                self._refused.append(conflict)
            raise conflict
        self._registered[name] = Offer(name, owner, "", lambda: factory)

    def engines(self) -> tuple[Offer, ...]:
        """Every offer, the built-in ones first, contested ones included.

        Looks through installed packages the first time, and loads none. Raises `ConfigError`.
        """
        offers = {*self._registered.values(), *self._packages()}
        return tuple(sorted(offers, key=lambda each: (each.owner != _TREADLE, each.id, each.owner)))

    def conflicts(self) -> tuple[EngineConflict, ...]:
        """Who was refused an id, and who has it. Raises `ConfigError`."""
        claimed = dict.fromkeys(_ALIASES, _TREADLE)
        claimed |= {name: offer.owner for name, offer in self._registered.items()}
        found = list(self._refused)
        for offer in self._packages():
            existing = claimed.setdefault(offer.id, offer.owner)
            if existing != offer.owner:
                found.append(EngineConflict(offer.id, existing, offer.owner))
        return tuple(found)

    async def resolve(self, engine_id: str, context: EngineContext) -> Resolution:
        """Make the engine that was chosen; what goes wrong is told in the result."""
        name, owner = canonical_name(engine_id), ""
        try:
            offer = await self._chosen(name)
            owner = offer.owner
            engine = await make_engine(offer, context, self.timeout)
        except UnusableEngine as reason:
            return Resolution(id=name, owner=owner, problem=reason.problem)
        return Resolution(id=name, owner=owner, engine=engine, notes=self._notes(name))

    async def examine(self, target: str, context: EngineContext) -> Resolution:
        """Make the engine of a factory that is named as ``module:name``."""
        try:
            engine = await make_engine(named(target), context, self.timeout)
        except UnusableEngine as reason:
            return Resolution(id=target, problem=reason.problem)
        return Resolution(id=target, engine=engine)

    def _packages(self) -> tuple[Offer, ...]:
        if self._installed is None:
            self._installed = installed()
        return self._installed

    def _owner(self, name: str) -> str | None:
        if name in _ALIASES:
            return _TREADLE
        offers = (*self._registered.values(), *(self._installed or ()))
        return next((offer.owner for offer in offers if offer.id == name), None)

    async def _chosen(self, name: str) -> Offer:
        if name == DEFAULT:
            return self._registered[name]  # without a look at packages: it is always there
        trouble = ""
        try:
            packages = await asyncio.to_thread(self._packages)
        except ConfigError as error:
            packages, trouble = (), str(error)
        claims = [offer for offer in packages if offer.id == name]
        if name in self._registered:
            return self._registered[name]
        if not claims:
            raise UnusableEngine(self._missing(name, trouble))
        if len(claims) > 1:
            raise UnusableEngine(_contested(name, claims))
        if wrong := _id_defect(name):
            raise UnusableEngine(_misnamed(claims[0], wrong))
        return claims[0]

    def _missing(self, name: str, trouble: str) -> EngineProblem:
        import difflib

        known = {*self._registered, *(offer.id for offer in self._installed or ())}
        close = difflib.get_close_matches(name, known, n=1)
        return EngineProblem(
            kind="missing",
            cause=f"no context engine {name!r} is installed" + (f" ({trouble})" if trouble else ""),
            remedy=(f"did you mean {close[0]!r}? " if close else "")
            + "`treadle engines` lists what there is; install it, or choose another",
        )

    def _notes(self, name: str) -> tuple[str, ...]:
        if self._installed is None:
            return ()
        return tuple(str(each) for each in self.conflicts() if each.engine == name)


def canonical_name(name: str) -> str:
    """The proper name of an engine: stripped, and ``linear`` for ``legacy``."""
    stripped = name.strip()
    return _ALIASES.get(stripped, stripped)


@functools.cache
def engine_registry() -> EngineRegistry:
    """The registry of this process, in which hosts register engines of their own."""
    return EngineRegistry()


def _itself(factory: Factory) -> Factory:
    return factory


def _lossless(context: EngineContext) -> ContextEngine:
    from .lossless.engine import create_engine

    return create_engine(context)


def _linear(context: EngineContext) -> ContextEngine:
    from .plain import LinearEngine

    del context
    return LinearEngine()


def _id_defect(name: str) -> str | None:
    if _ID.fullmatch(name):
        return None
    return (
        f"engine id {name!r} must start with a lower-case letter, followed by up to 63 of "
        "a-z, 0-9, '_' and '-'"
    )


def _contested(name: str, claims: list[Offer]) -> EngineProblem:
    owners = " and ".join(repr(offer.owner) for offer in claims)
    return EngineProblem(
        kind="conflict",
        cause=f"context engine {name!r} is offered by {owners}",
        remedy="uninstall all but one of them",
    )


def _misnamed(offer: Offer, wrong: str) -> EngineProblem:
    remedy = f"update or remove {offer.owner!r}, or choose another engine"
    return EngineProblem(kind="unsound", cause=wrong, remedy=remedy, defects=(wrong,))
