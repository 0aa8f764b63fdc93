"""`treadle resume`: continue a thread of this directory."""

from __future__ import annotations

from typing import Any

import click

from ...store.json_views import thread_json
from ...store.thread_names import thread_name
from ..cli_home import Home, current_directory, find_thread, is_same_directory
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import THREAD_TAIL, Column, iso, say, say_json, table
from ..run_options import RunOptions, take_run_options, with_run_options
from ..terminal_input import is_attended

__all__ = ["command"]

_MOST = 20
_COLUMNS = (
    Column("THREAD", tail=THREAD_TAIL),
    Column("TITLE", gives=True),
    Column("UPDATED"),
    Column("DIRECTORY", spare=1),
)


@click.command(
    "resume",
    epilog=examples("treadle resume", "treadle resume last", "treadle resume --anywhere"),
)
@click.argument("name", metavar="[THREAD]", required=False)
@click.option("--anywhere", is_flag=True, help="Print the threads of all directories.")
@with_run_options
@as_json
@runs
async def command(
    home: Home, *, name: str | None, anywhere: bool, as_json: bool, **asked: Any
) -> None:
    """Continue THREAD in the chat.

    Without THREAD you choose one; those of this directory come first. Without a terminal, or
    with --json, the threads to choose from are printed.
    """
    options = take_run_options(asked)
    chatting = is_attended() and not as_json
    if name is None and not chatting:
        _print(await _rows(home, anywhere=anywhere), as_json=as_json)
        return
    if name is None:
        name = await _pick(home, options)
        if name is None:
            return
    elif not chatting:
        raise click.UsageError("there is no terminal to chat on; use `treadle exec --resume`")
    from ..first_steps import offer_a_way_in
    from ..repl.chat_loop import run_chat

    async with home.store() as store:
        thread = (await find_thread(store, name, options.cwd)).id
    await run_chat(home, await offer_a_way_in(home, options, thread), thread)


async def _rows(home: Home, *, anywhere: bool) -> list[dict[str, object]]:
    """Return the threads to choose from, the newest first."""
    here = None if anywhere else current_directory()
    async with home.store() as store:
        found = [
            info
            for info in await store.threads()
            if here is None or not info.cwd or is_same_directory(info.cwd, here)
        ]
        return [
            {**thread_json(info), "name": await thread_name(store, info)} for info in found[:_MOST]
        ]


def _print(rows: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        say_json(rows)
    elif rows:
        table(_COLUMNS, [_cells(row) for row in rows])
    else:
        say("no threads in this directory; `treadle resume --anywhere` lists those of others")


def _cells(row: dict[str, object]) -> list[str]:
    updated = row["updated"]
    assert isinstance(updated, int)
    return [str(row["id"]), str(row["name"]), iso(updated), str(row["cwd"])]


async def _pick(home: Home, options: RunOptions) -> str | None:
    """Let the user choose a thread; return its id, or None where nobody wants one."""
    from ..repl.picker import pick_thread

    here = current_directory() or home.path
    async with home.store() as store:
        if not any(info.turns for info in await store.threads()):
            say("no threads yet; `treadle` starts one")
            return None
        return await pick_thread(store, here, plain=bool(options.plain))
