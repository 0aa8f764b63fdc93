"""Moving a thread: its files go to another place of commands, and its log says so.

Owns the order: look, carry, write down. Invariants: nothing is written before the files have
arrived; the place that is left keeps what it has.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..core.errors import ConfigError, ExecutorUnavailable
from ..core.home import home as default_home
from ..core.redact import one_line
from ..executors.carry import MOST_BYTES, CarryReport, Workspace, carry_files, report_files
from ..executors.choice import LOCAL, ExecutorChoice, find_source
from ..tools.executor_life import ExecutorRecord, LivingExecutor, Pauses
from ..tools.local.local_executor import LocalExecutor
from .elsewhere import SETTING, stored_record

if TYPE_CHECKING:
    from ..tools.executor_life import ExecutorSource
    from .thread import Thread

__all__ = ["MovePlan", "move_thread", "plan_move"]


class MovePlan(Struct, frozen=True, kw_only=True):
    """What a move would do."""

    origin: str
    """Where commands run now."""
    target: str
    place: str
    """The directory there."""
    report: CarryReport | None = None
    """What travels; None where both places see the same directory."""


async def plan_move(thread: Thread, to: ExecutorChoice, *, into: Path | None = None) -> MovePlan:
    """Return what moving would do, without doing it. Raises `ConfigError`."""
    record = stored_record(thread.log)
    origin = LOCAL if record is None else record.where
    if to.where == origin:
        raise ConfigError(f"the commands of thread {thread.id!r} run in {origin!r} already")
    source = _source_of(thread, to)
    place = _local_target(thread, into) if source is None else Path(source.plan.workspace)
    shares = source is not None and _shares(thread, to, source, origin)
    report = None if shares else await report_files(await _present_workspace(thread))
    return MovePlan(origin=origin, target=to.where, place=str(place), report=report)


async def move_thread(
    thread: Thread,
    to: ExecutorChoice,
    *,
    into: Path | None = None,
    most: int = MOST_BYTES,
) -> ExecutorRecord:
    """Carry the files of a thread to another place, where its commands run from then on.

    Raises `ConfigError` and `ExecutorUnavailable`; then the thread is where it was.
    """
    plan = await plan_move(thread, to, into=into)
    origin, source = await _present_workspace(thread), _source_of(thread, to)
    before = stored_record(thread.log)
    number = 1 if before is None else before.number + 1
    if source is None:
        made = await _move_home(thread, origin, Path(plan.place), most)
    else:
        made = await _move_there(thread, source, origin, plan, most)
    made = replace(made, number=number, carried=True)
    await thread.log.configure(**{SETTING: made})
    return made


async def _move_home(thread: Thread, origin: Workspace, place: Path, most: int) -> ExecutorRecord:
    await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
    executor = LocalExecutor(home=thread.log.setup.home or default_home())
    target = Workspace(executor=executor, place=place, contains=False, python=sys.executable)
    try:
        await carry_files(origin, target, most=most)
    finally:
        await executor.close()
    return ExecutorRecord(kind=LOCAL, where=LOCAL, workspace=str(place), owner=thread.id)


async def _move_there(
    thread: Thread, source: ExecutorSource, origin: Workspace, plan: MovePlan, most: int
) -> ExecutorRecord:
    try:
        executor: LivingExecutor = await source.start(thread.id)
    except OSError as error:
        raise ExecutorUnavailable(one_line(str(error))) from error
    record = executor.record
    try:
        if plan.report is not None:
            # Programs of ours run there as the user who is logged in; no model has a hand in it.
            target = Workspace(executor=executor, place=Path(record.workspace))
            await carry_files(origin, target, most=most)
    finally:
        able: object = executor
        await (able.pause() if isinstance(able, Pauses) else executor.close())
    return record


async def _present_workspace(thread: Thread) -> Workspace:
    """Return where the files are now."""
    runner = thread._turn_runner()  # noqa: SLF001 - the facade has few names, and needs none of this
    await runner.attach()
    told = thread.log.setup.executor
    elsewhere = told is not None and bool(told.place)
    return Workspace(
        executor=runner.executor,
        place=thread.log.setup.workspace,
        contains=elsewhere,
        python="python3" if elsewhere else sys.executable,
    )


def _source_of(thread: Thread, to: ExecutorChoice) -> ExecutorSource | None:
    settings, cwd = thread.log.setup.settings, Path(thread.log.setup.cwd)
    hosts = bool(settings.network_hosts)
    return find_source(to, cwd=cwd, network=settings.network_access, hosts=hosts)


def _shares(thread: Thread, to: ExecutorChoice, source: ExecutorSource, origin: str) -> bool:
    """Return whether the other place sees the directory of this machine, where the files are."""
    here = str(thread.log.setup.cwd)
    kinds = ("docker", "podman")
    return (
        origin == LOCAL and source.plan.kind in kinds and to.mount and source.plan.workspace == here
    )


def _local_target(thread: Thread, into: Path | None) -> Path:
    place = Path(into or thread.log.setup.cwd).absolute()
    if place.is_dir() and any(place.iterdir()):
        raise ConfigError(f"{str(place)!r} is not empty; name an empty directory with --into")
    return place
