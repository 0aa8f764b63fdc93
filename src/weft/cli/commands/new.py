"""`weft new`: make a thread."""

from __future__ import annotations

from pathlib import Path

import click

from ..home import DEFAULT_MODEL, Home
from ..lazy import examples
from ..options import (
    as_json,
    cwd_option,
    given,
    model_option,
    runs,
    text_argument,
    title_option,
)
from ..output import say, say_json
from ..views import thread_json

__all__ = ["command"]


@click.command(
    "new", epilog=examples('weft new "explain the tests"', "git diff | weft new - --title review")
)
@text_argument
@cwd_option
@model_option
@title_option
@as_json
@runs
async def command(
    home: Home,
    *,
    text: str | None,
    cwd: Path | None,
    model: str | None,
    title: str,
    as_json: bool,
) -> None:
    """Make a thread and print its id.

    With TEXT (`-` reads it from standard input) the thread starts with that input and
    the context that goes with it. Nothing is sent to a model.
    """
    from ...prompt.input import user_message
    from ...thread import Thread
    from ..preview import warn_of

    if text is None and given("model"):
        raise click.UsageError("--model needs TEXT: a thread remembers it with its first input.")
    message = None if text is None else user_message(text)
    async with Thread.open(
        model=model or DEFAULT_MODEL, cwd=cwd, home=home.path, title=title
    ) as thread:
        if message is not None:
            context = await thread.observe()
            warn_of(context)
            await thread.admit(message, context=context)
        info = await thread.store.info(thread.id)
    if as_json:
        say_json(thread_json(info))
    else:
        say(info.id)
