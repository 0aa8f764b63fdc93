"""Loading: from the engine that was chosen to one that can be used, or the reason why not.

Owns the registry of engines, what an engine is made with, and the sentences about engines that
cannot be used. Invariants: of two packages that claim one id none is chosen silently, a broken
choice is never replaced by another one in silence, and an import or a factory that raises,
hangs or makes something else ends in an `EngineProblem`, in bounded time and without a secret.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..core.choices import nearest
from ..core.errors import ConfigError, EngineConflict, EngineFailed, InvalidOption
from ..core.plugins import HOST, TREADLE, Plugin, PluginGroup, named_plugin
from ..core.redact import one_line
from .contract import ContextEngine, EngineInfo
from .defects import defects
from .guard import EngineGuard
from .reports import EngineHealth

__all__ = [
    "DEFAULT",
    "EngineChoice",
    "EngineContext",
    "EngineProblem",
    "EngineRegistry",
    "Factory",
    "ProblemKind",
    "Resolution",
    "canonical_name",
    "engine_registry",
]

DEFAULT = "linear"
"""The engine of threads whose user has chosen none."""

_ENGINES = PluginGroup("treadle.engines", "context engine")
_ALIASES = {"legacy": DEFAULT}
_ID = r"[a-z][a-z0-9_-]{0,63}"

ProblemKind: TypeAlias = Literal["missing", "conflict", "import", "factory", "unsound"]


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
        """Return the context of the engine with this id, below Treadle's home."""
        own = None if home is None else home / "engines" / engine
        return cls(home=own, config=config or {}, cwd=cwd)


Factory: TypeAlias = Callable[[EngineContext], ContextEngine | Awaitable[ContextEngine]]
"""Makes an engine. It runs on the event loop and must not block it."""


class EngineProblem(Struct, frozen=True, kw_only=True):
    """Why an engine cannot be used."""

    kind: ProblemKind
    cause: str
    remedy: str
    defects: tuple[str, ...] = ()
    """All problems of an engine that is not valid."""

    @property
    def message(self) -> str:
        """The one line that a user should see."""
        return f"{self.cause}; {self.remedy}" if self.remedy else self.cause

    def __str__(self) -> str:
        return self.message


class _Unusable(Exception):
    """Carries the problem of an engine to where it becomes a `Resolution`."""

    def __init__(self, problem: EngineProblem) -> None:
        self.problem = problem
        super().__init__(problem.message)


class Resolution(Struct, frozen=True, kw_only=True):
    """An engine, or why there is none."""

    id: str
    """The id that was asked for, under its proper name."""
    owner: str = ""
    engine: ContextEngine | None = None
    problem: EngineProblem | None = None
    notes: tuple[str, ...] = ()
    """What the user should know although the engine works: who else claims its id."""


class EngineRegistry:
    """The engines of one process: who offers which, and which one a name means."""

    def __init__(self, timeout: float = 30.0) -> None:
        self.timeout = timeout
        """Seconds that an import may take, and a factory."""
        self._registered = {
            name: Plugin(name, TREADLE, "", functools.partial(_return, factory))
            for name, factory in (("linear", _linear), ("lossless", _lossless))
        }
        self._refused: list[EngineConflict] = []
        self._installed: tuple[Plugin, ...] | None = None

    def register(
        self, engine_id: str, factory: Factory, *, owner: str = HOST, refresh: bool = False
    ) -> None:
        """Offer an engine in code; with `refresh`, instead of an older one of the same owner.

        Raises `EngineConflict` when the id is taken, and `ConfigError` for a wrong one.
        """
        name = engine_id.strip()
        if wrong := _id_defect(name):
            raise ConfigError(f"{wrong}; rename it")
        if owner == TREADLE:
            raise ConfigError(
                f"the owner {owner!r} is Treadle itself; register under your own name"
            )
        taken = self._owner(name)
        if taken is not None and not (taken == owner and refresh):
            conflict = EngineConflict(name, taken, owner)
            if taken != owner:
                self._refused.append(conflict)
            raise conflict
        self._registered[name] = Plugin(name, owner, "", functools.partial(_return, factory))

    def engines(self) -> tuple[Plugin, ...]:
        """Return every engine, the built-in ones first, contested ones included.

        Looks through installed packages the first time, and loads none. Raises `ConfigError`.
        """
        found = {*self._registered.values(), *self._packages()}
        return tuple(sorted(found, key=lambda each: (each.owner != TREADLE, each.name, each.owner)))

    def conflicts(self) -> tuple[EngineConflict, ...]:
        """Return who was refused an id, and who has it. Raises `ConfigError`."""
        claimed = dict.fromkeys(_ALIASES, TREADLE)
        claimed |= {name: plugin.owner for name, plugin in self._registered.items()}
        found = list(self._refused)
        for plugin in self._packages():
            existing = claimed.setdefault(plugin.name, plugin.owner)
            if existing != plugin.owner:
                found.append(EngineConflict(plugin.name, existing, plugin.owner))
        return tuple(found)

    async def check_name(self, engine_id: str) -> None:
        """Raise `InvalidOption` where no engine of that name is installed."""
        name = canonical_name(engine_id)
        if name in self._registered:
            return  # without looking through what is installed
        try:
            await self._find(name)
        except _Unusable as reason:
            if reason.problem.kind == "missing":
                raise InvalidOption(reason.problem.message) from reason

    async def resolve(self, engine_id: str, context: EngineContext) -> Resolution:
        """Make the engine that was chosen; the result says what went wrong."""
        name, owner = canonical_name(engine_id), ""
        try:
            plugin = await self._find(name)
            owner = plugin.owner
            engine = await _make_engine(plugin, context, self.timeout)
        except _Unusable as reason:
            return Resolution(id=name, owner=owner, problem=reason.problem)
        return Resolution(id=name, owner=owner, engine=engine, notes=self._notes(name))

    async def examine(self, target: str, context: EngineContext) -> Resolution:
        """Make the engine of a factory that is named as ``module:name``."""
        plugin = named_plugin(target, _ENGINES.kind)
        try:
            engine = await _make_engine(plugin, context, self.timeout)
        except _Unusable as reason:
            return Resolution(id=target, problem=reason.problem)
        return Resolution(id=target, engine=engine)

    def _packages(self) -> tuple[Plugin, ...]:
        if self._installed is None:
            self._installed = _ENGINES.plugins()
        return self._installed

    def _owner(self, name: str) -> str | None:
        if name in _ALIASES:
            return TREADLE
        known = (*self._registered.values(), *(self._installed or ()))
        return next((plugin.owner for plugin in known if plugin.name == name), None)

    async def _find(self, name: str) -> Plugin:
        trouble = ""
        try:
            packages = await asyncio.to_thread(self._packages)
        except ConfigError as error:
            packages, trouble = (), str(error)
        claims = [plugin for plugin in packages if plugin.name == name]
        if name in self._registered:
            return self._registered[name]
        if not claims:
            raise _Unusable(self._missing(name, trouble))
        if len(claims) > 1:
            raise _Unusable(_conflict(name, claims))
        if wrong := _id_defect(name):
            remedy = f"update or remove {claims[0].owner!r}, or choose another engine"
            raise _Unusable(
                EngineProblem(kind="unsound", cause=wrong, remedy=remedy, defects=(wrong,))
            )
        return claims[0]

    def _missing(self, name: str, trouble: str) -> EngineProblem:
        known = {*self._registered, *(plugin.name for plugin in self._installed or ())}
        close = nearest(name, known)
        return EngineProblem(
            kind="missing",
            cause=f"no context engine {name!r} is installed" + (f" ({trouble})" if trouble else ""),
            remedy=(f"did you mean {close!r}? " if close else "")
            + "`treadle engines` lists what there is; install it, or choose another",
        )

    def _notes(self, name: str) -> tuple[str, ...]:
        if self._installed is None:
            return ()
        return tuple(str(each) for each in self.conflicts() if each.engine == name)


@functools.cache
def engine_registry() -> EngineRegistry:
    """Return the registry of this process, in which hosts register engines of their own."""
    return EngineRegistry()


def canonical_name(name: str) -> str:
    """Return the proper name of an engine: stripped, and ``linear`` for ``legacy``."""
    stripped = name.strip()
    return _ALIASES.get(stripped, stripped)


class EngineChoice(Struct, frozen=True):
    """The engine that was chosen for a thread, and how it is found."""

    name: str
    find: Callable[[], Awaitable[Resolution]]
    """Finds the engine anew, whenever it is not there."""
    engine: ContextEngine | None = None
    """An engine that needs no finding."""
    health: EngineHealth | None = None
    """Where its failures are recorded."""
    disposes: bool = True
    """Whether the engine is the thread's own; what a host brings stays the host's."""

    @classmethod
    def of_host(cls, engine: ContextEngine, home: Path | None) -> EngineChoice:
        """Choose an engine that the host made."""
        info = getattr(engine, "info", None)
        name = str(getattr(info, "id", "") or type(engine).__name__)

        async def find() -> Resolution:
            if found := defects(engine):
                cause = f"context engine {name!r} is not valid: {one_line('; '.join(found))}"
                problem = EngineProblem(kind="unsound", cause=cause, remedy="", defects=found)
                return Resolution(id=name, owner=HOST, problem=problem)
            return Resolution(id=name, owner=HOST, engine=engine)

        return cls(name, find, health=EngineHealth(home), disposes=False)

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
        """Choose an engine by its name."""
        name = canonical_name(name)
        context = EngineContext.of(name, home=home, config=config, cwd=cwd)
        find = functools.partial(registry.resolve, name, context)
        if name == DEFAULT:
            return cls(name, find, engine=_linear(context))
        return cls(name, find, health=EngineHealth(home))


async def _make_engine(plugin: Plugin, context: EngineContext, seconds: float) -> ContextEngine:
    """Make an engine; its import and its factory get `seconds` each. Raises `_Unusable`."""
    factory = await _load_factory(plugin, seconds)
    # Factories take their settings apart, and the next one is given the same.
    context = msgspec.structs.replace(context, config=copy.deepcopy(context.config))
    guard = EngineGuard(EngineInfo(id=plugin.name, name=plugin.name))
    try:
        candidate = await guard.call("factory", _as_async(factory), context, object, seconds)
    except EngineFailed as error:
        remedy = "check its settings, or choose another engine"
        raise _Unusable(
            EngineProblem(kind="factory", cause=one_line(str(error)), remedy=remedy)
        ) from error
    if found := defects(candidate):
        await _dispose(guard, candidate, seconds)
        cause = f"context engine {plugin.name!r} is not valid: {', and '.join(found)}"
        remedy = "update it, or choose another engine"
        raise _Unusable(EngineProblem(kind="unsound", cause=cause, remedy=remedy, defects=found))
    assert isinstance(candidate, ContextEngine)
    return candidate


async def _load_factory(plugin: Plugin, seconds: float) -> Any:
    try:
        factory = await plugin.load_within(seconds)
    except TimeoutError as error:
        raise _unloadable(plugin, f"no end within {seconds:g} s") from error
    except Exception as error:
        raise _unloadable(plugin, error) from error
    if not callable(factory):
        kind = type(factory).__name__
        why = f"it is a value of type {kind!r}, not a function that makes an engine"
        raise _unloadable(plugin, why)
    return factory


def _unloadable(plugin: Plugin, why: Exception | str) -> _Unusable:
    remedy = f"{plugin.remedy}, or choose another engine"
    return _Unusable(EngineProblem(kind="import", cause=plugin.cause(why), remedy=remedy))


async def _dispose(guard: EngineGuard, candidate: Any, seconds: float) -> None:
    dispose = None if isinstance(candidate, type) else getattr(candidate, "dispose", None)
    if callable(dispose):
        try:
            await guard.call("dispose", _as_async(dispose), None, object, seconds)
        except EngineFailed:
            return  # it is rejected already, and for a better reason


def _as_async(function: Any) -> Any:
    """Return `function`, async or not, as the guard calls things."""

    async def call(*given: object) -> object:
        result = function(*given)
        return await result if inspect.isawaitable(result) else result

    return call


def _return(factory: Factory) -> Factory:
    return factory


def _lossless(context: EngineContext) -> ContextEngine:
    from .lossless.engine import create_engine  # loaded where it was chosen

    return create_engine(context)


def _linear(context: EngineContext) -> ContextEngine:
    from .linear import LinearEngine  # loaded where it was chosen

    del context
    return LinearEngine()


def _id_defect(name: str) -> str | None:
    if re.fullmatch(_ID, name):
        return None
    return (
        f"engine id {name!r} must start with a lower-case letter, followed by up to 63 of "
        "a-z, 0-9, '_' and '-'"
    )


def _conflict(name: str, claims: list[Plugin]) -> EngineProblem:
    owners = " and ".join(repr(plugin.owner) for plugin in claims)
    return EngineProblem(
        kind="conflict",
        cause=f"context engine {name!r} is offered by {owners}",
        remedy="uninstall all but one of them",
    )
