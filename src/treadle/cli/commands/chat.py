"""`treadle chat`: the REPL, also what `treadle` alone does on a terminal."""

from __future__ import annotations

from typing import Any

import click

from ..cli_home import Home
from ..command_options import runs
from ..lazy_group import examples
from ..run_options import take_run_options, with_run_options
from ..terminal_input import is_attended

__all__ = ["command"]


@click.command(
    "chat",
    epilog=examples("treadle chat", "treadle chat --last", "treadle chat --model openai:gpt-5.4"),
)
@click.option("--resume", metavar="THREAD", help="Continue this thread.")
@click.option("--last", is_flag=True, help="Continue the thread that was written last.")
@with_run_options
@runs
async def command(home: Home, *, resume: str | None, last: bool, **asked: Any) -> None:
    """Chat with the agent in the terminal; /help lists the commands.

    Text that you enter while a turn runs is sent to the model before its next step. Ctrl-C
    interrupts the turn, Ctrl-D leaves.
    """
    if last and resume:
        raise click.UsageError("--last and --resume both name a thread; leave one out.")
    if not is_attended():
        raise click.UsageError("There is no terminal. Use `treadle exec`.")
    from ..repl.chat_loop import run_chat

    await run_chat(home, take_run_options(asked), "last" if last else resume)
