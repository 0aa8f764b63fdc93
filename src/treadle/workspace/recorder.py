"""The recorder: looks at the workspace before and after what the tools of a thread do.

Owns when a scan runs: before the first command of a turn that can write, after a turn that had
one, and around each patch. Invariants: a turn that only talks or reads costs nothing; a command
starts after the scan before it, and nobody waits for the scan after it but the next command and
the end of the thread; a scan that fails is told once and ends no turn.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..core.aio import finish_uncancelled
from ..core.redact import describe_error
from ..sandbox import resolve_boundary

if TYPE_CHECKING:
    from ..tools.executor import Bounds
    from .disk_changes import Scan
    from .file_history import FileHistory
    from .windows import Owner

__all__ = ["FileRecorder", "Place", "find_places"]

T = TypeVar("T")


class Place(Struct, frozen=True):
    """A directory that commands may write, and what in it they may not."""

    root: Path
    skipped: frozenset[bytes]


def find_places(bounds: Bounds, home: Path, environ: Mapping[str, str]) -> list[Place]:
    """Return the workspace and the roots that the user named; temporary directories are not kept.

    Raises `ConfigError` for roots that cannot be.
    """
    from .disk_scan import skipped_paths

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


class FileRecorder:
    """Keeps what one thread's tools change, from the first change of each turn on."""

    def __init__(
        self,
        home: Path,
        *,
        owners: Callable[[], Sequence[Owner]],
        warn: Callable[[str], None],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._home, self._owners, self._warn = home, owners, warn
        self._environ = os.environ if environ is None else environ
        self._in_turn = False
        self._failed = False
        self._oversized: set[Path] = set()
        """Directories with more files than a scan looks at; they are not walked again."""
        self._before: asyncio.Task[list[tuple[Place, int]]] | None = None
        self._after: asyncio.Task[None] | None = None

    def begin_turn(self) -> None:
        """A turn begins; nothing is looked at yet."""
        self._in_turn = True

    def watch(self, bounds: Bounds) -> None:
        """Look at the workspace while a harness works there by itself.

        Nobody can make it wait, so what changes from now on is left to the scan at the end.
        """
        if self._in_turn and self._before is None:
            self._before = asyncio.create_task(self._open(bounds, since=time.time_ns()))

    async def before_command(self, bounds: Bounds) -> None:
        """Look at the workspace before the first command of a turn."""
        if not self._in_turn:
            return
        if self._before is None:
            self._before = asyncio.create_task(self._open(bounds))
        await asyncio.shield(self._before)

    async def around_patch(
        self, paths: Sequence[Path], bounds: Bounds, apply: Callable[[], Awaitable[T]]
    ) -> T:
        """Apply a patch to `paths`, and look at them before and after it."""
        if not self._in_turn:
            return await apply()
        opened = await asyncio.shield(self._before) if self._before is not None else []
        whole = frozenset(place.root for place, _ in opened) - self._oversized
        before = await self._try(lambda: self._open_patch(paths, bounds, whole))
        try:
            return await apply()
        finally:
            if before:
                close = self._try(lambda: self._close_patch(before))
                await finish_uncancelled(close)

    def end_turn(self) -> None:
        """The turn has ended: look at the workspace again, if something could change there."""
        self._in_turn = False
        before, self._before = self._before, None
        if before is not None:
            self._after = asyncio.create_task(self._close(before, time.time_ns()))

    async def settle(self) -> None:
        """Wait for the scan after the newest turn."""
        if self._after is not None:
            await asyncio.shield(self._after)

    async def _open(self, bounds: Bounds, since: int | None = None) -> list[tuple[Place, int]]:
        await self.settle()
        return await self._try(lambda: self._open_windows(bounds, since)) or []

    async def _close(self, before: asyncio.Task[list[tuple[Place, int]]], ended: int) -> None:
        opened = await before
        if opened:
            await self._try(lambda: self._close_windows(opened, ended))

    async def _try(self, work: Callable[[], T]) -> T | None:
        """Do `work` in a thread; tell once what keeps it from being done."""
        try:
            return await asyncio.to_thread(work)
        except Exception as error:  # noqa: BLE001 - whatever it is, a turn goes on
            if not self._failed:
                self._failed = True
                self._warn(f"files that are changed now cannot be rewound: {describe_error(error)}")
            return None

    # The rest blocks, and runs in threads. What it needs loads with the first command.

    def _open_windows(self, bounds: Bounds, since: int | None) -> list[tuple[Place, int]]:
        from .file_history import open_history
        from .windows import cut_windows, open_window

        opened: list[tuple[Place, int]] = []
        places = find_places(bounds, self._home, self._environ)
        owners = self._owners()
        with open_history(self._home) as history:
            for place in places:
                scan = self._scan(history, place, since)
                cut_windows(history, owners[0].thread, scan)
                opened.append((place, open_window(history, scan, "turn", owners)))
        return opened

    def _close_windows(self, opened: Sequence[tuple[Place, int]], ended: int) -> None:
        from .copy_retention import MOST_STORED, make_room
        from .file_history import open_history
        from .windows import close_window

        with open_history(self._home) as history:
            for place, window in opened:
                # What was changed after the turn is no longer the turn's.
                scan = self._scan(history, place, ended)
                close_window(history, window, scan)
            if history.used_bytes > MOST_STORED:
                with history.transaction():
                    make_room(history, MOST_STORED)

    def _scan(self, history: FileHistory, place: Place, since: int | None) -> Scan:
        from .disk_changes import Scan, scan_root

        if place.root in self._oversized:
            root = history.add_root(place.root)
            return Scan(root.number, root.scan, whole=False)
        scan = scan_root(history, place.root, place.skipped, since=since)
        if not scan.whole:
            self._oversized.add(place.root)
        return scan

    def _open_patch(
        self, paths: Sequence[Path], bounds: Bounds, whole: Collection[Path]
    ) -> list[tuple[Place, list[bytes], int]]:
        """Begin a window for the paths that no scan of this turn has looked at."""
        from .disk_changes import scan_paths
        from .disk_scan import is_passed_over
        from .file_history import open_history
        from .windows import open_window

        opened: list[tuple[Place, list[bytes], int]] = []
        places = find_places(bounds, self._home, self._environ)
        with open_history(self._home) as history:
            for place in places:
                inside = _paths_in(place, paths)
                if place.root in whole:
                    inside = [p for p in inside if is_passed_over(place.root, p, place.skipped)]
                if inside:
                    scan = scan_paths(history, place.root, inside, place.skipped)
                    window = open_window(history, scan, "patch", self._owners())
                    opened.append((place, inside, window))
        return opened

    def _close_patch(self, opened: Sequence[tuple[Place, list[bytes], int]]) -> None:
        from .disk_changes import scan_paths
        from .file_history import open_history
        from .windows import close_window

        with open_history(self._home) as history:
            for place, inside, window in opened:
                scan = scan_paths(history, place.root, inside, place.skipped)
                close_window(history, window, scan)


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
