"""`treadle delete`: delete a thread."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click

from ...core.errors import ConfigError
from ...store.contract import ThreadInfo
from ...store.thread_names import thread_name
from ...thread.deletion import delete_thread
from ..cli_home import Home, find_thread
from ..command_options import as_json, thread_argument
from ..lazy_group import examples
from ..output import iso, printable, say, say_json
from ..profiles import settings_of

__all__ = ["command", "engine_tables"]


@click.command("delete", epilog=examples("treadle delete 7d3f0a", "treadle delete last --yes"))
@thread_argument
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
@as_json
@click.pass_obj
def command(home: Home, name: str, yes: bool, as_json: bool) -> None:
    """Delete a thread permanently, after asking.

    Codex's copy of it and what context engines have of it are deleted too. Entries that its
    forks share stay until the last fork is deleted.
    """
    info, shown = asyncio.run(_find(home, name))
    # Asked outside the event loop, which would keep the first Ctrl-C to itself.
    if not yes and not _confirm(info, shown):
        say("kept")
        return
    for problem in asyncio.run(_delete(home, info.id)):
        click.echo(f"treadle: {problem}", err=True)
    if as_json:
        say_json({"deleted": info.id})
    else:
        say(f"deleted {info.id}")


async def _find(home: Home, name: str) -> tuple[ThreadInfo, str]:
    """Return the thread, and the name that people know it by."""
    async with home.store() as store:
        info = await find_thread(store, name)
        return info, await thread_name(store, info)


async def _delete(home: Home, thread: str) -> list[str]:
    async with home.store() as store, home.index(store) as index:
        return await delete_thread(
            thread, store, index, home=home.path, configs=engine_tables(home)
        )


def engine_tables(home: Home) -> dict[str, dict[str, Any]]:
    """Return the settings of engines. A thread can be deleted although they cannot be read."""
    try:
        return settings_of(home).engines
    except ConfigError:
        return {}


def _confirm(info: ThreadInfo, shown: str) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on; use --yes to delete the thread")
    title = f" ({printable(shown)})" if shown else ""
    what = f"{info.turns} turns, {info.last} entries, last written {iso(info.updated)}"
    return click.confirm(f"Delete {info.id}{title}, {what}?", err=True)
