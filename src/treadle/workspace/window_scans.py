"""Window scans: what the recorder does with the disk, and with what is kept of it.

Owns which directories are scanned, and which scan opens and closes a window. Invariant: everything
here blocks, and runs in threads; a directory with too many files is walked once and never again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..sandbox import resolve_boundary
from ..tools.executor import Bounds
from .copy_retention import MOST_STORED, make_room
from .disk_changes import Scan, scan_paths, scan_root
from .disk_scan import is_passed_over, skipped_paths
from .file_history import FileHistory, open_history
from .windows import Owner, close_window, cut_windows, open_window

__all__ = ["OpenWindow", "PatchWindow", "Place", "WindowScans", "find_places"]


class Place(Struct, frozen=True):
    """A directory that commands may write, and what in it they may not."""

    root: Path
    skipped: frozenset[bytes]


def find_places(bounds: Bounds, home: Path, environ: Mapping[str, str]) -> list[Place]:
    """Return the workspace and the roots that the user named; temporary directories are not kept.

    Raises `ConfigError` for roots that cannot be.
    """
    policy = replace(bounds.policy, mode="workspace-write")
    boundary = resolve_boundary(policy, bounds.workspace, home=home, environ=environ)
    named = bounds.policy.writable_roots if bounds.policy.mode == "workspace-write" else ()
    roots: list[Path] = []
    for name in (bounds.workspace, *(Path(each).expanduser() for each in named)):
        root = Path(os.path.realpath(name))
        nested = any(root.is_relative_to(other) for other in roots)
        if root.is_dir() and root != root.parent and not nested:
            roots = [other for other in roots if not other.is_relative_to(root)] + [root]
    return [Place(root, skipped_paths(root, boundary)) for root in roots]


class OpenWindow(Struct, frozen=True):
    """A window of a whole directory."""

    place: Place
    window: int


class PatchWindow(Struct, frozen=True):
    """A window of the paths of one patch, as seen from their directory."""

    place: Place
    paths: list[bytes]
    window: int


class WindowScans:
    """Scans the workspace of one thread."""

    def __init__(
        self, home: Path, *, owners: Callable[[], Sequence[Owner]], environ: Mapping[str, str]
    ) -> None:
        self._home, self._owners, self._environ = home, owners, environ
        self._oversized: set[Path] = set()
        """Directories with more files than a scan looks at; they are not walked again."""

    def open_windows(self, bounds: Bounds, since: int | None) -> list[OpenWindow]:
        """Begin the windows of a turn: look at every directory, since a time where one is given."""
        opened: list[OpenWindow] = []
        places = find_places(bounds, self._home, self._environ)
        owners = self._owners()
        with open_history(self._home) as history:
            for place in places:
                scan = self._scan(history, place, since)
                cut_windows(history, owners[0].thread, scan)
                opened.append(OpenWindow(place, open_window(history, scan, "turn", owners)))
        return opened

    def close_windows(self, opened: Sequence[OpenWindow], ended: int) -> None:
        """End the windows of a turn, and make room where too much is kept."""
        with open_history(self._home) as history:
            for each in opened:
                # What was changed after the turn is no longer the turn's.
                scan = self._scan(history, each.place, ended)
                close_window(history, each.window, scan)
            if history.used_bytes > MOST_STORED:
                with history.transaction():
                    make_room(history, MOST_STORED)

    def open_patch(
        self, paths: Sequence[Path], bounds: Bounds, whole: Collection[Path]
    ) -> list[PatchWindow]:
        """Begin a window for the paths that no scan of this turn has looked at.

        `whole` are the directories that one looked at.
        """
        opened: list[PatchWindow] = []
        places = find_places(bounds, self._home, self._environ)
        with open_history(self._home) as history:
            for place in places:
                inside = _paths_in(place, paths)
                if place.root in whole and place.root not in self._oversized:
                    inside = [p for p in inside if is_passed_over(place.root, p, place.skipped)]
                if inside:
                    scan = scan_paths(history, place.root, inside, place.skipped)
                    window = open_window(history, scan, "patch", self._owners())
                    opened.append(PatchWindow(place, inside, window))
        return opened

    def close_patch(self, opened: Sequence[PatchWindow]) -> None:
        """End the windows of a patch."""
        with open_history(self._home) as history:
            for each in opened:
                scan = scan_paths(history, each.place.root, each.paths, each.place.skipped)
                close_window(history, each.window, scan)

    def _scan(self, history: FileHistory, place: Place, since: int | None) -> Scan:
        if place.root in self._oversized:
            root = history.add_root(place.root)
            return Scan(root.number, root.scan, whole=False)
        scan = scan_root(history, place.root, place.skipped, since=since)
        if not scan.whole:
            self._oversized.add(place.root)
        return scan


def _paths_in(place: Place, paths: Sequence[Path]) -> list[bytes]:
    """Return the paths in a directory as seen from it, links on the way resolved."""
    found = []
    for path in paths:
        real = Path(os.path.realpath(path.parent)) / path.name
        if real.is_symlink():
            real = Path(os.path.realpath(real))
        if real != place.root and real.is_relative_to(place.root):
            found.append(os.fsencode(real.relative_to(place.root)))
    return found
