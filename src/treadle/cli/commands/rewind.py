"""`treadle rewind`: take back the last turns of a thread, with the files that they changed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from ...config import load_config
from ...config.settings import DEFAULT_MODEL
from ...thread.rewinding import RewindPlan, Rewound
from ...thread.thread import Thread
from ..cli_home import Home, find_thread
from ..command_options import as_json, thread_argument
from ..lazy_group import examples
from ..output import counted, say, say_json
from ..rewind_view import (
    CHOICES,
    RewindChoice,
    ask_text,
    plan_json,
    plan_lines,
    result_json,
    result_lines,
)
from ..thread_setup import engine_options

__all__ = ["command"]


@click.command(
    "rewind",
    epilog=examples(
        "treadle rewind last                 the last turn, asking first",
        "treadle rewind last 3 --dry-run     show what three turns would take back",
        "treadle rewind last --files --yes   only the files",
        "treadle rewind last --undo          undo the rewind",
    ),
)
@thread_argument
@click.argument("turns", type=click.IntRange(min=1), required=False)
@click.option("--to", type=int, metavar="SEQ", help="Rewind to this entry instead.")
@click.option("--files", "only", flag_value="files", help="Only restore files.")
@click.option("--conversation", "only", flag_value="conversation", help="Only hide the turns.")
@click.option("--overwrite", is_flag=True, help="Also restore what somebody else changed since.")
@click.option("--undo", is_flag=True, help="Undo the newest rewind of the thread.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@as_json
@click.pass_obj
def command(
    home: Home,
    name: str,
    *,
    turns: int | None,
    to: int | None,
    only: str | None,
    overwrite: bool,
    undo: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Take back the last TURNS turns (default: 1), and the files they changed.

    The turns are hidden from the model, not deleted; files are restored from copies. What
    would change is shown first, and you are asked once. Files that somebody else changed, too,
    stay as they are unless you say otherwise.
    """
    if turns is not None and to is not None:
        raise click.UsageError("Give either TURNS or --to, not both.")
    if undo and (turns is not None or to is not None):
        raise click.UsageError("--undo takes back the newest rewind; leave out TURNS and --to.")
    plan = asyncio.run(_plan(home, name, turns or 1, to, undo=undo))
    if dry_run:
        _show(plan, as_json=as_json)
        return
    chosen = RewindChoice(only != "files", only != "conversation", overwrite)
    # Asked outside the event loop, which would keep the first Ctrl-C to itself.
    answer = chosen if yes or not _must_ask(plan, chosen) else _ask(plan, chosen)
    if answer is None:
        say("nothing was changed")
        return
    done = asyncio.run(_rewind(home, plan, answer))
    if as_json:
        say_json(result_json(plan, done))
        return
    lines = list(result_lines(plan, done))
    for line in lines or ["there is nothing to take back; nothing was changed"]:
        say(line)


def _must_ask(plan: RewindPlan, chosen: RewindChoice) -> bool:
    """Whether files would change: a conversation that is hidden comes back with --undo."""
    return chosen.files and bool(plan.files.actions)


def _show(plan: RewindPlan, *, as_json: bool) -> None:
    if as_json:
        say_json(plan_json(plan))
        return
    for line in list(plan_lines(plan)) or ["there is nothing to take back"]:
        say(line)


def _ask(plan: RewindPlan, chosen: RewindChoice) -> RewindChoice | None:
    """Show the plan and ask once; what the command line chose is not asked about."""
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"{counted(len(plan.files.actions), 'file')} would change, and there is no terminal "
            "to ask on. "
            "Use --yes, --dry-run to see them, or --conversation to leave them as they are."
        )
    for line in plan_lines(plan):
        click.echo(line, err=True)
    if chosen != RewindChoice():
        return chosen if click.confirm("Rewind?", err=True) else None
    answer = click.prompt(
        ask_text(plan),
        type=click.Choice(list(CHOICES), case_sensitive=False),
        show_choices=False,
        err=True,
    )
    return CHOICES[answer.lower()]


@asynccontextmanager
async def _open_thread(home: Home, name: str) -> AsyncIterator[Thread]:
    async with home.store() as store, home.index(store) as index:
        found = await find_thread(store, name)
        settings = load_config(home.path, Path(found.cwd), os.environ).settings
        async with Thread.open(
            found.id,
            model=DEFAULT_MODEL,
            home=home.path,
            store=store,
            index=index,
            engine=engine_options(settings),  # it must remove the hidden entries
        ) as thread:
            yield thread


async def _plan(home: Home, name: str, turns: int, to: int | None, *, undo: bool) -> RewindPlan:
    async with _open_thread(home, name) as thread:
        if undo:
            return await thread.rewinds.plan_undo()
        return await thread.rewinds.plan(turns, to=to)


async def _rewind(home: Home, plan: RewindPlan, choice: RewindChoice) -> Rewound:
    async with _open_thread(home, plan.thread) as thread:
        return await thread.rewinds.apply(
            plan,
            conversation=choice.conversation,
            files=choice.files,
            overwrite=choice.overwrite,
        )
