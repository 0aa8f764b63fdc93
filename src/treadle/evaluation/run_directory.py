"""Run directories: everything that a run leaves, and by which it goes on.

Owns the names of the files. Invariants: one process at a time works in a directory; a file is
replaced whole and durably; and an attempt is over exactly when its result is there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from ..core.errors import ConfigError, InvalidOption
from ..core.files import read_bounded, write_private_json
from ..core.typed import decode_json
from .results import AttemptResult, AttemptState

__all__ = ["AttemptPlace", "PlannedTask", "RunDirectory", "RunPlan"]

T = TypeVar("T", bound=Struct)

_PLAN = "run.json"
_MOST_BYTES = 64 << 20


class PlannedTask(Struct, frozen=True):
    """A task of a run."""

    name: str
    place: str
    digest: str


class RunPlan(Struct, frozen=True, kw_only=True):
    """What a run does; it never changes while the run goes on."""

    model: str
    """The model, or what stands in for one."""
    harness: str
    engine: str
    attempts: int
    options: dict[str, str]
    """Every option that was given, as text."""
    tasks: tuple[PlannedTask, ...]


class AttemptPlace(Struct, frozen=True):
    """The directory of one attempt."""

    path: Path

    @property
    def workspace(self) -> Path:
        """Return where its files are."""
        return self.path / "workspace"

    @property
    def base(self) -> Path:
        """Return the repository that remembers how the files were at the beginning."""
        return self.path / "base.git"

    @property
    def verifier(self) -> Path:
        """Return where the tests write."""
        return self.path / "logs"

    @property
    def patch(self) -> Path:
        """Return what the attempt changed, once it is over."""
        return self.path / "changes.patch"

    @property
    def trajectory(self) -> Path:
        """Return what was said and done, once it is over."""
        return self.path / "trajectory.json"

    @property
    def _state(self) -> Path:
        return self.path / "state.json"

    @property
    def _result(self) -> Path:
        return self.path / "result.json"

    def state(self) -> AttemptState:
        """Return how far it has come."""
        return _read(self._state, AttemptState) or AttemptState()

    def keep(self, state: AttemptState) -> AttemptState:
        """Remember durably how far it has come."""
        write_private_json(self._state, state)
        return state

    def result(self) -> AttemptResult | None:
        """Return its result; None while it is not over."""
        return _read(self._result, AttemptResult)

    def finish(self, result: AttemptResult) -> None:
        """Make it over."""
        write_private_json(self._result, result)

    def forget(self) -> None:
        """Remove everything, so that it can be begun anew."""
        self._result.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)


class RunDirectory(Struct, frozen=True):
    """The directory of one run."""

    path: Path

    def attempt(self, task: str, number: int) -> AttemptPlace:
        """Return the place of an attempt."""
        return AttemptPlace(self.path / "attempts" / task / str(number))

    def plan(self) -> RunPlan | None:
        """Return what the run does; None where none was begun."""
        return _read(self.path / _PLAN, RunPlan)

    def begin(self, plan: RunPlan) -> None:
        """Begin a run, or go on with it. Raises `InvalidOption` where another was begun."""
        known = self.plan()
        if known is None:
            write_private_json(self.path / _PLAN, plan)
        elif (difference := _find_difference(known, plan)) is not None:
            raise InvalidOption(
                f"{str(self.path)!r} holds a run with {difference}; choose another directory, "
                "or run it as it was begun"
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out. Raises `InvalidOption` where one works."""
        self.path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InvalidOption(
                    f"another process works in {str(self.path)!r}; wait for it, or choose another"
                ) from error
            yield
        finally:
            os.close(descriptor)

    def results(self, plan: RunPlan) -> list[AttemptResult]:
        """Return the results that there are, in the order of the plan."""
        places = (
            self.attempt(task.name, number)
            for task in plan.tasks
            for number in range(1, plan.attempts + 1)
        )
        return [result for place in places if (result := place.result()) is not None]


def _find_difference(known: RunPlan, plan: RunPlan) -> str | None:
    """Return in words what of a run is not as it was begun."""
    for name in ("model", "harness", "engine", "attempts"):
        before, now = getattr(known, name), getattr(plan, name)
        if before != now:
            return f"{name} {before!r}, not {now!r}"
    for option in sorted({*known.options, *plan.options}):
        before, now = known.options.get(option), plan.options.get(option)
        if before != now:
            return f"{option} {before or 'not given'}, not {now or 'not given'}"
    if [task.name for task in known.tasks] != [task.name for task in plan.tasks]:
        return "other tasks"
    changed = [a.name for a, b in zip(known.tasks, plan.tasks, strict=True) if a.digest != b.digest]
    return f"other files of the task {changed[0]!r}" if changed else None


def _read(path: Path, kind: type[T]) -> T | None:
    """Return the value of a file; None where there is none. Raises `ConfigError`."""
    try:
        return decode_json(read_bounded(path, _MOST_BYTES), kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {str(path)!r}: {error}; remove its directory") from error
