"""Installed packages: the entry points with which they add to Treadle.

Owns the cheap question whether any package has something for Treadle at all, for most have
not, and the answer of `importlib.metadata` takes its time. Invariant: what is answered is
what `importlib.metadata` would answer.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["installed_points"]

_METADATA = (".dist-info", ".egg-info")


def installed_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, by name."""
    if not _is_mentioned(f"[{group}]".encode()):
        return ()
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=group), key=lambda point: point.name))


def _is_mentioned(heading: bytes) -> bool:
    """Whether some package may offer something under `heading`."""
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True  # packages that are in no directory
    return any(heading in _said_in(place) for place in map(Path, sys.path))


def _said_in(place: Path) -> bytes | _Archive:
    """What the packages in a place on the search path offer."""
    try:
        return _offers(place, place.stat().st_mtime_ns)
    except NotADirectoryError:
        return _ARCHIVE
    except OSError:
        return b""


@lru_cache(maxsize=256)
def _offers(place: Path, _changed: int) -> bytes:
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
    """What an archive's packages offer: nobody knows without opening it."""

    def __contains__(self, _: object) -> bool:
        return True


_ARCHIVE = _Archive()
