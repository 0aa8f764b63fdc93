"""`treadle fork`: create a thread that continues from a point of another."""

from __future__ import annotations

import asyncio

import click

from ...context.cuts import step_boundary
from ...prompt.registry import installed_registry
from ...store.json_views import thread_json
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs, thread_argument, title_option
from ..lazy_group import examples
from ..output import say, say_json

__all__ = ["command"]


@click.command(
    "fork", epilog=examples("treadle fork last", 'treadle fork last --at 12 --title "another way"')
)
@thread_argument
@click.option(
    "--at", type=click.IntRange(1), metavar="SEQ", help="The last entry to share  [default: all]"
)
@title_option
@as_json
@runs
async def command(home: Home, name: str, at: int | None, title: str, as_json: bool) -> None:
    """Create a thread that shares the entries of THREAD up to a point, and print its id.

    Nothing is copied, and the fork keeps the prompt cache. A point inside a step moves back
    to the end of the step before it. `treadle show --all` prints the entry numbers.
    """
    async with home.store() as store:
        parent = await find_thread(store, name)
        wanted = parent.last if at is None else at
        registry = await asyncio.to_thread(installed_registry)
        cut = await step_boundary(store, parent.id, registry, wanted)
        if cut != wanted:
            click.echo(f"entry {wanted} is inside a step; the fork shares up to {cut}", err=True)
        info = await store.fork(parent.id, cut, title=title)
    if as_json:
        say_json(thread_json(info))
    else:
        say(info.id)
