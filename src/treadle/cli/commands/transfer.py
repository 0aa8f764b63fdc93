"""`treadle transfer`: move threads into another store."""

from __future__ import annotations

import asyncio

import click

from ...core.store_address import OWN_FILE, check_address, shown_address
from ...prompt.registry import installed_registry
from ...transfer.store_copy import MovedThread, copy_family
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import THREAD_TAIL, Column, say, say_json, table, working

__all__ = ["command"]

_COLUMNS = (
    Column("THREAD", tail=THREAD_TAIL),
    Column("ENTRIES", right=True),
    Column("REQUESTS", right=True),
)


@click.command(
    "transfer",
    epilog=examples(
        "treadle transfer --to postgresql://me@db.example.org/agents --all",
        "treadle transfer last --to postgresql://me@db.example.org/agents",
    ),
)
@click.argument("names", metavar="[THREAD]...", nargs=-1)
@click.option(
    "--to",
    "target",
    metavar="ADDRESS",
    required=True,
    help="Where to: postgresql://USER@HOST/DATABASE, or sqlite for the file in the home.",
)
@click.option("--all", "everything", is_flag=True, help="Move all threads.")
@click.option("--keep", is_flag=True, help="Leave them where they are, too.")
@as_json
@runs
async def command(
    home: Home, *, names: tuple[str, ...], target: str, everything: bool, keep: bool, as_json: bool
) -> None:
    """Move threads into another store as they are, each with its forks.

    Ids, times, turns and bytes stay: every request is rendered in the new place and compared
    before the old one is removed. What was posted and not read goes along. With --keep the old
    thread stays; never continue both, they are one thread to every index.
    """
    if bool(names) == everything:
        raise click.UsageError("Name threads, or --all of them.")
    place = Home(home.given, check_address(target) or OWN_FILE)
    if place.address == home.address:
        raise click.UsageError("--to is where the threads are; name another store.")
    moved: list[MovedThread] = []
    registry = await asyncio.to_thread(installed_registry)
    async with home.store() as source, place.writable_store() as other, place.index(other) as index:
        wanted = (
            [info.id for info in await source.threads()]
            if everything
            else [(await find_thread(source, name)).id for name in names]
        )
        with working("moving") as tell:
            for thread in wanted:
                if any(each.id == thread for each in moved):
                    continue  # it went with its family
                tell(f"moving {thread}")
                moved += await copy_family(source, other, index, thread, registry, keep=keep)
    if as_json:
        say_json({"to": shown_address(target), "kept": keep, "threads": moved})
        return
    say(f"{'copied' if keep else 'moved'} {len(moved)} thread{'' if len(moved) == 1 else 's'}")
    if moved:
        table(_COLUMNS, [[each.id, f"{each.entries:,}", f"{each.requests:,}"] for each in moved])
