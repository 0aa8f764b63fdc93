"""What the tests of rewinding have in common: turns of commands and patches in a project."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.scenes import call, hear, open_thread, scripted
from treadle import Thread
from treadle.testing.script import Answer, Call

__all__ = ["command", "open_worker", "patch", "project_of", "tree", "work"]


def project_of(place: Path) -> Path:
    project = place / "project"
    project.mkdir(exist_ok=True)
    return project


def command(line: str) -> Call:
    return call("exec_command", cmd=line, login=False, yield_time_ms=30_000)


def patch(*hunks: str) -> Call:
    text = "\n".join(["*** Begin Patch", *hunks, "*** End Patch"])
    return call("exec_command", cmd=f"apply_patch <<'EOF'\n{text}\nEOF", login=False)


@asynccontextmanager
async def open_worker(
    place: Path, *turns: tuple[Call, ...], **options: Any
) -> AsyncIterator[Thread]:
    """A thread whose model makes the calls of each turn, one step each, and then says so."""
    project_of(place)
    answers = [
        answer
        for calls in turns
        for answer in (*(Answer(calls=(each,)) for each in calls), Answer(text="done"))
    ]
    async with open_thread(place, scripted(*answers), tools=None, **options) as thread:
        yield thread


async def work(place: Path, *turns: tuple[Call, ...], **options: Any) -> str:
    """Run all of these turns in a thread of their own; return its id."""
    async with open_worker(place, *turns, **options) as thread:
        for number in range(len(turns)):
            await hear(thread, f"turn {number + 1}")
        return thread.id


def tree(root: Path) -> dict[str, object]:
    """Everything in a directory: contents of files, targets of links, None for directories."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = path.readlink()
        elif path.is_dir():
            found[name] = None
        else:
            found[name] = (path.stat().st_mode & 0o777, path.read_bytes())
    return found
