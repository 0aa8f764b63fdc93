"""Remote executors: a far end, and by what it is found again.

Owns the join of a connection with an identity. Invariant: what is paused or stopped is not
connected any more, so nothing of ours runs in it.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from ..core.redact import one_line
from ..sandbox.policy import SandboxPolicy
from ..tools.executor import Bounds, Process, ProcessSpec
from ..tools.executor_life import ExecutorGone, ExecutorRecord
from ..tools.pipe import PipeExecutor

__all__ = ["ContainerExecutor", "RemoteExecutor", "enter", "run_there"]

_FREE = SandboxPolicy(mode="danger-full-access")


class RemoteExecutor:
    """Runs commands and changes files at a far end that can be found again.

    `env` is added to the environment of every command; it goes there with each of them, and
    stands in no command line.
    """

    def __init__(
        self,
        pipe: PipeExecutor,
        record: ExecutorRecord,
        *,
        env: Mapping[str, str] | None = None,
        address: str = "",
    ) -> None:
        self._pipe = pipe
        self._env = dict(env or {})
        self._address = address
        self.record = replace(record, shell=pipe.hello.shell)
        """By what it is found."""

    @property
    def is_connected(self) -> bool:
        """Return whether it can be asked."""
        return self._pipe.is_connected

    async def start(self, spec: ProcessSpec) -> Process:
        """Start a process there."""
        if self._env:
            spec = replace(spec, env={**self._env, **spec.env})
        return await self._pipe.start(spec)

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """Read a file there."""
        return await self._pipe.read(path, bounds=bounds, limit=limit)

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file there."""
        await self._pipe.write(path, data, bounds=bounds)

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch there."""
        return await self._pipe.patch(text, cwd=cwd, bounds=bounds)

    def locate(self, path: Path) -> str:
        """Return how a person reaches a file there."""
        return f"{self._address}{path}"

    async def close(self) -> None:
        """End what runs there, and the connection."""
        await self._pipe.close()


class ContainerExecutor(RemoteExecutor):
    """A remote executor that can rest, and be removed."""

    def __init__(
        self,
        pipe: PipeExecutor,
        record: ExecutorRecord,
        *,
        pause: Callable[[], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
        env: Mapping[str, str] | None = None,
        address: str = "",
    ) -> None:
        super().__init__(pipe, record, env=env, address=address)
        self._pause, self._stop = pause, stop

    async def pause(self) -> None:
        """End what runs there, and let it rest until somebody connects again."""
        await self.close()
        await self._pause()

    async def stop(self) -> None:
        """End and remove it."""
        await self.close()
        await self._stop()


async def run_there(executor: PipeExecutor, *argv: str, cwd: Path | None = None) -> tuple[int, str]:
    """Run a command of ours at the far end; return its exit code and its output."""
    place = cwd or Path(executor.hello.cwd)
    bounds = Bounds(policy=_FREE, workspace=place)
    process = await executor.start(ProcessSpec(argv=argv, cwd=place, bounds=bounds))
    said = b"".join([data async for data in process.output()])
    return await process.wait(), said.decode(errors="replace")


async def enter(executor: PipeExecutor, directory: str, *, make: bool = True) -> str:
    """Return the real path of the workspace there; with `make`, it is made if it is not there.

    Raises `ExecutorGone` for one that is not there, else `OSError`; the connection is closed.
    """
    made = f"mkdir -p -- {_shell_path(directory)} && " if make else ""
    code, said = await run_there(
        executor, "sh", "-c", f"{made}cd -- {_shell_path(directory)} && pwd -P"
    )
    place = said.strip()
    if code or not place.startswith("/"):
        await executor.close()
        text = f"cannot work in {directory!r} of {executor.name}: {one_line(place)}"
        raise OSError(text) if make else ExecutorGone(text)
    return place


def _shell_path(directory: str) -> str:
    """Return a directory for a shell; the home there may be written ``~``."""
    if directory == "~" or directory.startswith("~/"):
        return f'"$HOME"{shlex.quote(directory[1:])}' if directory != "~" else '"$HOME"'
    return shlex.quote(directory)
