"""`treadle new`: create a thread."""

from __future__ import annotations

from typing import Any

import click

from ...prompt.input import user_message
from ...store.json_views import thread_json
from ..cli_home import Home
from ..command_options import as_json, runs, text_argument, title_option
from ..lazy_group import examples
from ..output import say, say_json
from ..prompt_preview import warn_of
from ..run_options import take_run_options, with_run_options
from ..terminal_input import is_attended
from ..thread_setup import open_thread, prepare, warn_of_project

__all__ = ["command"]


@click.command(
    "new",
    epilog=examples('treadle new "explain the tests"', "git diff | treadle new - --title review"),
)
@text_argument
@title_option
@with_run_options
@as_json
@runs
async def command(home: Home, *, text: str | None, title: str, as_json: bool, **asked: Any) -> None:
    """Create a thread and print its id.

    With TEXT (`-` reads TEXT from standard input), the thread starts with that input and its
    context. Nothing is sent to a model.
    """
    options = take_run_options(asked)
    if text is None and options.model:
        raise click.UsageError(
            "--model needs TEXT: a thread stores its model with its first input."
        )
    message = None if text is None else user_message(text)
    setup = await prepare(home, options, attended=is_attended())
    warn_of_project(setup)
    async with open_thread(setup, title=title, keep_empty=True) as thread:
        if message is not None:
            context = await thread.log.setup.observe()
            warn_of(context)
            await thread.log.turns.admit(message, context=context)
        info = await thread.store.info(thread.id)
    if as_json:
        say_json(thread_json(info))
    else:
        say(info.id)
