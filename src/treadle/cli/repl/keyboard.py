"""The keyboard: standard input that stays raw while something is printed.

Invariant: no key that is typed between two lines is lost, and another program that takes the
terminal for a while (an editor, a shell after Ctrl-Z) finds it as it was before.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.input.vt100 import Vt100Input

__all__ = ["Keyboard"]


class Keyboard(Vt100Input):
    """The keys of the terminal that the process was started in."""

    def __init__(self) -> None:
        super().__init__(sys.stdin)
        self._lent = False

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Let another program read lines, while the terminal is lent to one."""
        return super().cooked_mode() if self._lent else nullcontext()

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Leave the terminal to another program for a while."""
        self._lent = True
        try:
            yield
        finally:
            self._lent = False

    async def suspend(self) -> None:
        """Stop, as Ctrl-Z does with other programs; return when the shell continues it."""
        with self.lend():
            await run_in_terminal(lambda: os.kill(0, signal.SIGTSTP), render_cli_done=True)
