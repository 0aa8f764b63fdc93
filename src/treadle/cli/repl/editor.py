"""The editor: the input line, with its keys, history and completions.

Invariant: Enter sends, Alt-Enter or a backslash before Enter begins a new line, Ctrl-C
never ends the process; answers to questions are kept out of the history.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from ...core.redact import redact_known

__all__ = ["Editor"]

_REFRESH = 0.2


class _Keyboard(Vt100Input):
    """Standard input that stays raw while something is printed, so that no key is lost."""

    def cooked_mode(self) -> AbstractContextManager[None]:
        return nullcontext()


class _BlankedHistory(FileHistory):
    """The lines of earlier days, without known secrets."""

    def store_string(self, string: str) -> None:
        super().store_string(redact_known(string))


class _Words(Completer):
    """Completes a command, or the one word after it."""

    def __init__(self, words: Callable[[str], Iterable[str]]) -> None:
        self._words = words

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        del complete_event
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        word = text.rpartition(" ")[2]
        for candidate in self._words(text):
            if candidate.startswith(word):
                yield Completion(candidate, start_position=-len(word))


class Editor:
    """Reads lines; it calls `message` and `toolbar` repeatedly while it reads."""

    def __init__(
        self,
        history: Path,
        *,
        message: Callable[[], StyleAndTextTuples],
        toolbar: Callable[[], StyleAndTextTuples],
        words: Callable[[str], Iterable[str]],
        interrupt: Callable[[], bool],
        asking: Callable[[], bool],
    ) -> None:
        self._interrupt, self._asking = interrupt, asking
        self._keyboard = _Keyboard(sys.stdin)
        self._session: PromptSession[str] = PromptSession(
            message,
            bottom_toolbar=toolbar,
            completer=_Words(words),
            complete_while_typing=True,
            erase_when_done=True,
            history=_BlankedHistory(_private(history)),
            input=self._keyboard,
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation="  ",
            refresh_interval=_REFRESH,
            reserve_space_for_menu=4,
        )

    def listening(self) -> AbstractContextManager[None]:
        """Keeps the input between two reads for the next one."""
        return self._keyboard.raw_mode()

    async def read(self) -> str:
        """Read a line. Raises `EOFError` when the user wants to leave."""
        return await self._session.prompt_async()

    def leave(self, error: BaseException | None = None) -> None:
        """End the reading from outside."""
        app = self._session.app
        if app.is_running and app.future is not None and not app.future.done():
            app.exit(exception=error or EOFError())

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("enter")(self._handle_enter)
        keys.add("escape", "enter")(_new_line)
        keys.add("c-c")(self._handle_interrupt)
        keys.add(Keys.SIGINT)(self._handle_interrupt)
        return keys

    def _handle_enter(self, event: KeyPressEvent) -> None:
        buffer: Buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif self._asking():
            event.app.exit(result=buffer.text)
        else:
            buffer.validate_and_handle()

    def _handle_interrupt(self, event: KeyPressEvent) -> None:
        if not self._interrupt():
            event.current_buffer.reset()


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def _private(path: Path) -> str:
    """Create a file for its owner only, with any umask."""
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    return str(path)
