"""The contract of an engine: a process that is killed in the middle of a commit."""
# ruff: noqa: D102 - a test's name is its sentence

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ..engine_fixture import EngineFixture, run_turn
from .engine_powers import needs

__all__ = ["KillsContract"]

_TURNS = 2
"""Turns of a process; it is killed in the last one."""


class KillsContract:
    """What an engine with `commit_turn` must do when its process is killed."""

    factory: ClassVar[str] = ""

    @needs("commit_turn")
    @pytest.mark.parametrize("stop", ["before", "after"])
    async def test_a_commit_that_was_killed_happens_once(
        self, fixture: EngineFixture, reference: EngineFixture, stop: str
    ) -> None:
        killed = await self._run(fixture.place, stop=stop)
        thread = killed[0].removeprefix("thread ")
        again = await self._run(fixture.place, thread)
        done = ["committed 2"] if stop == "after" else []
        assert killed[1:] == ["commit 1", "committed 1", "commit 2", *done]
        repeated = "duplicate 2" if done else "committed 2"
        rest = ["commit 3", "committed 3", "commit 4", "committed 4"]
        assert again[1:] == ["commit 2", repeated, *rest]
        await self._check_same_knowledge(fixture, thread, reference)

    @needs("commit_turn")
    @pytest.mark.parametrize("moment", range(4))
    async def test_a_commit_can_be_killed_at_any_moment(
        self, fixture: EngineFixture, reference: EngineFixture, moment: int
    ) -> None:
        killed = await self._run(fixture.place, kill_at="commit 2", grace=moment * 0.002)
        thread = killed[0].removeprefix("thread ")
        lines = [*killed, *await self._run(fixture.place, thread)]
        assert [lines.count(f"committed {number}") for number in (1, 3, 4)] == [1, 1, 1]
        assert lines.count("committed 2") <= 1
        await self._check_same_knowledge(fixture, thread, reference)

    async def _check_same_knowledge(
        self, fixture: EngineFixture, thread: str, reference: EngineFixture
    ) -> None:
        calm: str | None = None
        for _ in range(2):  # processes, where one was killed
            async with reference.open_thread(calm) as opened:
                calm = opened.id
                for _ in range(_TURNS):
                    await run_turn(opened)
        assert calm is not None
        assert await fixture.recall(thread) == await reference.recall(calm)

    async def _run(self, place: Path, thread: str = "", **how: Any) -> list[str]:
        return await asyncio.to_thread(_run_process, self.factory, place, thread, **how)


def _run_process(
    factory: str,
    place: Path,
    thread: str,
    *,
    stop: str = "",
    kill_at: str = "",
    grace: float = 0.0,
) -> list[str]:
    """Run turns in a process, kill it where it stops, and return its lines."""
    last = {"before": "commit 2", "after": "committed 2"}.get(stop, kill_at)
    arguments = [factory, str(place), thread, str(_TURNS), stop]
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603 - it is this very Python
        [sys.executable, "-m", "treadle.testing.engine_runner", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == last:
                if grace:
                    _wait(child, grace)
                child.kill()
    assert child.returncode in ((-9, 0) if last else (0,))
    return lines


def _wait(child: subprocess.Popen[str], seconds: float) -> None:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return
