"""What the inspector needs to act: threads opened as commands open them.

Owns the way from a thread's name to its settings. Invariant: a turn that is started in the
browser runs under the settings that `treadle exec` would use in that directory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from ..core.errors import InvalidOption
from ..store.contract import Store
from .cli_home import Home
from .run_options import RunOptions
from .thread_setup import open_thread, prepare, warn_of_project

if TYPE_CHECKING:
    from ..thread.thread import Thread

__all__ = ["CommandHome"]


class CommandHome:
    """The home of a command, for an inspector that may act."""

    def __init__(self, home: Home, options: RunOptions) -> None:
        self._home, self._options = home, options

    @asynccontextmanager
    async def open_thread(
        self, thread: str | None, *, cwd: Path | None = None, model: str | None = None
    ) -> AsyncGenerator[Thread]:
        """Open a thread as `treadle exec` would; without a name a new one."""
        options = replace(self._options, model=model or self._options.model, cwd=cwd)
        try:
            setup = await prepare(self._home, options, thread, attended=True)
            warn_of_project(setup)
            async with open_thread(setup) as opened:
                yield opened
        except click.ClickException as error:
            raise InvalidOption(error.format_message()) from error

    def open_store(self) -> AbstractAsyncContextManager[Store]:
        """Open the store to write to it beside those who hold threads."""
        return self._home.writable_store()
