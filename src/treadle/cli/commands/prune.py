"""`treadle prune`: delete threads that nobody has written for long."""

from __future__ import annotations

import asyncio
import sys
import time

import click

from ...core.errors import ThreadBusy
from ...store.contract import MeasuresThreads
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
    found, sizes = asyncio.run(_find(home, int((time.time() - older_than) * 1000)))
    chosen = [each for each in found if not each.kept]
    if dry_run or not chosen:
        _show(found, sizes, as_json=as_json)
        return
    if not yes and not _confirm(found, sizes, len(chosen)):
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


def _show(found: list[OldThread], sizes: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        say_json(
            [
                {
                    "id": each.info.id,
                    "title": each.info.title,
                    "updated": each.info.updated,
                    "bytes": sizes.get(each.info.id, 0),
                    "kept": each.kept or None,
                }
                for each in found
            ]
        )
    elif found:
        table(_COLUMNS, [_row(each, sizes) for each in found])
    else:
        say("no thread is that old; nothing was deleted")


def _row(each: OldThread, sizes: dict[str, int]) -> list[str]:
    info = each.info
    size = shown_bytes(sizes.get(info.id, 0))
    return [info.id, info.title, iso(info.updated), size, each.kept]


def _confirm(found: list[OldThread], sizes: dict[str, int], count: int) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"{count} threads would be deleted, and there is no terminal to ask on. "
            "Use --dry-run to list them, --yes to delete them."
        )
    _show(found, sizes, as_json=False)
    return click.confirm(f"Delete {count} threads?", err=True)


async def _find(home: Home, before: int) -> tuple[list[OldThread], dict[str, int]]:
    async with home.store() as store:
        found = await find_old_threads(store, before)
        names = [each.info.id for each in found]
        return found, await store.sizes(names) if isinstance(store, MeasuresThreads) else {}


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
