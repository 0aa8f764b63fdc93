"""Plug-ins: what installed packages, and hosts, add to Treadle by name.

Owns how entry points are found and loaded, for every room that has a group of them. Finding is
cheap: most packages have nothing for Treadle, and `importlib.metadata` takes its time.
Invariants: what is found is what `importlib.metadata` would find; nothing of a package is
imported before it is loaded; an error names the package, the entry point and the cause, and a
broken package does not keep the others from being loaded.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .errors import ConfigError, TreadleError
from .redact import describe_error, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "HOST",
    "TREADLE",
    "Plugin",
    "PluginGroup",
    "call_within",
    "installed_points",
    "named_plugin",
]

TREADLE = "treadle"
"""The owner of what is built in."""

HOST = "host"
"""The owner of what the program around Treadle registers, unless it says another name."""

_METADATA = (".dist-info", ".egg-info")


class Plugin(Struct, frozen=True):
    """Something that can be loaded under a name."""

    name: str
    owner: str
    """``treadle``, ``host``, or the distribution it is from."""
    target: str
    """Where it is, as ``module:name``; empty for what was registered in code."""
    load: Callable[[], Any]
    """Returns it; imports what it needs and may raise anything."""
    kind: str = "plug-in"
    """What it is, as error messages call it."""

    async def load_within(self, seconds: float) -> Any:
        """Load it in a thread that is left alone when its time is up.

        Raises what `load` raises, and `TimeoutError`.
        """
        return await call_within(self.load, seconds)

    def failure(self, why: BaseException | str) -> str:
        """Return where it cannot be loaded from, and why, in one line without a secret."""
        if isinstance(why, BaseException):
            known = isinstance(why, TreadleError)
            why = one_line(str(why)) if known else describe_error(why)
        of = f" of {self.owner!r}" if self.owner != HOST else ""
        return f"cannot be loaded from {self.target!r}{of}: {why}"

    def cause(self, why: BaseException | str) -> str:
        """Return in one line what cannot be used, and why."""
        return f"{self.kind} {self.name!r} {self.failure(why)}"

    @property
    def remedy(self) -> str:
        """What the user can do where it cannot be used."""
        return "correct what it names" if self.owner == HOST else f"update or remove {self.owner!r}"

    def problem(self, why: BaseException | str) -> str:
        """Return why it cannot be used, and what to do about it."""
        return f"{self.cause(why)}; {self.remedy}"


class PluginGroup(Struct, frozen=True):
    """The entry points of one group, such as ``treadle.engines``."""

    name: str
    kind: str
    """What one of them is, as error messages call it."""

    def plugins(self) -> tuple[Plugin, ...]:
        """Return what installed packages offer, by name and owner. Raises `ConfigError`."""
        try:
            found = [self._plugin(point) for point in installed_points(self.name)]
        except Exception as error:
            raise ConfigError(
                f"installed packages cannot be searched for {self.name!r} ({error!r}); "
                "repair or remove the package whose metadata is broken"
            ) from error
        return tuple(sorted(found, key=lambda each: (each.name, each.owner)))

    def names(self) -> tuple[str, ...]:
        """Return the names that installed packages offer. Raises `ConfigError`."""
        return tuple(plugin.name for plugin in self.plugins())

    def load(self, name: str) -> Any | None:
        """Load the first plug-in called `name`; None where there is none. Raises `ConfigError`."""
        found = next((each for each in self.plugins() if each.name == name), None)
        if found is None:
            return None
        try:
            return found.load()
        except Exception as error:
            raise ConfigError(found.problem(error)) from error

    def use_all(
        self, use: Callable[[Any], object], error: type[ConfigError] = ConfigError
    ) -> tuple[str, ...]:
        """Load every plug-in and hand it to `use`; return their names.

        Raises `error` in the end where one of them could not be loaded or used.
        """
        plugins = self.plugins()
        failures: list[tuple[str, Exception]] = []
        for plugin in plugins:
            try:
                use(plugin.load())
            except Exception as failure:  # noqa: BLE001 - other people's code may raise anything
                failures.append((plugin.problem(failure), failure))
        if failures:
            raise error("; ".join(text for text, _ in failures)) from failures[0][1]
        return tuple(plugin.name for plugin in plugins)

    def _plugin(self, point: EntryPoint) -> Plugin:
        owner = point.dist.name if point.dist else "an unknown package"
        return Plugin(point.name, owner, point.value, point.load, self.kind)


def named_plugin(target: str, kind: str) -> Plugin:
    """Return the plug-in that a host names as ``module:name``; its name is the target."""
    module, _, name = target.partition(":")

    def load() -> object:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found

    return Plugin(target, HOST, target, load, kind)


async def call_within(work: Callable[[], Any], seconds: float) -> Any:
    """Call `work` in a thread that is left alone when its time is up; return its result.

    A call that hangs holds up neither the event loop nor the end of the process. Raises what
    `work` raises, and `TimeoutError`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = _try(work)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    # Not an executor's thread: Python waits for those at its end.
    threading.Thread(target=run, name="treadle-plugin-import", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done


def _try(work: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
        return None, error
    except BaseException as error:  # noqa: BLE001 - a module that exits must not end the process
        return None, ImportError(f"it raised {error!r}")


def installed_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, by name."""
    if not _is_mentioned(f"[{group}]".encode()):
        return ()
    from importlib.metadata import entry_points  # slow, and hardly ever needed

    return tuple(sorted(entry_points(group=group), key=lambda point: point.name))


def _is_mentioned(heading: bytes) -> bool:
    """Whether some package may offer something under `heading`."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True  # packages that are in no directory
    return any(heading in _metadata_in(place) for place in map(Path, sys.path))


def _metadata_in(place: Path) -> bytes | _Archive:
    """Return the entry points of the packages in a place on the search path."""
    try:
        return _read_metadata(place, place.stat().st_mtime_ns)
    except NotADirectoryError:
        return _ARCHIVE
    except OSError:
        return b""


@lru_cache(maxsize=256)
def _read_metadata(place: Path, _changed: int) -> bytes:
    with os.scandir(place) as found:
        paths = [each.path for each in found]
    about = [path for path in paths if path.endswith(_METADATA)]
    about += [f"{path}/EGG-INFO" for path in paths if path.endswith(".egg")]
    return b"\n".join(_read(f"{each}/entry_points.txt") for each in about)


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 - a `Path` for each of so many takes longer
            return opened.read()
    except OSError:
        return b""


class _Archive:
    """The entry points of an archive: nobody knows them without opening it."""

    def __contains__(self, _: object) -> bool:
        return True


_ARCHIVE = _Archive()
