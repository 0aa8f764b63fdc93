"""`treadle processes`: list and stop the commands that threads have running."""

from __future__ import annotations

import asyncio

import click

from ...core.errors import NotFound
from ...tools.local.running import find_running, stop_running
from ..cli_home import Home, find_thread
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import Column, say, say_json, table

__all__ = ["command"]

_COLUMNS = (
    Column("PID", right=True),
    Column("THREAD"),
    Column("SECONDS", right=True),
    Column("COMMAND", gives=True),
)


@click.command(
    "processes",
    epilog=examples(
        "treadle processes", "treadle processes --stop 4711", "treadle processes last --stop-all"
    ),
)
@click.argument("name", metavar="[THREAD]", required=False)
@click.option("--stop", type=int, multiple=True, metavar="PID", help="Stop this command.")
@click.option("--stop-all", is_flag=True, help="Stop all commands that are listed.")
@as_json
@runs
async def command(
    home: Home, *, name: str | None, stop: tuple[int, ...], stop_all: bool, as_json: bool
) -> None:
    """List the commands that threads have running on this machine, or stop some.

    A command that is stopped is killed with all that it started; the model reads that it has
    ended. Commands that Codex runs by itself are not listed.
    """
    async with home.store() as store:
        chosen = (await find_thread(store, name)).id if name is not None else None
        known = {info.id for info in await store.threads()}
    found = [each for each in await asyncio.to_thread(find_running, chosen) if each.thread in known]
    missing = set(stop) - {each.pid for each in found}
    if missing:
        raise NotFound("running command", min(missing), "`treadle processes` lists them")
    ended = [each for each in found if stop_all or each.pid in stop]
    for each in ended:
        await stop_running(each)
    shown = ended if stop or stop_all else found
    if as_json:
        say_json(
            [
                {
                    "pid": each.pid,
                    "thread": each.thread,
                    "seconds": round(each.seconds, 1),
                    "command": each.command,
                    "processes": each.processes,
                    "stopped": each in ended,
                }
                for each in shown
            ]
        )
    elif ended:
        say("\n".join(f"stopped {each.pid}: {each.command}" for each in ended))
    elif found:
        rows = [[str(p.pid), p.thread, f"{p.seconds:,.0f}", p.command] for p in found]
        table(_COLUMNS, rows)
    else:
        say("no thread has a command running")
