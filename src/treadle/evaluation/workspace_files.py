"""Workspace files: how they come to be, and what an attempt changed in them.

Owns the steps of a task's image and the patch at the end. Invariants: a step that fails ends
the attempt before any model is asked; and a patch holds exactly the difference to the files at
the beginning, binary files included, whatever repository the workspace itself is.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ..core.errors import TreadleError
from ..core.redact import one_line
from .image_steps import Copied, Ran
from .run_directory import AttemptPlace
from .task import MalformedTask, Task
from .task_box import Boxes, TaskBox

__all__ = ["NotPrepared", "box_of", "prepare_files", "write_patch"]

_GIT = ("git", "--git-dir=/base.git", "-c", "core.autocrlf=false", "-c", "core.quotePath=false")
_GIT_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "treadle",
    "GIT_AUTHOR_EMAIL": "treadle@localhost",
    "GIT_COMMITTER_NAME": "treadle",
    "GIT_COMMITTER_EMAIL": "treadle@localhost",
}
_GIT_SECONDS = 600.0


class NotPrepared(TreadleError):
    """The files of a task could not be made."""


def box_of(boxes: Boxes, task: Task, place: AttemptPlace) -> TaskBox:
    """Return the box in which an attempt works."""
    image = task.image
    return boxes.box(place.workspace, image.workdir, env=image.env, network=task.network)


async def prepare_files(boxes: Boxes, task: Task, place: AttemptPlace) -> None:
    """Make the workspace anew. Raises `NotPrepared`, or `MalformedTask`."""
    for old in (place.workspace, place.base):
        shutil.rmtree(old, ignore_errors=True)
    place.workspace.mkdir(parents=True)
    # A project that the run's own directory is in must not be found from the workspace.
    (place.path / ".git").write_text("gitdir: nowhere\n")
    box = box_of(boxes, task, place)
    for step in task.image.steps:
        match step:
            case Copied():
                _copy(task, step, place.workspace)
            case Ran(line=line):
                ran = await box.run("sh", "-c", line, seconds=task.build_seconds)
                if ran.code != 0:
                    said = one_line(ran.output.decode(errors="replace").strip()[-500:])
                    raise NotPrepared(f"RUN {line!r} failed: {said or f'exit code {ran.code}'}")
    await _remember(boxes, task, place)


def _copy(task: Task, step: Copied, workspace: Path) -> None:
    target = workspace / step.to
    for source in step.sources:
        found = sorted(task.environment.glob(source.strip("/"))) if source != "." else []
        if source == ".":
            found = [task.environment]
        if not found:
            raise MalformedTask(task.place, f"COPY {source!r}: there is no such file")
        for each in found:
            if each.is_dir():
                _copy_directory(each, target, whole=each == task.environment)
            else:
                place = target / each.name if step.is_directory else target
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(each, place, follow_symlinks=False)


def _copy_directory(source: Path, target: Path, *, whole: bool) -> None:
    """Copy what is in a directory; of the whole environment, not the Dockerfile itself."""
    left_out = {"Dockerfile", ".dockerignore"} if whole else set[str]()

    def ignored(directory: str, names: list[str]) -> list[str]:
        top = Path(directory) == source
        return [name for name in names if name == "__pycache__" or (top and name in left_out)]

    shutil.copytree(source, target, symlinks=True, ignore=ignored, dirs_exist_ok=True)


async def _remember(boxes: Boxes, task: Task, place: AttemptPlace) -> None:
    """Keep the files as they are, in a repository that the attempt never sees."""
    if shutil.which("git") is None:
        return
    place.base.mkdir()
    await _git(boxes, task, place, "init", "-q")
    await _git(boxes, task, place, "add", "-A")
    await _git(boxes, task, place, "commit", "-q", "--allow-empty", "--no-verify", "-m", "base")


async def write_patch(boxes: Boxes, task: Task, place: AttemptPlace) -> int | None:
    """Write what was changed since the beginning; return its size, None without git."""
    if not place.base.is_dir():
        return None
    await _git(boxes, task, place, "add", "-A")
    await _git(
        boxes, task, place, "diff", "--cached", "--binary", "--no-color", "--no-ext-diff",
        "--no-textconv", "--output=/base.git/changes.patch", "HEAD",
    )  # fmt: skip
    made = place.base / "changes.patch"
    made.replace(place.patch)
    return place.patch.stat().st_size


async def _git(boxes: Boxes, task: Task, place: AttemptPlace, *words: str) -> None:
    """Run git in a box: the files are whoever's, and git may only touch the repository."""
    workdir = task.image.workdir
    mounts = ((place.base, "/base.git", True),)
    box = boxes.box(place.workspace, workdir, env=_GIT_ENV, mounts=mounts)
    ran = await box.run(*_GIT, f"--work-tree={workdir}", *words, seconds=_GIT_SECONDS)
    if ran.code != 0:
        said = one_line(ran.output.decode(errors="replace").strip()[-500:])
        raise NotPrepared(f"git {words[0]} failed: {said or f'exit code {ran.code}'}")
