"""Options that commands share, and how a command that awaits is run.

Owns their names and helps, so that the same thing is spelled the same everywhere.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from .home import DEFAULT_MODEL

__all__ = [
    "as_json",
    "cwd_option",
    "given",
    "model_option",
    "runs",
    "text_argument",
    "thread_argument",
    "title_option",
]


def runs(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes a command of a coroutine function; its first argument is the `Home`."""

    @click.pass_obj
    @functools.wraps(function)
    def command(home: Any, *args: Any, **options: Any) -> None:
        asyncio.run(function(home, *args, **options))

    return command


def given(option: str) -> bool:
    """Whether an option stands on the command line, not in the environment."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def _encodable(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Bytes on the command line that are no UTF-8 are shown as such, not stored."""
    del ctx, parameter
    return value and value.encode(errors="surrogateescape").decode(errors="replace")


def _spoken(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The text that was given; ``-`` reads it from standard input.

    Read here, before any event loop could swallow the first Ctrl-C.
    """
    if value != "-":
        return _encodable(ctx, parameter, value)
    data = sys.stdin.buffer.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(
            f"standard input is not UTF-8 at byte {error.start}; convert it first"
        ) from error


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")

thread_argument = click.argument("name", metavar="THREAD")

text_argument = click.argument("text", required=False, callback=_spoken)

cwd_option = click.option(
    "--cwd",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The directory the thread works in  [default: this one, or the thread's own]",
)

model_option = click.option(
    "--model",
    metavar="MODEL",
    envvar="WEFT_MODEL",
    help=f"[env: WEFT_MODEL; default: the thread's own, else {DEFAULT_MODEL}]",
)

title_option = click.option(
    "--title", default="", callback=_encodable, help="A name for people to know it by."
)
