"""The run of an evaluation on the command line: its plan, its signals and its files.

Invariant: what is written into the directory of a run is made from its results alone, after each
attempt, so that it is there whenever the run ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct

from ..core.errors import NotFound
from ..core.files import replace_file
from ..evaluation.attempt import AttemptRunner, Opening
from ..evaluation.results import AttemptResult
from ..evaluation.run_directory import PlannedTask, RunDirectory, RunPlan
from ..evaluation.run_page import draw_page
from ..evaluation.run_report import COLUMNS, markdown_table, rows_of, summed, trouble
from ..evaluation.schedule import AttemptBroken, AttemptOver, AttemptStarted, RunNews, RunSchedule
from ..evaluation.task import MalformedTask, Task, find_tasks
from ..evaluation.task_box import Boxes
from ..policy.limits import Limits
from .cli_home import Home, find_thread
from .interrupts import INTERRUPTED
from .output import Column, printable, say_json, table
from .run_options import RunOptions
from .thread_setup import Setup, open_thread, prepare

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["EvalRequest", "run_evaluation"]

_SCRIPTED = "scripted solutions"
_ELSEWHERE = {
    "cwd": "--cwd",
    "executor": "--executor",
    "add_dirs": "--add-dir",
    "channel": "--channel",
}
"""Options about a place, which every attempt has for itself."""


class EvalRequest(Struct, frozen=True, kw_only=True):
    """What is run, and how."""

    tasks: tuple[Path, ...]
    output: Path
    at_once: int
    attempts: int
    commands_in: str
    scripted: bool
    again: bool
    as_json: bool


async def run_evaluation(home: Home, options: RunOptions, request: EvalRequest) -> int:
    """Run what is left of a run; return the exit code."""
    _check(options, request)
    tasks = find_tasks(request.tasks)
    _check_scripts(tasks, request)
    base = await prepare(home, options, attended=False)
    directory = RunDirectory(request.output.absolute())
    boxes = Boxes(home.path)
    boxes.check()
    with directory.lock():
        plan = _plan(base, options, request, tasks)
        directory.begin(plan)
        if request.again:
            _forget_failed(directory, plan)
        report = _Report(directory, plan, as_json=request.as_json)
        runner = AttemptRunner(
            boxes,
            _opener(home, options, request),
            limits=Limits(**msgspec.structs.asdict(base.settings.limits)),
            prices=base.settings.prices,
            boxed=request.commands_in == "box",
        )
        schedule = RunSchedule(
            directory, plan, tasks, runner, at_once=request.at_once, report=report.show
        )
        _stop_on_signals(schedule)
        try:
            await schedule.run()
        finally:
            report.write()
        report.show_end()
        return _exit_code(schedule)


def _exit_code(schedule: RunSchedule) -> int:
    if schedule.is_stopped:
        click.echo("treadle: stopped; the same command goes on with what is left", err=True)
        return INTERRUPTED
    return int(schedule.broken > 0)


def _check(options: RunOptions, request: EvalRequest) -> None:
    for name, flag in _ELSEWHERE.items():
        if getattr(options, name):
            raise click.UsageError(f"{flag} cannot be given: every attempt has a place of its own")
    if request.scripted and options.model is not None:
        raise click.UsageError("--scripted stands in for a model; leave --model out")
    if request.commands_in == "box" and (options.sandbox or options.yolo):
        raise click.UsageError(
            "the box is the sandbox; with --commands-in sandbox there is one to choose"
        )
    if request.output.exists() and not request.output.is_dir():
        raise click.UsageError(f"{str(request.output)!r} is no directory")


def _check_scripts(tasks: tuple[Task, ...], request: EvalRequest) -> None:
    for task in tasks:
        if request.scripted and not task.script.is_file():
            raise MalformedTask(task.place, "--scripted needs 'solution/script.toml'; add one")


def _plan(
    base: Setup, options: RunOptions, request: EvalRequest, tasks: tuple[Task, ...]
) -> RunPlan:
    given = {flag: str(value) for flag, value in options.flags().values() if flag != "--plain"}
    given["--commands-in"] = request.commands_in
    return RunPlan(
        model=_SCRIPTED if request.scripted else base.settings.model,
        harness=base.settings.harness,
        engine=base.settings.engine,
        attempts=request.attempts,
        options=given,
        tasks=tuple(PlannedTask(task.name, str(task.place), task.digest) for task in tasks),
    )


def _forget_failed(directory: RunDirectory, plan: RunPlan) -> None:
    for result in directory.results(plan):
        if result.ended == "failed" or result.reward is None:
            directory.attempt(result.task, result.attempt).forget()


def _opener(home: Home, options: RunOptions, request: EvalRequest) -> Callable[[Opening], Any]:
    """Return what opens the thread of an attempt: as `treadle exec` does, in its workspace."""

    @asynccontextmanager
    async def open_run(opening: Opening) -> AsyncIterator[Thread]:
        chosen: dict[str, Any] = {"cwd": opening.place.workspace}
        if request.scripted:
            chosen["model"] = f"scripted:{opening.task.script}"
        if opening.source is not None:
            chosen |= {"sandbox": "workspace-write", "approval": "never"}
        there = msgspec.structs.replace(options, **chosen)
        known = await _find_known(home, opening.thread)
        setup = await prepare(home, there, known, attended=False)
        title = f"eval {opening.task.name} #{opening.number}"
        async with open_thread(
            setup, title=title, keep_empty=True, executor=opening.source
        ) as thread:
            yield thread

    return open_run


async def _find_known(home: Home, thread: str | None) -> str | None:
    """Return the thread that an attempt goes on with; None where it is gone."""
    if thread is None:
        return None
    async with home.store() as store:
        try:
            return (await find_thread(store, thread)).id
        except NotFound:
            return None


def _stop_on_signals(schedule: RunSchedule) -> None:
    """Stop at the first signal so that everything can go on; at the second leave at once."""

    def stop() -> None:
        if schedule.is_stopped:
            # Nothing breaks by it: what is durable is enough to go on.
            os._exit(INTERRUPTED)
        click.echo("treadle: stopping; Ctrl-C again leaves at once", err=True)
        schedule.stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)


class _Report:
    """Says what happens, and keeps the files of a run up to date."""

    def __init__(self, directory: RunDirectory, plan: RunPlan, *, as_json: bool) -> None:
        self._directory, self._plan, self._as_json = directory, plan, as_json
        self._planned = len(plan.tasks) * plan.attempts
        known = directory.results(plan)
        self._results = {(each.task, each.attempt): each for each in known}

    def show(self, news: RunNews) -> None:
        """Say what happened; an attempt that is over is in the files at once."""
        if isinstance(news, AttemptOver):
            self._results[news.result.task, news.result.attempt] = news.result
            self.write()
        if self._as_json:
            say_json(news)
            return
        click.echo(printable(self._line(news)), err=True)

    def write(self) -> None:
        """Write the table, the page and the results, from what is over."""
        results = self._in_order()
        told = {"plan": self._plan, "results": results, "total": summed("all", results)}
        path = self._directory.path
        replace_file(path / "results.json", msgspec.json.format(msgspec.json.encode(told)) + b"\n")
        replace_file(path / "table.md", markdown_table(self._plan, results).encode())
        replace_file(path / "index.html", draw_page(self._plan, results).encode())

    def show_end(self) -> None:
        """Print the table."""
        results = self._in_order()
        if self._as_json:
            say_json({"type": "run.over", "total": summed("all", results)})
            return
        columns = [Column(name, right=at > 0) for at, (name, _) in enumerate(COLUMNS)]
        table(columns, rows_of(self._plan, results))
        click.echo(printable(str(self._directory.path / "index.html")), err=True)

    def _in_order(self) -> list[AttemptResult]:
        """Return the results in the order of the plan, whichever came first."""
        places = {task.name: at for at, task in enumerate(self._plan.tasks)}
        return sorted(self._results.values(), key=lambda each: (places[each.task], each.attempt))

    def _line(self, news: RunNews) -> str:
        match news:
            case AttemptStarted(task=task, attempt=attempt, goes_on=goes_on):
                return f"{task} #{attempt} {'goes on' if goes_on else 'begins'}"
            case AttemptBroken(task=task, attempt=attempt, error=error):
                return f"{task} #{attempt} has no result: {error}"
            case AttemptOver(result=result):
                word = "solved" if result.solved else "not solved"
                why = f" ({trouble(result)})" if trouble(result) else ""
                done = len(self._results)
                return (
                    f"{result.task} #{result.attempt} {word}{why}, {result.figures.cost}, "
                    f"{result.seconds:.1f} s [{done}/{self._planned}]"
                )
