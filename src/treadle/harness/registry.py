"""The registry of harnesses: who offers which, and which one a name means.

Owns registration, reserved ids and conflicts. Invariants: of two packages that claim one
id none is chosen silently, and a package that cannot be loaded is in nobody's way unless
its harness is asked for.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..core.errors import ConfigError, HarnessConflict, MissingHarness, TreadleError
from ..core.former_name import LOOP
from ..core.plugins import Plugin, PluginGroup
from ..core.redact import describe_error
from .builtin import AUTO, BUILT_IN, TREADLE
from .offers import HarnessOffer, Registration

if TYPE_CHECKING:
    from .contract import Harness

__all__ = ["HarnessRegistry", "canonical", "harness_registry"]

_HARNESSES = PluginGroup("treadle.harnesses", "harness")
"""Packages offer registrations, or functions that make one."""

_ALIASES = {
    "": TREADLE,
    "loop": TREADLE,
    LOOP: TREADLE,
    "codex-app-server": "codex",
    "default": AUTO,
}
_RESERVED = frozenset({AUTO, *_ALIASES})
_ID = r"[a-z][a-z0-9_-]{0,63}"


def canonical(name: str) -> str:
    """The proper name of a harness: trimmed, in lower case, and no alias."""
    plain = _plain(name)
    return _ALIASES.get(plain, plain)


def _plain(name: str) -> str:
    return name.strip().lower()


class HarnessRegistry:
    """The harnesses of one process."""

    def __init__(self, import_seconds: float = 30.0) -> None:
        self._import_seconds = import_seconds
        self._registered: dict[str, Registration] = {each.id: each for each in BUILT_IN}
        self._refused: list[HarnessConflict] = []
        self._problems: dict[str, str] = {}
        self._loaded = False

    @property
    def problems(self) -> dict[str, str]:
        """Why harnesses that packages offer cannot be used, by id."""
        return dict(self._problems)

    def register(self, registration: Registration, *, refresh: bool = False) -> None:
        """Offer a harness in code; with `refresh`, instead of an older one of the same owner.

        Raises `HarnessConflict` when the id is taken, and `ConfigError` for a wrong one.
        """
        name, owner = _plain(registration.id), registration.owner
        if owner == TREADLE:
            raise ConfigError(
                f"the owner {owner!r} is Treadle itself; register under your own name"
            )
        if (taken := self._owner(name)) is not None and not (taken == owner and refresh):
            conflict = HarnessConflict(name, taken, owner)
            if taken != owner:
                self._refused.append(conflict)
            raise conflict
        if wrong := _id_defect(name):
            raise ConfigError(f"{wrong}; rename it")
        self._registered[name] = replace(registration, id=name)

    def find(self, name: str) -> Registration:
        """The harness that `name` means. Raises `MissingHarness`."""
        proper = canonical(name)
        if proper in self._registered:
            return self._registered[proper]
        known = tuple(each.id for each in self.harnesses())
        raise MissingHarness(proper, known, self._problems.get(proper, ""))

    def harnesses(self) -> tuple[Registration, ...]:
        """Every harness that can be used, the built-in ones first."""
        found = self._registered.values()
        return tuple(sorted(found, key=lambda each: (each.owner != TREADLE, each.id)))

    def conflicts(self) -> tuple[HarnessConflict, ...]:
        """Who was refused an id, and who has it."""
        return tuple(self._refused)

    async def load(self) -> None:
        """Take in what installed packages offer. Done once; what goes wrong is a problem."""
        if self._loaded:
            return
        try:
            plugins = await asyncio.to_thread(_HARNESSES.plugins)
        except ConfigError as error:
            plugins, self._problems["*"] = (), str(error)
        loaded = [(plugin, await self._examine(plugin, plugins)) for plugin in plugins]
        if not self._loaded:  # somebody else may have been faster
            self._loaded = True
            for plugin, found in loaded:
                self._take(plugin, found)

    async def make(self, name: str, offer: HarnessOffer) -> Harness:
        """Make a harness. Raises `TreadleError`; no other harness takes its place."""
        chosen = self.find(name)
        try:
            made = chosen.factory(offer)
            harness = await made if inspect.isawaitable(made) else made
        except TreadleError:
            raise
        except Exception as error:
            raise ConfigError(
                f"harness {chosen.id!r} of {chosen.owner!r} cannot be made: "
                f"{describe_error(error)}; check its settings, or choose another"
            ) from error
        if wrong := _defects(harness):
            raise ConfigError(
                f"harness {chosen.id!r} of {chosen.owner!r} is not valid: {', '.join(wrong)}; "
                "update it, or choose another"
            )
        return harness

    def _owner(self, name: str) -> str | None:
        if name in _RESERVED:
            return TREADLE
        found = self._registered.get(name)
        return found.owner if found else None

    async def _examine(self, plugin: Plugin, plugins: tuple[Plugin, ...]) -> Registration | str:
        """Return what a package offers, or why it cannot be used."""
        name = _plain(plugin.name)
        rivals = sorted(each.owner for each in plugins if _plain(each.name) == name)
        if len(rivals) > 1:
            return f"{' and '.join(map(repr, rivals))} offer it: uninstall all but one of them"
        if self._owner(name) is not None:
            return ""  # not loaded in vain
        if wrong := _id_defect(name):
            return wrong
        try:
            found = _registration(await plugin.load_within(self._import_seconds))
        except Exception as error:  # noqa: BLE001 - other people's modules may raise anything
            return f"it {plugin.failure(error)}"
        return replace(found, id=name, owner=plugin.owner)

    def _take(self, plugin: Plugin, found: Registration | str) -> None:
        name = _plain(plugin.name)
        taken = self._owner(name)
        if taken is not None:
            self._refused.append(HarnessConflict(name, taken, plugin.owner))
        elif isinstance(found, str):
            self._problems[name] = found
        else:
            self._registered[name] = found


@functools.cache
def harness_registry() -> HarnessRegistry:
    """The registry of this process, in which hosts register harnesses of their own."""
    return HarnessRegistry()


def _registration(found: object) -> Registration:
    """What an entry point names: a registration, or a function that makes one."""
    if callable(found):
        found = found()
    if not isinstance(found, Registration):
        raise TypeError(f"expected a `Registration`, not a value of {type(found).__name__!r}")
    return found


def _defects(harness: object) -> tuple[str, ...]:
    """What keeps an object from being a harness."""
    missing = [name for name in ("name", "capabilities", "traits") if not hasattr(harness, name)]
    found = [f"{name!r} is missing" for name in missing]
    if not inspect.iscoroutinefunction(getattr(harness, "run", None)):
        found.append("'run' is no coroutine function")
    return tuple(found)


def _id_defect(name: str) -> str | None:
    if re.fullmatch(_ID, name):
        return None
    return (
        f"harness id {name!r} must start with a letter, followed by up to 63 of "
        "a-z, 0-9, '_' and '-'"
    )
