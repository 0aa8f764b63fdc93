"""Executors in containers, through the command line of Docker or Podman.

Owns the container of a thread: its name, its mounts, its network and its life. Invariants: a
container is named after its thread, so that it is found again even if the process that made it
died before it could say so; it gets no variable of this machine, and no network unless that is
allowed; the far end reaches it through ``exec``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..core.errors import InvalidOption
from ..core.ids import derived_id
from ..tools.executor_life import ExecutorGone, ExecutorRecord
from ..tools.pipe import PipeExecutor
from .choice import ExecutorChoice, Surroundings
from .program import ProgramFailed, command_here, run_program
from .remote_executor import ContainerExecutor, enter

__all__ = ["DockerSource"]

_LABEL = "treadle.thread"
_PULL_SECONDS = 1800.0
_STAY = "while :; do sleep 86400; done"
_WORK = "/workspace"


class DockerSource:
    """Makes a container of an image for each thread."""

    contains = True

    def __init__(
        self, image: str, choice: ExecutorChoice, around: Surroundings, *, program: str = "docker"
    ) -> None:
        if image.startswith("-") or any(each.isspace() for each in image):
            raise InvalidOption(f"{image!r} is no image; write {program}:IMAGE")
        self._image, self._choice, self._around, self._program = image, choice, around, program
        self.description = f"a container of the image {image!r}"
        usual = str(around.cwd) if choice.mount else _WORK
        self.plan = ExecutorRecord(
            kind=program, where=choice.where, image=image, workspace=choice.workspace or usual
        )

    async def start(self, thread: str) -> ContainerExecutor:
        """Make the container of a thread, or find the one that was made for it."""
        # Another image is another container, also while the old one rests.
        name = f"treadle-{thread}-{derived_id('', self._image)[1:9]}"
        if await self._inspect(name) is None:
            argv = (*self._run_options(name, thread), self._image, "sh", "-c", self._life())
            await run_program(self._program, "run", *argv, seconds=_PULL_SECONDS)
        return await self._connect(name, thread, number=1)

    async def connect(self, record: ExecutorRecord) -> ContainerExecutor:
        """Find the container of a record, and wake it."""
        return await self._connect(record.id, record.owner, number=record.number)

    async def stop(self, record: ExecutorRecord) -> None:
        """Remove the container of a record."""
        found = await self._inspect(record.id)
        if found is not None:
            _check_owner(found, record.id, record.owner)
            await run_program(self._program, "rm", "-f", record.id)

    async def _connect(self, name: str, thread: str, *, number: int) -> ContainerExecutor:
        found = await self._inspect(name)
        if found is None:
            raise ExecutorGone(f"there is no container {name!r} any more")
        _check_owner(found, name, thread)
        state = found.get("State") or {}
        if state.get("Paused"):
            await run_program(self._program, "unpause", name)
        elif not state.get("Running"):
            await run_program(self._program, "start", name)
        command = await command_here(self._program, "exec", "-i", "-w", "/", name)
        pipe = await PipeExecutor.connect(command, name=self.description)
        workspace = await enter(pipe, self.plan.workspace)
        record = ExecutorRecord(
            kind=self._program,
            where=self._choice.where,
            id=name,
            image=self._image,
            workspace=workspace,
            owner=thread,
            number=number,
        )
        return ContainerExecutor(
            pipe,
            record,
            env=self._choice.env,
            pause=lambda: self._pause(name),
            stop=lambda: self.stop(record),
            address=f"{self._program}://{name}",
        )

    def _run_options(self, name: str, thread: str) -> tuple[str, ...]:
        choice = self._choice
        options = ["--detach", "--name", name, "--label", f"{_LABEL}={thread}"]
        options += ["--security-opt", "no-new-privileges", "--workdir", "/", "--entrypoint", ""]
        if not self._around.network:
            options += ["--network", "none"]
        if choice.ttl is not None:
            options.append("--rm")
        user = choice.user or self._usual_user()
        if user:
            options += ["--user", user, "--env", "HOME=/tmp"]
        mounts = [_mount(each) for each in choice.mounts]
        if choice.mount:
            mounts.insert(0, _bind(self._around.cwd, self.plan.workspace))
        for mount in mounts:
            options += ["--mount", mount]
        return tuple(options)

    def _usual_user(self) -> str:
        """Return who runs in the container, so that files of this machine stay the user's."""
        # Rootless Podman gives root in the container the user's own number.
        mine = os.getuid()
        return f"{mine}:{os.getgid()}" if self._program == "docker" and mine else ""

    def _life(self) -> str:
        """Return what keeps the container there."""
        ttl = self._choice.ttl
        return _STAY if ttl is None else f"sleep {max(int(ttl), 1)}"

    async def _pause(self, name: str) -> None:
        # With a limit of its life, stopping would remove it.
        if self._choice.ttl is None:
            await run_program(self._program, "stop", "--time", "1", name)

    async def _inspect(self, name: str) -> dict[str, Any] | None:
        try:
            said = await run_program(self._program, "container", "inspect", name)
        except ProgramFailed as error:
            if "no such container" in error.said.lower():
                return None
            raise
        found = json.loads(said)
        return found[0] if isinstance(found, list) and found else None


def _check_owner(found: dict[str, Any], name: str, thread: str) -> None:
    """Raise `ExecutorGone` for a container that only happens to have the name."""
    labels = (found.get("Config") or {}).get("Labels") or {}
    if labels.get(_LABEL) != thread:
        raise ExecutorGone(f"the container {name!r} was not made for the thread {thread!r}")


def _mount(text: str) -> str:
    """Return ``FROM:TO`` or ``FROM:TO:ro`` as an option. Raises `InvalidOption`."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    place = Path(source).expanduser()
    if not place.is_absolute() or not target.startswith("/") or mode not in ("", "ro", "rw"):
        raise InvalidOption(f"{text!r} is no mount; write '/from:/to' or '/from:/to:ro'")
    return _bind(place, target) + (",readonly" if mode == "ro" else "")


def _bind(source: Path, target: str) -> str:
    if "," in f"{source}{target}" or '"' in f"{source}{target}":
        raise InvalidOption(f"{str(source)!r} cannot be mounted: its name has a comma or a quote")
    return f"type=bind,source={source},target={target}"
