"""The options that say which thread a command continues.

Owns their names for every command that can continue one. Invariant: they name at most one
thread, and `last` means the same here as the word `last` for a THREAD.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from .cli_home import Home, find_thread, last_thread

__all__ = ["ThreadChoice", "take_thread_choice", "with_thread_choice"]

_OPTIONS = (
    click.option("--resume", metavar="THREAD", help="Continue this thread."),
    click.option(
        "--last",
        "--continue",
        "last",
        is_flag=True,
        help="Continue the thread that was written last in this directory.",
    ),
    click.option(
        "--anywhere", is_flag=True, help="With --last: the thread that was written last anywhere."
    ),
)


class ThreadChoice(Struct, frozen=True, kw_only=True):
    """What was said of the thread to continue; nothing means a new one."""

    resume: str | None = None
    last: bool = False
    anywhere: bool = False

    def __bool__(self) -> bool:
        return self.last or self.resume is not None

    async def find(self, home: Home, where: Path | None) -> str | None:
        """Return the id of the chosen thread; None for a new one. Raises `NotFound`."""
        if not self:
            return None
        async with home.store() as store:
            if self.last and self.anywhere:
                return (await last_thread(store, None)).id
            return (await find_thread(store, self.resume or "last", where)).id


def with_thread_choice(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `ThreadChoice`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def take_thread_choice(asked: dict[str, Any]) -> ThreadChoice:
    """Take the options of `ThreadChoice` out of all that a command was given."""
    choice = ThreadChoice(**{name: asked.pop(name) for name in ThreadChoice.__struct_fields__})
    if choice.last and choice.resume is not None:
        raise click.UsageError("--last and --resume both name a thread; leave one out.")
    if choice.anywhere and not choice.last:
        raise click.UsageError("--anywhere is about --last; add --last, or leave it out.")
    return choice
