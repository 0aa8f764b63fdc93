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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ..core.aio import finish_uncancelled
from ..core.redact import describe_error

if TYPE_CHECKING:
    from ..tools.executor import Bounds
    from .window_scans import OpenWindow, WindowScans
    from .windows import Owner

__all__ = ["FileRecorder"]

T = TypeVar("T")


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
        self._scans: WindowScans | None = None
        self._in_turn = False
        self._failed = False
        self._before: asyncio.Task[list[OpenWindow]] | None = None
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
        roots = frozenset(each.place.root for each in opened)
        before = await self._try(lambda: self._load().open_patch(paths, bounds, roots))
        try:
            return await apply()
        finally:
            if before:
                close = self._try(lambda: self._load().close_patch(before))
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

    async def _open(self, bounds: Bounds, since: int | None = None) -> list[OpenWindow]:
        await self.settle()
        return await self._try(lambda: self._load().open_windows(bounds, since)) or []

    async def _close(self, before: asyncio.Task[list[OpenWindow]], ended: int) -> None:
        opened = await before
        if opened:
            await self._try(lambda: self._load().close_windows(opened, ended))

    async def _try(self, work: Callable[[], T]) -> T | None:
        """Do `work` in a thread; tell once what keeps it from being done."""
        try:
            return await asyncio.to_thread(work)
        except Exception as error:  # noqa: BLE001 - whatever it is, a turn goes on
            if not self._failed:
                self._failed = True
                self._warn(f"files that are changed now cannot be rewound: {describe_error(error)}")
            return None

    def _load(self) -> WindowScans:
        """Return what scans, which loads with the first command. Blocks on files."""
        from .window_scans import WindowScans

        if self._scans is None:
            self._scans = WindowScans(self._home, owners=self._owners, environ=self._environ)
        return self._scans
