"""`treadle move`: take a thread, with its files, to another place of commands."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from ...executors.choice import LOCAL, ExecutorChoice
from ...thread.moving import MovePlan, move_thread, plan_move
from ..cli_home import Home
from ..command_options import as_json, thread_argument
from ..lazy_group import examples
from ..output import counted, printable, say, say_json
from ..run_options import RunOptions
from ..thread_setup import executor_choice, open_thread, prepare

__all__ = ["command"]

_MEGABYTE = 1 << 20


@click.command(
    "move",
    epilog=examples(
        "treadle move last --to docker:python:3.13        into a container",
        "treadle move last --to ssh:build-box --dry-run   show what would travel",
        "treadle move last --to local --into ~/back       back to this machine",
    ),
)
@thread_argument
@click.option("--to", "where", metavar="WHERE", required=True, help="As for --executor.")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --to local: an empty directory for the files  [default: the thread's own]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1024,
    show_default=True,
    metavar="MB",
    help="Move no more than this.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be moved, and move nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@as_json
@click.pass_obj
def command(
    home: Home,
    name: str,
    *,
    where: str,
    into: Path | None,
    limit: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Move a thread to another place of commands, with the files of its workspace.

    The history of the repository travels as a git bundle, changed and untracked files as they
    are; what git ignores stays, and so does everything in the old place. The model is told.
    """
    if into is not None and where != LOCAL:
        raise click.UsageError("--into goes with --to local; elsewhere it is executor.workspace.")
    plan, record = asyncio.run(_plan(home, name, where, into))
    if dry_run:
        _show(plan, as_json=as_json)
        return
    if not as_json:
        _show(plan, as_json=False)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to ask on; use --yes to move")
        click.confirm("Move?", abort=True, err=True)
    record = asyncio.run(_move(home, name, where, into, limit * _MEGABYTE))
    if as_json:
        say_json({"moved": msgspec.to_builtins(plan), "executor": msgspec.to_builtins(record)})
        return
    say(f"moved: commands run in {printable(record.where)} now, in {printable(record.workspace)}")
    if plan.origin != LOCAL:
        say(f"{printable(plan.origin)} keeps its files; remove it when you need them no more")
    if where == LOCAL and into is not None:
        say(f"go on with: treadle resume {printable(name)} -C {printable(str(into))}")


async def _plan(home: Home, name: str, where: str, into: Path | None) -> tuple[MovePlan, Any]:
    setup = await prepare(home, RunOptions(), resume=name)
    choice = _choice(executor_choice(setup.settings), where)
    async with open_thread(setup) as thread:
        return await plan_move(thread, choice, into=into), None


async def _move(home: Home, name: str, where: str, into: Path | None, most: int) -> Any:
    setup = await prepare(home, RunOptions(), resume=name)
    choice = _choice(executor_choice(setup.settings), where)
    async with open_thread(setup) as thread:
        return await move_thread(thread, choice, into=into, most=most)


def _choice(configured: ExecutorChoice, where: str) -> ExecutorChoice:
    return msgspec.structs.replace(configured, where=where)


def _show(plan: MovePlan, *, as_json: bool) -> None:
    if as_json:
        say_json(msgspec.to_builtins(plan))
        return
    say(f"from {printable(plan.origin)} to {printable(plan.target)}, into {printable(plan.place)}")
    report = plan.report
    if report is None:
        say("the same directory is seen there; no file has to travel")
        return
    if report.git:
        on = f" on {printable(report.branch)}" if report.branch else ""
        size = report.history_bytes / _MEGABYTE
        say(f"history: commit {printable(report.commit[:12])}{on}, {size:.1f} MB")
    what = "changed and untracked" if report.git else "all"
    files = counted(report.files, "file")
    say(f"files: {files} ({what}), {report.file_bytes / _MEGABYTE:.1f} MB")
    if report.deleted:
        say(f"deleted: {counted(report.deleted, 'file')}")
    if report.ignored_count:
        some = ", ".join(printable(each) for each in report.ignored[:5])
        more = ", …" if report.ignored_count > 5 else ""
        say(f"stays, for git ignores it: {some}{more}")
    for note in report.notes:
        say(f"note: {printable(note)}")
