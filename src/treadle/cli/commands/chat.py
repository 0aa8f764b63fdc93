"""`treadle chat`: the REPL, also what `treadle` alone does on a terminal."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import click

from ..cli_home import Home
from ..command_options import encodable, runs
from ..lazy_group import examples
from ..run_options import take_run_options, with_run_options, with_worktree
from ..terminal_input import is_attended
from ..thread_choice import take_thread_choice, with_thread_choice

__all__ = ["command"]


@click.command(
    "chat",
    epilog=examples(
        "treadle chat",
        'treadle chat "fix the bug"',
        "treadle chat --last",
        "treadle chat --model openai:gpt-5.4",
    ),
)
@click.argument("text", metavar="[TEXT]", required=False, callback=encodable)
@with_thread_choice
@with_worktree
@with_run_options
@runs
async def command(home: Home, *, text: str | None, worktree: str | None, **asked: Any) -> None:
    """Chat with the agent in the terminal; /help lists the commands.

    TEXT is your first message. Text that you enter while a turn runs is sent to the model
    before its next step. Ctrl-C interrupts the turn, Ctrl-D leaves.
    """
    choice, options = take_thread_choice(asked), take_run_options(asked)
    if not is_attended():
        raise click.UsageError("there is no terminal to chat on; use `treadle exec`")
    from ..first_steps import offer_a_way_in
    from ..repl.chat_loop import run_chat

    async with AsyncExitStack() as stack:
        if worktree is not None:
            from ..worktree_use import use_worktree

            used = use_worktree(home, options, worktree, text)
            options = await stack.enter_async_context(used)
        thread = await choice.find(home, options.place or options.cwd)
        options = await offer_a_way_in(home, options, thread)
        await run_chat(home, options, thread, text)
