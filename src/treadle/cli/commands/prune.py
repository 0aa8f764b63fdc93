"""`treadle prune`: delete threads that nobody has written for long."""

from __future__ import annotations

import asyncio
import sys
import time

import click
from msgspec import Struct

from ...core.errors import ThreadBusy
from ...store.contract import MeasuresThreads
from ...store.thread_names import thread_name
from ...thread.deletion import delete_thread
from ...thread.retention import OldThread, find_old_threads
from ..cli_home import Home
from ..command_options import as_json
from ..durations import Duration
from ..lazy_group import examples
from ..output import Column, counted, iso, say, say_json, shown_bytes, table, working
from .delete import engine_tables

__all__ = ["command"]

_COLUMNS = (
    Column("THREAD"),
    Column("TITLE", gives=True),
    Column("UPDATED"),
    Column("SIZE", right=True),
    Column("KEPT"),
)


@click.command(
    "prune",
    epilog=examples(
        "treadle prune --older-than 90d --dry-run",
        "treadle prune --older-than 90d",
        "treadle prune --older-than 26w --yes",
    ),
)
@click.option(
    "--older-than",
    type=Duration(),
    required=True,
    metavar="AGE",
    help="Delete threads that were last written before this long: 90d, 12w.",
)
@click.option("--dry-run", is_flag=True, help="List the threads, and delete nothing.")
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
@as_json
@click.pass_obj
def command(home: Home, *, older_than: float, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete threads that nobody has written for long, after asking once.

    Threads that are being written and agents of threads that stay are kept. What forks share
    stays with the forks, and so do the summaries that were made of it.
    """
    found = asyncio.run(_find(home, int((time.time() - older_than) * 1000)))
    chosen = [each.thread for each in found if not each.thread.kept]
    if dry_run or not chosen:
        _show(found, as_json=as_json)
        return
    if not yes and not _confirm(found, len(chosen)):
        say("kept")
        return
    with working(f"deleting {counted(len(chosen), 'thread')}"):
        deleted, problems = asyncio.run(_delete(home, chosen))
    for problem in problems:
        click.echo(f"treadle: {problem}", err=True)
    if as_json:
        say_json({"deleted": deleted, "problems": problems})
    else:
        gone = counted(len(deleted), "thread")
        say(f"deleted {gone}; `treadle gc` gives their space back to the disk")


class _Listed(Struct, frozen=True):
    """An old thread as it is listed."""

    thread: OldThread
    name: str
    """Its title, or how its first input begins."""
    size: int


def _show(found: list[_Listed], *, as_json: bool) -> None:
    if as_json:
        say_json(
            [
                {
                    "id": each.thread.info.id,
                    "title": each.thread.info.title,
                    "name": each.name,
                    "updated": each.thread.info.updated,
                    "bytes": each.size,
                    "kept": each.thread.kept or None,
                }
                for each in found
            ]
        )
    elif found:
        table(_COLUMNS, [_row(each) for each in found])
    else:
        say("no thread is that old; nothing was deleted")


def _row(each: _Listed) -> list[str]:
    info = each.thread.info
    return [info.id, each.name, iso(info.updated), shown_bytes(each.size), each.thread.kept]


def _confirm(found: list[_Listed], count: int) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"{counted(count, 'thread')} would be deleted, and there is no terminal to ask on. "
            "Use --dry-run to list them, --yes to delete them."
        )
    _show(found, as_json=False)
    return click.confirm(f"Delete {counted(count, 'thread')}?", err=True)


async def _find(home: Home, before: int) -> list[_Listed]:
    async with home.store() as store:
        found = await find_old_threads(store, before)
        ids = [each.info.id for each in found]
        sizes = await store.sizes(ids) if isinstance(store, MeasuresThreads) else {}
        return [
            _Listed(each, await thread_name(store, each.info), sizes.get(each.info.id, 0))
            for each in found
        ]


async def _delete(home: Home, chosen: list[OldThread]) -> tuple[list[str], list[str]]:
    deleted: list[str] = []
    problems: list[str] = []
    async with home.store() as store, home.index(store) as index:
        for each in chosen:
            name = each.info.id
            try:
                problems += await delete_thread(
                    name, store, index, home=home.path, configs=engine_tables(home)
                )
            except ThreadBusy as error:
                problems.append(str(error))
            else:
                deleted.append(name)
    return deleted, problems
