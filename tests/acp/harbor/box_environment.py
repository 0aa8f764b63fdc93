"""An environment of Harbor in which a task lives in a box of bubblewrap, without containers.

Owns the directories that a task may write and what it sees of this machine. Invariants: nothing
of this machine is written but the box's own directories, and there is no network. Harbor's own
Python imports this file; Treadle's does not.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

__all__ = ["BoxEnvironment"]

_OWN = ("app", "home", "installed-agent", "logs", "opt", "solution", "tests", "tmp")
"""Directories of the box's own, below its root."""
_KEPT_OUT = {*_OWN, "dev", "proc"}


class BoxEnvironment(BaseEnvironment):  # type: ignore[misc]  # Harbor is not installed here
    """A box; `bubblewrap` is the program, `runner` the environment with Harbor's own client.

    `script` is a file that stands in the box as ``/opt/script.toml``.
    """

    def __init__(
        self, *given: Any, bubblewrap: str, runner: str, script: str, **options: Any
    ) -> None:
        super().__init__(*given, **options)
        self._bubblewrap, self._runner, self._script = bubblewrap, runner, script
        self._root = Path(tempfile.mkdtemp(prefix="harbor-box-"))

    @staticmethod
    def type() -> str:
        return "box"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        """A box has the programs of this machine; there is nothing to build."""

    async def start(self, force_build: bool) -> None:
        del force_build
        for name in _OWN:
            (self._root / name).mkdir()
        self._write_program("programs/apt-get", "exit 0")
        self._write_program("harbor-acp-tools/uv", "exit 0")
        self._write_program("harbor-acp-venv/bin/python", f'exec {self._runner}/bin/python "$@"')
        (self._root / "opt/harbor-acp-python").mkdir()
        shutil.copy(self._script, self._root / "opt/script.toml")
        await self.ensure_dirs(self._mount_targets(writable_only=True))

    async def stop(self, delete: bool) -> None:
        if delete:
            await asyncio.to_thread(shutil.rmtree, self._root, ignore_errors=True)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        target = self._outside(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source_path, target)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._outside(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy2(self._outside(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._outside(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        del user  # there is one
        process = await asyncio.create_subprocess_exec(
            *(self._bubblewrap, *self._walls(), "--chdir", cwd or "/app", "--"),
            *("bash", "-c", command),
            env={
                "HOME": "/home",
                "PATH": f"/opt/programs:{os.environ['PATH']}",
                **(self._merge_env(env) or {}),
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(timeout_sec):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return ExecResult(
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
            return_code=process.returncode,
        )

    def _write_program(self, name: str, script: str) -> None:
        """Write what stands for a program that Harbor would install: all of it is there."""
        program = self._root / "opt" / name
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def _walls(self) -> list[str]:
        walls = ["--die-with-parent", "--unshare-pid", "--unshare-net"]
        for place in sorted(Path("/").iterdir()):
            if place.is_symlink():
                walls += ["--symlink", str(place.readlink()), str(place)]
            elif place.name not in _KEPT_OUT:
                walls += ["--ro-bind", str(place), str(place)]
        for name in _OWN:
            walls += ["--bind", str(self._root / name), f"/{name}"]
        return [*walls, "--proc", "/proc", "--dev", "/dev"]

    def _outside(self, path: str) -> Path:
        """Return where a path of the box is on this machine."""
        return self._root / path.lstrip("/")
