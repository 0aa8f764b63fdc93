"""Options that commands share, and running async commands.

Owns their names and helps, so that the same thing is spelled the same everywhere.
"""

from __future__ import annotations

import asyncio
import functools
import os
import select
import stat
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click

from ..config.settings import DEFAULT_MODEL

__all__ = [
    "MOST_PIPED",
    "as_json",
    "cwd_option",
    "encodable",
    "is_piped",
    "model_option",
    "prompt_argument",
    "runs",
    "shown_thread_argument",
    "standard_input",
    "text_argument",
    "thread_argument",
    "title_option",
]

MOST_PIPED = 4 << 20
"""The largest number of bytes of standard input: four for each character of an input."""
_WAIT_SECONDS = 1.0


def runs(function: Callable[..., Coroutine[Any, Any, int | None]]) -> Callable[..., int | None]:
    """Make a command of a coroutine function; its first argument is the `Home`.

    What it returns is the exit code.
    """

    @click.pass_obj
    @functools.wraps(function)
    def command(home: Any, *args: Any, **options: Any) -> int | None:
        return asyncio.run(function(home, *args, **options))

    return command


def encodable(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse bytes on the command line that are not UTF-8, and show them."""
    del ctx, parameter
    return value and value.encode(errors="surrogateescape").decode(errors="replace")


def _given_text(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the given text; ``-`` reads it from standard input.

    Read here, before any event loop could swallow the first Ctrl-C.
    """
    return standard_input() if value == "-" else encodable(ctx, parameter, value)


def _given_and_piped_text(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Return the given text, followed by standard input when that is a pipe or a file."""
    if value == "-":
        return standard_input()
    text = encodable(ctx, parameter, value)
    if not is_piped():
        return text
    piped = standard_input()
    if text is None:
        return piped
    return f"{text}\n\n<stdin>\n{piped.rstrip()}\n</stdin>" if piped.strip() else text


def is_piped() -> bool:
    """Return whether standard input is a pipe or a file."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def standard_input() -> str:
    """Read all of standard input; print that it waits when nothing comes."""
    if not sys.stdin.isatty() and not select.select([sys.stdin], [], [], _WAIT_SECONDS)[0]:
        click.echo("treadle: waiting for the end of standard input", err=True)
    data = sys.stdin.buffer.read(MOST_PIPED + 1)
    if len(data) > MOST_PIPED:
        raise click.ClickException(
            f"standard input is longer than {MOST_PIPED:,} bytes; "
            "write it to a file and name that file"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(
            f"standard input is not UTF-8 at byte {error.start}; convert it first"
        ) from error


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")

thread_argument = click.argument("name", metavar="THREAD")

shown_thread_argument = click.argument("name", metavar="[THREAD]", default="last")
"""For commands that only look: without a name, the last thread of this directory."""

text_argument = click.argument("text", required=False, callback=_given_text)

prompt_argument = click.argument(
    "text", metavar="[PROMPT]", required=False, callback=_given_and_piped_text
)

cwd_option = click.option(
    "--cwd",
    "-C",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The working directory of the thread  [default: the current one, or the thread's own]",
)

model_option = click.option(
    "--model",
    metavar="MODEL",
    help="The model  [default: TREADLE_MODEL, the thread's own, the configured one, "
    f"{DEFAULT_MODEL}]",
)

title_option = click.option(
    "--title", default="", callback=encodable, help="A title for the thread."
)
