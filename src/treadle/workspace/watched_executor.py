"""An executor whose changes to the workspace are recorded.

Owns which calls are worth a look. Invariant: it adds nothing to a command that cannot write,
and changes no result.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..tools.executor import Bounds, Process, ProcessSpec, ToolExecutor, find_place

if TYPE_CHECKING:
    from ..sandbox.place import CommandPlace
    from .recorder import FileRecorder

__all__ = ["WatchedExecutor"]


class WatchedExecutor:
    """Another executor of this machine, with a recorder beside it."""

    def __init__(self, executor: ToolExecutor, recorder: FileRecorder) -> None:
        self._executor, self._recorder = executor, recorder

    async def start(self, spec: ProcessSpec) -> Process:
        """Start a process."""
        from ..sandbox.safety import is_safe_read_only

        if spec.bounds.policy.mode != "read-only" and not is_safe_read_only(spec.argv):
            await self._recorder.before_command(spec.bounds)
        return await self._executor.start(spec)

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """Read a regular file."""
        return await self._executor.read(path, bounds=bounds, limit=limit)

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file."""
        await self._recorder.around_patch(
            [path], bounds, lambda: self._executor.write(path, data, bounds=bounds)
        )

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch."""
        return await self._recorder.around_patch(
            list(_patched_paths(text, cwd)),
            bounds,
            lambda: self._executor.patch(text, cwd=cwd, bounds=bounds),
        )

    def find_place(self, cwd: Path, *, bounds: Bounds) -> CommandPlace | None:
        """Return what the directory and the search path of a command lead to."""
        return find_place(self._executor, cwd, bounds)

    async def close(self) -> None:
        """Kill every process that is still running."""
        await self._executor.close()


def _patched_paths(text: str, cwd: Path) -> Iterator[Path]:
    from ..tools.patch.errors import PatchError
    from ..tools.patch.parser import UpdateFile, parse_patch

    try:
        hunks = parse_patch(text).hunks
    except PatchError:
        return
    for hunk in hunks:
        yield cwd / hunk.path
        if isinstance(hunk, UpdateFile) and hunk.move_to:
            yield cwd / hunk.move_to
