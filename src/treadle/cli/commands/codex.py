"""`treadle codex`: show the installed Codex, and the threads that are bound to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import click

from ...config import Settings, load_config
from ...core.aio import finish_uncancelled
from ..cli_home import Home
from ..codex_state import CodexState, ThreadBinding, bindings, codex_binary, codex_state
from ..command_options import as_json, runs
from ..lazy_group import examples
from ..output import Column, iso, say, say_json, table

__all__ = ["command"]

_COLUMNS = (
    Column("THREAD"),
    Column("CODEX THREAD"),
    Column("VERSION"),
    Column("ENGINE"),
    Column("EPOCH", right=True),
    Column("PROJECTION"),
    Column("TOOLS"),
    Column("SINCE"),
    Column("BECAUSE", gives=True),
)
_SHORT = 8


@click.group(
    "codex",
    invoke_without_command=True,
    epilog=examples("treadle codex status", "treadle codex login"),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Show the installed Codex, and the threads that are bound to it.

    Without a command, it runs `treadle codex status`.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(status, as_json=as_json)


@command.command("status", epilog=examples("treadle codex status", "treadle codex status --json"))
@as_json
@runs
async def status(home: Home, as_json: bool) -> None:
    """Show version, binary and home of Codex, and the binding of each thread.

    A binding connects a thread to a Codex thread: the VERSION of Codex, the ENGINE that built
    the view, the first entry of the view (EPOCH), the PROJECTION, a fingerprint of the TOOLS,
    the start time (SINCE), and why it replaced the binding before it (BECAUSE). The command
    does not start Codex.
    """
    settings = _settings(home)
    state = await codex_state(settings, home.path, os.environ, start=False)
    async with home.store() as store:
        bound = await bindings(store)
    if as_json:
        say_json({"codex": state, "bindings": bound})
    else:
        _print(state, bound)


@command.command(
    "login",
    context_settings={"ignore_unknown_options": True},
    epilog=examples("treadle codex login", "treadle codex login --device-auth"),
)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
@runs
async def login(home: Home, args: tuple[str, ...]) -> int:
    """Log in with your Codex account, by `codex login` of the installed Codex.

    ARGS are passed on to it. The login is stored in your own Codex home (CODEX_HOME), where
    `codex` itself finds it too; models named `codex:MODEL` are paid with it.
    """
    binary = await codex_binary(_settings(home), os.environ)
    process = await asyncio.create_subprocess_exec(binary, "login", *args)
    try:
        return await process.wait()
    except asyncio.CancelledError:
        # Ctrl-C reached it too: it has the same terminal.
        await finish_uncancelled(process.wait())
        raise


def _settings(home: Home) -> Settings:
    return load_config(home.path, Path().absolute(), os.environ).settings


def _print(state: CodexState, bound: Sequence[ThreadBinding]) -> None:
    say(f"version     {state.version or '-'} (supported: {state.supported})")
    say(f"binary      {state.binary or '-'}")
    say(f"home        {state.home} ({state.whose})")
    say(f"projection  {state.projection}")
    if state.problem:
        say(f"problem     {state.problem}")
    if bound:
        say("")
        table(_COLUMNS, [_row(each) for each in bound])
    else:
        say("\nno thread is bound to Codex")


def _row(each: ThreadBinding) -> list[str]:
    return [
        each.thread,
        each.codex,
        each.codex_version or "-",
        each.engine,
        str(each.epoch),
        each.projection,
        each.tools[:_SHORT] or "-",
        iso(each.since),
        each.reason or "-",
    ]
