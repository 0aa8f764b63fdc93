"""`treadle delete`: delete a thread."""

from __future__ import annotations

import asyncio
import sys

import click

from ...engines.lossless.doctor.repair_library import forget_thread
from ...policy.auth.auth_state import AuthState
from ...store.contract import Store, ThreadInfo
from ..cli_home import LIBRARY, Home, find_thread
from ..command_options import as_json, thread_argument
from ..lazy_group import examples
from ..output import iso, printable, say, say_json

__all__ = ["command"]


@click.command("delete", epilog=examples("treadle delete 7d3f0a", "treadle delete last --yes"))
@thread_argument
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
@as_json
@click.pass_obj
def command(home: Home, name: str, yes: bool, as_json: bool) -> None:
    """Delete a thread permanently, after asking.

    Entries that its forks share stay until the last fork is deleted.
    """
    info = asyncio.run(_find(home, name))
    # Asked outside the event loop, which would keep the first Ctrl-C to itself.
    if not yes and not _confirm(info):
        say("kept")
        return
    asyncio.run(_delete(home, info.id))
    if as_json:
        say_json({"deleted": info.id})
    else:
        say(f"deleted {info.id}")


async def _find(home: Home, name: str) -> ThreadInfo:
    async with home.store() as store:
        return await find_thread(store, name)


async def _delete(home: Home, thread: str) -> None:
    async with home.store() as store, home.index(store) as index:
        await store.delete(thread)
        await index.forget(thread)
        await asyncio.to_thread(AuthState(home.path).unpin, thread)
        if not await _has_forks(store, thread):
            await forget_thread(home.path / LIBRARY, thread)


async def _has_forks(store: Store, thread: str) -> bool:
    """Return whether a fork still shares entries of the thread."""
    lineages = [await store.lineage(info.id) for info in await store.threads() if info.parent]
    return any(span.thread == thread for lineage in lineages for span in lineage)


def _confirm(info: ThreadInfo) -> bool:
    if not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask on. Use --yes to delete the thread.")
    title = f" ({printable(info.title)})" if info.title else ""
    what = f"{info.turns} turns, {info.last} entries, last written {iso(info.updated)}"
    return click.confirm(f"Delete {info.id}{title}, {what}?", err=True)
