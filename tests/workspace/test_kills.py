from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from treadle.sandbox.policy import SandboxPolicy
from treadle.tools.executor import Bounds
from treadle.workspace.recorder import FileRecorder
from treadle.workspace.rewind import FileRewinds
from treadle.workspace.windows import Owner

from .scenes import project_of, tree

THREAD = "thr_1"


def recorder(place: Path, seq: int = 1) -> FileRecorder:
    def fail(text: str) -> None:
        raise AssertionError(text)

    return FileRecorder(place / "home", owners=lambda: [Owner(THREAD, seq)], warn=fail)


def bounds(place: Path) -> Bounds:
    return Bounds(policy=SandboxPolicy(mode="workspace-write"), workspace=place / "project")


def turn(place: Path, work: Callable[[], object], seq: int = 1) -> None:
    async def run() -> None:
        recording = recorder(place, seq)
        recording.begin_turn()
        await recording.before_command(bounds(place))
        work()
        recording.end_turn()
        await recording.settle()

    (place / "home").mkdir(exist_ok=True)
    asyncio.run(run())


def killed_at(event: str, number: int, work: Callable[[], object]) -> bool:
    """Do `work` in a process that is killed right before an event; whether it came to that."""
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    seen = 0

    def kill(name: str, _: object) -> None:
        nonlocal seen
        if name == event:
            seen += 1
            if seen > number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill)
    try:
        work()
    finally:
        os._exit(0)


@pytest.mark.parametrize("event", ["os.rename", "os.remove", "os.mkdir", "sqlite3.connect"])
def test_a_restore_that_is_killed_goes_on(tmp_path, event):
    project = project_of(tmp_path)
    for number in range(2):
        (project / f"dir{number}").mkdir()
        (project / f"dir{number}/file").write_text("old")
        (project / f"file{number}").write_text("old")
    before = tree(project)

    def work() -> None:
        for number in range(2):
            (project / f"dir{number}/file").unlink()
            (project / f"dir{number}").rmdir()
            (project / f"file{number}").write_text("new")
            (project / f"made{number}").write_text("new")

    turn(tmp_path, work)
    after = tree(project)
    rewinds = FileRewinds(tmp_path / "home", THREAD)
    spans = [(THREAD, 1, 9)]
    number, killed = 0, True
    while killed:
        plan = rewinds.plan(spans)
        killed = killed_at(event, number, partial(rewinds.restore, plan.actions, 1))
        again = rewinds.plan(spans)
        if again.actions:
            assert tree(project) == after
        else:
            assert tree(project) == before
            past = rewinds.newest()
            assert past is not None
            rewinds.restore(rewinds.plan_undo(past).actions, 1)
            rewinds.mark_undone(past.number)
        assert tree(project) == after
        number += 1
    assert number > 1


def test_a_scan_that_is_killed_changes_nothing_of_what_is_known(tmp_path):
    project = project_of(tmp_path)
    (project / "a").write_text("old")
    turn(tmp_path, lambda: None)
    killed = [
        killed_at("open", number, lambda: turn(tmp_path, lambda: (project / "a").write_text("x")))
        for number in range(0, 40, 4)
    ]
    assert any(killed)
    (project / "a").write_text("old")
    turn(tmp_path, lambda: (project / "a").write_text("new"), seq=5)
    rewinds = FileRewinds(tmp_path / "home", THREAD)
    plan = rewinds.plan([(THREAD, 5, 9)])
    assert [(each.action, each.path, each.risky) for each in plan.changes] == [
        ("restore", "a", False)
    ]
    rewinds.restore(plan.actions, 9)
    assert (project / "a").read_text() == "old"


def test_what_a_killed_turn_changed_needs_a_yes_of_its_own(tmp_path):
    project = project_of(tmp_path)
    (project / "a").write_text("old")
    (tmp_path / "home").mkdir()

    async def killed() -> None:
        recording = recorder(tmp_path)
        recording.begin_turn()
        await recording.before_command(bounds(tmp_path))

    asyncio.run(killed())
    (project / "a").write_text("by the turn, or by you")
    plan = FileRewinds(tmp_path / "home", THREAD).plan([(THREAD, 1, 9)])
    assert [(each.path, each.risky) for each in plan.changes] == [("a", True)]
    assert "never ended" in plan.changes[0].reason
