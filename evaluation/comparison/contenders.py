"""Who is compared, and how each is started on a task.

Invariant: everybody gets the same instruction and the same files, and after a kill the same
command once more: what goes on, and what begins anew, is then theirs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from benchmarks.peers.commands import codex_settings
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
_CODEX_HOME = "/home-of-codex"


class Contender(Struct, frozen=True, kw_only=True):
    """One of those who are compared: an agent of `treadle eval`, or a command in the box."""

    name: str
    title: str
    dialect: Dialect
    options: tuple[str, ...] | None = None
    """Those of `treadle eval`; None for a command in the box."""
    command: Callable[[str, str], tuple[str, ...]] | None = None
    """The command, for the address and the name of a model."""
    needs: tuple[Path, ...] = ()
    """Directories of this machine that the command needs to see."""

    @property
    def is_there(self) -> bool:
        """Return whether it can be started here."""
        return all(place.is_dir() for place in self.needs)


def _codex_place() -> Path:
    found = find_spec("codex_cli_bin")
    places = found.submodule_search_locations if found is not None else None
    return Path(places[0]) if places else Path("/codex-is-not-installed")


def _codex_alone(base: str, model: str) -> tuple[str, ...]:
    """Return how its users start it; the box is its sandbox."""
    chosen = (
        f'model="{model}"',
        'sandbox_mode="danger-full-access"',
        'model_providers.instant.env_key="OPENAI_API_KEY"',
    )
    more = [word for each in chosen for word in ("-c", each)]
    codex = str(_codex_place() / "bin" / "codex")
    return (codex, "exec", "--skip-git-repo-check", *codex_settings(base), *more, "-")


_OURS = Dialect("exec_command", "cmd")
_BASH = Dialect("bash", "command")
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
            title="Codex in Treadle",
            dialect=_OURS,
            options=("--harness", "codex", "--commands-in", "sandbox"),
        ),
        Contender(
            name="codex-alone",
            title="Codex alone",
            dialect=_OURS,
            command=_codex_alone,
            needs=(_codex_place(),),
        ),
        Contender(
            name="bare",
            title="bare loop",
            dialect=_BASH,
            command=lambda base, model: ("python3", "/agent/bare_agent.py", base, model),
        ),
        Contender(
            name="mini",
            title="mini-swe-agent",
            dialect=Dialect("bash", "command", END_OF_MINI),
            command=lambda base, model: (
                *(str(MINI / "bin" / "python"), "/agent/mini_agent.py", base, model),
            ),
            needs=(MINI,),
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
    assert contender.command is not None, "who is no agent of `treadle eval` is a command"
    attempt, own = AttemptPlace(place / "attempt"), place / "home-of-codex"
    own.mkdir(exist_ok=True)
    shown = tuple((each, str(each), False) for each in contender.needs)
    box = boxes.box(
        attempt.workspace,
        task.image.workdir,
        env={
            **task.image.env,
            "OPENAI_API_KEY": key,
            "NO_PROXY": "*",
            "CODEX_HOME": _CODEX_HOME,
        },
        network=True,
        mounts=((HERE, "/agent", False), (own, _CODEX_HOME, True), *shown),
    )
    argv = (*box.argv, *contender.command(base, model))
    return Start(argv=argv, env={}, data=task.instruction.encode(), workspace=attempt.workspace)
