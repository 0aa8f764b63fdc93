"""Task boxes: a container of namespaces for one attempt at a task.

Owns what is seen in a box: the programs of this machine, read-only; the workspace under the
name that the task gives it; and a `/tmp` of its own. Invariant: nothing else of this machine can
be seen, written or reached, so the box is the sandbox of what runs in it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from ..executors.remote_executor import RemoteExecutor, enter
from ..sandbox.probe import find_bubblewrap
from ..tools.executor_life import ExecutorRecord
from ..tools.pipe import PipeExecutor

__all__ = ["BoxSource", "Boxed", "Boxes", "TaskBox"]

KIND = "task-box"
_PROGRAMS = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr")
_PATHS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_MOST_OUTPUT = 1 << 20


class Boxed(Struct, frozen=True):
    """How a command in a box ended."""

    code: int | None
    """None where it did not end in time."""
    output: bytes


class Boxes:
    """Makes boxes with the bubblewrap of this machine; look for it once, and keep this."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @cached_property
    def _found(self) -> tuple[str, bool]:
        """Return the program, and whether a box can have a `/proc`. Raises `SandboxUnavailable`."""
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = find_bubblewrap(self._home)
        return str(found.binary), found.proc

    def check(self) -> None:
        """Raise `SandboxUnavailable` where no box can be made."""
        _ = self._found

    def box(
        self,
        workspace: Path,
        workdir: str,
        *,
        env: Mapping[str, str] | None = None,
        network: bool = False,
        mounts: tuple[tuple[Path, str, bool], ...] = (),
    ) -> TaskBox:
        """Return a box with `workspace` at `workdir`; `mounts` are more, each writable or not."""
        binary, proc = self._found
        seen = ((workspace, workdir, True), *mounts)
        return TaskBox(binary=binary, proc=proc, seen=seen, env=dict(env or {}), network=network)


class TaskBox(Struct, frozen=True, kw_only=True):
    """A box: every command in it is started in namespaces made alike."""

    binary: str
    proc: bool
    seen: tuple[tuple[Path, str, bool], ...]
    """Directories of this machine, their names in the box, and whether they can be written."""
    env: dict[str, str]
    network: bool

    @property
    def workdir(self) -> str:
        """Return what the workspace is called in the box."""
        return self.seen[0][1]

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the words that a command is put behind."""
        python = Path(sys.base_prefix)
        options = ["--unshare-all", *(("--share-net",) if self.network else ())]
        options += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
        options += ["--tmpfs", "/", *_system_mounts(), "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
        options += ["--proc", "/proc"] if self.proc else ["--tmpfs", "/proc"]
        if not python.is_relative_to("/usr"):
            options += ["--ro-bind", str(python), str(python)]
        if Path("/etc/profile").exists():
            # Login shells would set another search path.
            options += ["--ro-bind", "/dev/null", "/etc/profile"]
        for source, target, writable in self.seen:
            options += ["--bind" if writable else "--ro-bind", str(source), target]
        for name, value in self._variables(python).items():
            options += ["--setenv", name, value]
        return (self.binary, *options, "--chdir", self.workdir, "--")

    def _variables(self, python: Path) -> dict[str, str]:
        own = str(python / "bin")
        paths = _PATHS if own in _PATHS else (own, *_PATHS)
        usual = {"HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: S108
        return {"PATH": ":".join(paths), **usual, **self.env}

    async def run(self, *argv: str, seconds: float, data: bytes = b"") -> Boxed:
        """Run a command to its end, or for so long; return the end of what it printed."""
        process = await create_subprocess_exec(
            *(*self.argv, *argv),
            stdin=PIPE if data else DEVNULL,
            stdout=PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={},
            start_new_session=True,
        )
        said = bytearray()
        code: int | None = None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await _read(process, said, data)
                    code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Boxed(code, bytes(said))


async def _read(process: asyncio.subprocess.Process, said: bytearray, data: bytes) -> None:
    assert process.stdout is not None, "it was asked for"
    if process.stdin is not None:
        process.stdin.write(data)
        process.stdin.close()
    while piece := await process.stdout.read(1 << 16):
        said += piece
        del said[:-_MOST_OUTPUT]


def _system_mounts() -> list[str]:
    """Return the options that show the programs of this machine, and none of its other files."""
    options: list[str] = []
    for name in _PROGRAMS:
        place = Path("/", name)
        if place.is_symlink():
            options += ["--symlink", os.readlink(place), str(place)]  # noqa: PTH115 - as it is
        elif place.is_dir():
            options += ["--ro-bind", str(place), str(place)]
    return options


class BoxSource:
    """The executor of a thread that works in a box."""

    contains = True

    def __init__(self, box: TaskBox) -> None:
        self._box = box
        self.description = "a container made for this task"
        self.plan = ExecutorRecord(kind=KIND, where=KIND, workspace=box.workdir)

    async def start(self, thread: str) -> RemoteExecutor:
        """Enter the box."""
        pipe = await PipeExecutor.connect(self._box.argv, env={}, name=self.description)
        workspace = await enter(pipe, self._box.workdir, make=False)
        record = ExecutorRecord(kind=KIND, where=KIND, workspace=workspace, owner=thread)
        return RemoteExecutor(pipe, record)

    async def connect(self, record: ExecutorRecord) -> RemoteExecutor:
        """Enter it again: all that lasts is the workspace."""
        return await self.start(record.owner)

    async def stop(self, record: ExecutorRecord) -> None:
        """Leave the workspace: it belongs to the run."""
