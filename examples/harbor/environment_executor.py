"""An executor over an environment of Harbor: commands and files are there, all else is here.

Owns the translation, and nothing of Harbor's: an environment is whatever has the three methods of
`Environment`. Invariant: a command that is left or killed here gets no second chance there; its
outcome is told as unknown.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import tempfile
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from treadle.tools.executor import Bounds, ProcessSpec
from treadle.tools.patch.errors import PatchFailed, PatchStale
from treadle.tools.patch.file_edits import Edit, digest
from treadle.tools.patch.patch_plan import apply_patch

__all__ = ["Environment", "EnvironmentExecutor"]

T = TypeVar("T")


class Said(Protocol):
    """How a command ended."""

    stdout: str | None
    stderr: str | None
    return_code: int


class Environment(Protocol):
    """What is needed of an environment; Harbor's `BaseEnvironment` has it."""

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
    ) -> Any: ...

    async def upload_file(self, source_path: Path | str, target_path: str) -> None: ...

    async def download_file(self, source_path: str, target_path: Path | str) -> None: ...


class EnvironmentExecutor:
    """Runs commands in an environment; its container is the boundary."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._running: set[asyncio.Task[Said]] = set()

    async def start(self, spec: ProcessSpec) -> EnvironmentProcess:
        """Start a command; what it prints comes when it has ended."""
        line = f"( {shlex.join(spec.argv)} ) 2>&1 </dev/null"
        asked = self._environment.exec(line, cwd=str(spec.cwd), env=dict(spec.env))
        task = asyncio.ensure_future(asked)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return EnvironmentProcess(task)

    async def read(self, path: Path, *, bounds: Bounds, limit: int | None = None) -> bytes:
        """Read a file there."""
        del bounds
        data = await self.download(path)
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return data if limit is None else data[:limit]

    async def write(self, path: Path, data: bytes, *, bounds: Bounds) -> None:
        """Replace a file there."""
        del bounds
        await self.upload(path, data)

    async def patch(self, text: str, *, cwd: Path, bounds: Bounds) -> str:
        """Apply a patch: planned here, with files from there, and written when all of it fits."""
        del bounds
        files = EnvironmentFiles(self, asyncio.get_running_loop())
        plan = await asyncio.to_thread(lambda: apply_patch(text, cwd, files=files))
        return plan.summary

    async def close(self) -> None:
        """Leave what still runs; the environment ends it with itself."""
        for task in tuple(self._running):
            task.cancel()

    async def run(self, *argv: str) -> str:
        """Run a command of ours. Raises `OSError` where it fails."""
        said = await self._environment.exec(shlex.join(argv))
        if said.return_code:
            raise OSError(errno.EIO, (said.stderr or said.stdout or "it failed").strip())
        return said.stdout or ""

    async def download(self, path: Path) -> bytes | None:
        """Return the content of a file there; None where nothing is."""
        here = await self._environment.exec(shlex.join(("test", "-f", str(path))))
        if here.return_code:
            return None
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place, "file")
            await self._environment.download_file(str(path), copy)
            return copy.read_bytes()

    async def upload(self, path: Path, data: bytes) -> None:
        """Write beside the file and rename, so that a reader finds one of the two, whole."""
        part = path.with_name(f".{path.name}.part")
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place, "file")
            copy.write_bytes(data)
            await self._environment.upload_file(copy, str(part))
        # The mode of a file that is replaced stays.
        keep = f"chmod --reference={shlex.quote(str(path))} {shlex.quote(str(part))} 2>/dev/null; "
        await self.run("sh", "-c", f"{keep}mv -f -- {shlex.join((str(part), str(path)))}")


class EnvironmentProcess:
    """A command in an environment; there is no way to type into it."""

    def __init__(self, task: asyncio.Task[Said]) -> None:
        self._task = task

    async def output(self) -> AsyncIterator[bytes]:
        """Yield what it printed, once it has ended."""
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            said = self._task.result()
            yield f"{said.stdout or ''}{said.stderr or ''}".encode()

    async def write(self, data: bytes) -> None:
        """Refuse: it has no terminal."""
        raise BrokenPipeError(errno.EPIPE, f"nobody reads the {len(data)} bytes")

    async def wait(self) -> int:
        """Wait for its exit code."""
        await asyncio.wait({self._task})
        return 137 if self._task.cancelled() else int(self._task.result().return_code)

    async def kill(self) -> None:
        """Leave it: what an environment has begun, it ends by itself."""
        self._task.cancel()
        await asyncio.wait({self._task})


class EnvironmentFiles:
    """The files of an environment, for patches; its methods block in a thread."""

    def __init__(self, executor: EnvironmentExecutor, loop: asyncio.AbstractEventLoop) -> None:
        self._executor, self._loop = executor, loop

    def locate(self, path: Path, *, follow: bool) -> Path:
        """Return the real place of a path."""
        if follow:
            return Path(self._ask(self._executor.run("realpath", "-m", "--", str(path))).strip())
        return self.locate(path.parent, follow=True) / path.name

    def read(self, place: Path) -> bytes | None:
        """Read a file; None where nothing is."""
        return self._ask(self._executor.download(place))

    def replace(self, edits: Sequence[Edit]) -> None:
        """Make all edits, after a look at whether every file is as it was planned for."""
        for edit in edits:
            before = self.read(edit.place)
            if (None if before is None else digest(before)) != edit.before:
                raise PatchStale(edit.place)
        try:
            for edit in edits:
                self._make(edit)
        except OSError as error:
            raise PatchFailed(f"a part may be written: {error}") from error

    def _make(self, edit: Edit) -> None:
        if edit.data is None:
            self._ask(self._executor.run("rm", "--", str(edit.place)))
            return
        self._ask(self._executor.run("mkdir", "-p", "--", str(edit.place.parent)))
        self._ask(self._executor.upload(edit.place, edit.data))

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()
