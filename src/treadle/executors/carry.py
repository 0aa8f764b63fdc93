"""Carrying files: from the workspace of one executor into that of another.

Owns the way between two executors that know nothing of each other. Invariants: what comes from
one end is as little trusted as the other; no more travels than a limit says, and it is counted
here; a workspace that is not empty is not written.
"""

from __future__ import annotations

import tempfile
from importlib.resources import files
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from ..core.errors import ExecutorUnavailable
from ..core.redact import one_line
from ..core.typed import decode_json
from ..sandbox.policy import SandboxPolicy
from ..tools.executor import Bounds, ProcessSpec, ToolExecutor

__all__ = ["MOST_BYTES", "CarryReport", "Workspace", "carry_files", "report_files"]

MOST_BYTES = 1 << 30
"""What may travel unless the user says otherwise."""

_PARTS = ".treadle-move"
_PIECE = 16 << 20
_MOST_SAID = 1 << 20


class CarryReport(Struct, frozen=True, kw_only=True):
    """What would travel from a workspace, and what would stay."""

    git: bool
    branch: str
    commit: str
    history_bytes: int
    files: int
    """Changed and untracked ones, where there is a history."""
    file_bytes: int
    deleted: int
    ignored: tuple[str, ...]
    """Some names of what git ignores, which stays."""
    ignored_count: int
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Return how many bytes travel, roughly."""
        return self.history_bytes + self.file_bytes


class Workspace(Struct, frozen=True, kw_only=True):
    """A directory, and the executor that reaches it."""

    executor: ToolExecutor
    place: Path
    contains: bool = True
    """Whether the executor is a boundary of its own; else programs run in the sandbox."""
    python: str = "python3"

    def bounds(self, *, write: bool) -> Bounds:
        """Return what our programs may touch there."""
        if self.contains:
            policy, root = SandboxPolicy(mode="danger-full-access"), self.place
        elif write:
            # From above: directly below a root, `.git` would be protected.
            policy, root = SandboxPolicy(mode="workspace-write"), self.place.parent
        else:
            policy, root = SandboxPolicy(mode="read-only"), self.place
        return Bounds(policy=policy, workspace=root)

    async def run(
        self, program: str, *arguments: str, write: bool, into: IO[bytes], most: int
    ) -> None:
        """Run one of our programs there, and keep what it prints.

        Raises `ExecutorUnavailable` when it fails, or prints more than `most` bytes.
        """
        source = files(__package__).joinpath(f"{program}.py").read_text(encoding="utf-8")
        # What it complains about must not be mixed with what it prints.
        script = 'exec 3>&1; said=$("$0" -Ic "$@" 2>&1 >&3) || { echo "$said" >&3; exit 9; }'
        argv = ("sh", "-c", script, self.python, source, *arguments)
        bounds = self.bounds(write=write)
        process = await self.executor.start(
            ProcessSpec(argv=argv, cwd=bounds.workspace, bounds=bounds)
        )
        size, tail = 0, b""
        try:
            async for data in process.output():
                size += len(data)
                _check_size(size, most)
                into.write(data)
                tail = (tail + data)[-2000:]
        except BaseException:
            await process.kill()
            raise
        if await process.wait():
            said = one_line(tail.decode(errors="replace").strip().splitlines()[-1] if tail else "")
            raise ExecutorUnavailable(f"the files cannot be moved: {said or 'no python3 there'}")


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ExecutorUnavailable(
            f"more than {most} bytes would travel; remove what need not, have git ignore it, or "
            "raise --limit"
        )


async def report_files(source: Workspace) -> CarryReport:
    """Return what would travel. Raises `ExecutorUnavailable`."""
    with tempfile.TemporaryFile() as said:
        await source.run(
            "pack_files", str(source.place), "report", write=False, into=said, most=_MOST_SAID
        )
        said.seek(0)
        try:
            return decode_json(said.read(), CarryReport)
        except msgspec.DecodeError as error:
            raise ExecutorUnavailable(f"the report of the files cannot be read: {error}") from error


async def carry_files(source: Workspace, target: Workspace, *, most: int = MOST_BYTES) -> None:
    """Carry the files over. Raises `ExecutorUnavailable`, and then nothing was made there."""
    with tempfile.TemporaryFile() as archive:
        await source.run(
            "pack_files", str(source.place), "archive", write=False, into=archive, most=most
        )
        archive.seek(0)
        await _send(archive, target)
    with tempfile.TemporaryFile() as said:
        await target.run("unpack_files", str(target.place), write=True, into=said, most=_MOST_SAID)


async def _send(archive: IO[bytes], target: Workspace) -> None:
    bounds, parts = target.bounds(write=True), target.place / _PARTS
    made = await target.executor.start(
        ProcessSpec(argv=("mkdir", "-p", "--", str(parts)), cwd=bounds.workspace, bounds=bounds)
    )
    if await made.wait():
        raise ExecutorUnavailable(f"{str(target.place)!r} cannot be written there")
    number = 0
    while data := archive.read(_PIECE):
        await target.executor.write(parts / str(number), data, bounds=bounds)
        number += 1
