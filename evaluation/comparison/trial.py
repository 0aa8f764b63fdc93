"""Trials: one contender on one task, behind the recording proxy, and killed where that is asked.

Owns the processes that it starts. Invariants: whoever is killed is killed with `kill -9`, when its
request has left it and before an answer has come; and it is the task's own tests that say what
became of the work, in a box that no agent has touched.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from treadle.evaluation.run_directory import AttemptPlace
from treadle.evaluation.task import Task
from treadle.evaluation.task_box import Boxes
from treadle.evaluation.verify import grade
from treadle.evaluation.workspace_files import prepare_files
from treadle.testing.fake import FakeServer

from .contenders import Contender, Start, start_of
from .proxy import Recorded, RecordingProxy
from .sent_figures import SentFigures, reading, sent_figures, shared_prefix
from .stand_in import stand_in_script

__all__ = ["TrialResult", "run_trial"]

_PATIENCE = 900.0
"""Seconds for the stand-in; a real model has the time that the task gives an agent."""


class TrialResult(Struct, frozen=True, kw_only=True):
    """What a trial showed."""

    contender: str
    task: str
    reward: float | None
    rewards: dict[str, float] = {}
    """What the tests say besides, such as the share of facts that were kept."""
    figures: SentFigures
    killed_at: int | None = None
    """The request at which it was killed."""
    kept: float | None = None
    """The part of what was said before the kill with which the first request after it goes on."""
    steps_done: int = 0
    steps_again: int = 0
    """Steps of the stand-in that were done more than once."""
    error: str = ""


async def run_trial(
    contender: Contender,
    task: Task,
    place: Path,
    *,
    model: str,
    upstream: str | None = None,
    kill_at: int | None = None,
) -> TrialResult:
    """Run a contender on a task; without `upstream`, the stand-in answers."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    boxes = Boxes(place / "home")
    if contender.options is None:
        await prepare_files(boxes, task, AttemptPlace(place / "attempt"))
    patience = _PATIENCE if upstream is None else task.agent_seconds
    trial = _Trial(kill_at, patience)
    async with (
        _model(task, contender, upstream) as address,
        RecordingProxy(address, before=trial.before) as proxy,
    ):
        start = start_of(contender, task, place, boxes, base=proxy.base_url, model=model)
        error = await trial.run(start)
        recorded = list(proxy.recorded)
    # Who uses `treadle eval` was graded by it, and is graded again like the others.
    attempt = AttemptPlace(start.workspace.parent)
    verdict = await grade(boxes, task, attempt)
    steps = _steps(start.workspace)
    return TrialResult(
        contender=contender.name,
        task=task.name,
        reward=verdict.reward,
        rewards=verdict.rewards,
        figures=sent_figures(recorded, model),
        killed_at=trial.killed_at,
        kept=_kept(recorded, trial.killed_at),
        steps_done=len(set(steps)),
        steps_again=len(steps) - len(set(steps)),
        error=error,
    )


@asynccontextmanager
async def _model(task: Task, contender: Contender, upstream: str | None) -> AsyncIterator[str]:
    if upstream is not None:
        yield upstream
        return
    async with FakeServer(stand_in_script(task, contender.dialect)) as server:
        yield f"http://127.0.0.1:{server.port}"


class _Trial:
    """The process of a contender, and its end."""

    def __init__(self, kill_at: int | None, patience: float) -> None:
        self._kill_at, self._patience = kill_at, patience
        self.killed_at: int | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def before(self, number: int) -> bool:
        """Kill the process where its time has come; return whether the request is passed on."""
        if number != self._kill_at or self._process is None:
            return True
        self.killed_at = number
        _kill(self._process)
        await self._process.wait()
        return False

    async def run(self, start: Start) -> str:
        """Run to the end, with a second process where the first was killed; return what it said."""
        said = await self._run(start)
        if self.killed_at is not None:
            said = await self._run(start)
        return said

    async def _run(self, start: Start) -> str:
        self._process = process = await asyncio.create_subprocess_exec(
            *start.argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env=dict(start.env),
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._patience):
                _, complaints = await process.communicate(start.data)
        except TimeoutError:
            return f"it did not end in {self._patience:g} seconds"
        finally:
            if process.returncode is None:
                _kill(process)
                await process.wait()
        return complaints.decode(errors="replace")[-2_000:] if process.returncode else ""


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _steps(workspace: Path) -> list[str]:
    file = workspace / ".steps"
    return file.read_text().splitlines() if file.exists() else []


def _kept(recorded: list[Recorded], killed_at: int | None) -> float | None:
    if killed_at is None or killed_at >= len(recorded):
        return None
    # What the first request has, such as tools and the task, nobody has to keep.
    head = len(reading(recorded[0].body))
    before, after = (reading(recorded[at].body) for at in (killed_at - 1, killed_at))
    return max(shared_prefix(before, after) - head, 0) / (len(before) - head)
