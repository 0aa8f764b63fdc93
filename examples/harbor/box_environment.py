"""An environment of Harbor on bubblewrap: for machines without a container engine, and for tests.

harbor run … --environment-import-path examples.harbor.box_environment:BoxEnvironment
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path, PurePosixPath
from typing import override

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

from treadle.evaluation.run_directory import AttemptPlace
from treadle.evaluation.task import Task, read_task
from treadle.evaluation.task_box import Boxes
from treadle.evaluation.workspace_files import prepare_files

__all__ = ["BoxEnvironment"]

_OWN = ("/logs", "/tests", "/solution")
_LONGEST = 24 * 3600


class BoxEnvironment(BaseEnvironment):
    """The workspace of a task, and Harbor's own directories, each a directory of this machine."""

    @staticmethod
    @override
    def type() -> str:
        return "treadle-box"

    @property
    @override
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    @override
    def _validate_definition(self) -> None:
        self._task: Task = read_task(self.environment_dir.parent)
        self._place = AttemptPlace(self.trial_paths.trial_dir / "box")
        self._boxes = Boxes(self._place.path / "home")

    @override
    async def start(self, force_build: bool) -> None:
        await prepare_files(self._boxes, self._task, self._place)
        for name in _OWN:
            self._own(name).mkdir(parents=True, exist_ok=True)
        for name in ("agent", "verifier", "artifacts"):
            (self._own("/logs") / name).mkdir(exist_ok=True)

    @override
    async def stop(self, delete: bool) -> None:
        if delete:
            await asyncio.to_thread(shutil.rmtree, self._place.path, ignore_errors=True)

    @override
    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        workdir = self._task.image.workdir
        mounts = tuple((self._own(name), name, True) for name in _OWN)
        box = self._boxes.box(
            self._place.workspace,
            workdir,
            env={**self._task.image.env, **(env or {})},
            mounts=mounts,
        )
        line = f"cd {cwd or workdir} && {command}"
        ended = await box.run("bash", "-c", line, seconds=timeout_sec or _LONGEST)
        said = ended.output.decode(errors="replace")
        return ExecResult(stdout=said, return_code=124 if ended.code is None else ended.code)

    @override
    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        target = self._here(target_path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, target)

    @override
    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._here(target_dir), dirs_exist_ok=True)

    @override
    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(self._here(source_path), target_path)

    @override
    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(self._here(source_dir), target_dir, dirs_exist_ok=True)

    def _own(self, name: str) -> Path:
        return self._place.path / name.strip("/")

    def _here(self, path: str) -> Path:
        """Return where a path of the box is on this machine; what leads elsewhere is refused."""
        asked = PurePosixPath(path)
        roots = {self._task.image.workdir: self._place.workspace}
        roots |= {name: self._own(name) for name in _OWN}
        for name, root in roots.items():
            if asked.is_relative_to(name) and ".." not in asked.parts:
                found = root / asked.relative_to(name)
                if found.resolve().is_relative_to(root.resolve()):
                    return found
        raise FileNotFoundError(f"{path!r} is outside of what lasts in a box")
