"""An executor that several threads share.

Invariant: closing it ends what was started through it, and nothing else.
"""

from __future__ import annotations

from pathlib import Path

from ..tools.executor import Bounds, Process, ProcessSpec, ToolExecutor

__all__ = ["Lent"]


class Lent:
    """What a host's executor is to an agent."""

    def __init__(self, executor: ToolExecutor) -> None:
        self.executor = executor
        self._started: list[Process] = []

    async def start(self, spec: ProcessSpec) -> Process:
        """Start a process."""
        process = await self.executor.start(spec)
        self._started.append(process)
        return process

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """A regular file's bytes."""
        return await self.executor.read(path, bounds=bounds, limit=limit)

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file."""
        await self.executor.write(path, data, bounds=bounds)

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch."""
        return await self.executor.patch(text, cwd=cwd, bounds=bounds)

    async def close(self) -> None:
        """End every process that was started here and is still running."""
        started, self._started = self._started, []
        for process in started:
            await process.kill()
