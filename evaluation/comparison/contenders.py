"""Who is compared, and how each is started on a task.

Invariant: everybody gets the same instruction and the same files, and after a kill the same
command once more: what goes on, and what begins anew, is then theirs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from treadle.evaluation.run_directory import AttemptPlace, RunDirectory
from treadle.evaluation.task import Task
from treadle.evaluation.task_box import Boxes

from .stand_in import Dialect

__all__ = ["CONTENDERS", "Contender", "Start", "start_of"]

HERE = Path(__file__).parent
MINI = HERE / ".mini"
"""Where mini-swe-agent is installed: `python -m evaluation.comparison.mini`."""
END_OF_MINI = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class Contender(Struct, frozen=True, kw_only=True):
    """One of those who are compared."""

    name: str
    title: str
    dialect: Dialect
    options: tuple[str, ...] | None = None
    """Those of `treadle eval`; None for who brings a driver."""
    driver: str = ""
    python: Path | None = None
    """Whose Python runs the driver; None: that of the box."""

    @property
    def is_there(self) -> bool:
        """Return whether it can be started here."""
        return self.python is None or self.python.exists()


_OURS = Dialect("exec_command", "cmd")
CONTENDERS = {
    each.name: each
    for each in (
        Contender(name="treadle", title="Treadle", dialect=_OURS, options=()),
        Contender(
            name="lossless",
            title="Treadle, lossless",
            dialect=_OURS,
            options=("--engine", "lossless"),
        ),
        Contender(
            name="codex",
            title="Codex",
            dialect=_OURS,
            options=("--harness", "codex", "--commands-in", "sandbox"),
        ),
        Contender(
            name="bare", title="bare loop", dialect=Dialect("bash", "command"), driver="bare_agent"
        ),
        Contender(
            name="mini",
            title="mini-swe-agent",
            dialect=Dialect("bash", "command", END_OF_MINI),
            driver="mini_agent",
            python=MINI / "bin" / "python",
        ),
    )
}


class Start(Struct, frozen=True, kw_only=True):
    """A command that runs a contender on a task."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    data: bytes
    workspace: Path


def start_of(
    contender: Contender, task: Task, place: Path, boxes: Boxes, *, base: str, model: str
) -> Start:
    """Return how a contender is started; without `treadle eval` the files must be there."""
    key = os.environ.get("OPENAI_API_KEY", "none")
    if contender.options is not None:
        home = place / "home"
        argv = (
            *(sys.executable, "-m", "treadle", "--home", str(home), "eval", str(task.place)),
            *("-o", str(place / "run"), "--model", f"openai:{model}", *contender.options),
        )
        env = {**os.environ, "OPENAI_BASE_URL": base, "OPENAI_API_KEY": key}
        attempt = RunDirectory(place / "run").attempt(task.name, 1)
        return Start(argv=argv, env=env, data=b"", workspace=attempt.workspace)
    attempt = AttemptPlace(place / "attempt")
    mounts = [(HERE, "/agent", False)]
    python = "python3"
    if contender.python is not None:
        python = str(contender.python)
        mounts.append((MINI, str(MINI), False))
    box = boxes.box(
        attempt.workspace,
        task.image.workdir,
        env={**task.image.env, "OPENAI_API_KEY": key, "NO_PROXY": "*"},
        network=True,
        mounts=tuple(mounts),
    )
    argv = (*box.argv, python, f"/agent/{contender.driver}.py", base, model)
    return Start(argv=argv, env={}, data=task.instruction.encode(), workspace=attempt.workspace)
