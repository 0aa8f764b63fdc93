"""The editor: the input line, with its keys, history and completions.

Invariant: Enter sends, Alt-Enter or a backslash before Enter begins a new line, Ctrl-C
never ends the process; answers to questions are kept out of the history.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.shortcuts import CompleteStyle

from ...core.redact import redact_known
from .clipboard import read_image
from .completions import LineCompleter, Words
from .keyboard import Keyboard
from .mentions import ProjectFiles
from .pastes import Pastes

__all__ = ["Editor", "Talk"]

_REFRESH = 0.2
_KEY_SECONDS = 0.05
_SEQUENCE_SECONDS = 0.3
"""How long the rest of a key and the next key of two may take after Escape."""


class Talk(Protocol):
    """The conversation that the line belongs to."""

    def message(self) -> StyleAndTextTuples:
        """Return what stands before the line."""
        ...

    def toolbar(self) -> StyleAndTextTuples:
        """Return what stands below the line."""
        ...

    def interrupt(self) -> bool:
        """Interrupt the running work; return whether there was any."""
        ...

    @property
    def asks(self) -> bool:
        """Return whether the line is an answer to a question."""
        ...

    @property
    def busy(self) -> bool:
        """Return whether a turn or other work runs."""
        ...

    @property
    def has_queued(self) -> bool:
        """Return whether messages wait that the model has not read."""
        ...

    def take_queued(self) -> Awaitable[str]:
        """Take the newest message back that the model has not read; empty if there is none."""
        ...

    def report(self, text: str) -> None:
        """Tell the user why a key did nothing."""
        ...


class _BlankedHistory(FileHistory):
    """The lines of earlier days, without known secrets, and with what was pasted."""

    def __init__(self, filename: str, expand: Callable[[str], str]) -> None:
        super().__init__(filename)
        self._expand = expand

    def store_string(self, string: str) -> None:
        super().store_string(redact_known(self._expand(string)))


class Editor:
    """Reads lines; it asks the conversation repeatedly what to show while it reads."""

    def __init__(
        self, history: Path, talk: Talk, *, words: Words, cwd: Path, plain: bool = False
    ) -> None:
        self.keyboard = Keyboard()
        self.pastes = Pastes()
        self._talk = talk
        self._waiting = ""
        """What the next line begins with."""
        self._session: PromptSession[str] = PromptSession(
            talk.message,
            bottom_toolbar=None if plain else talk.toolbar,
            completer=LineCompleter(words, ProjectFiles(cwd)),
            complete_in_thread=True,
            complete_while_typing=not plain,
            complete_style=CompleteStyle.READLINE_LIKE if plain else CompleteStyle.COLUMN,
            erase_when_done=True,
            history=_BlankedHistory(_private(history), self.pastes.expand),
            input=self.keyboard,
            key_bindings=self._keys(),
            multiline=True,
            prompt_continuation="  ",
            refresh_interval=0 if plain else _REFRESH,
            reserve_space_for_menu=0 if plain else 4,
            tempfile_suffix=".md",
        )
        self._session.app.ttimeoutlen = _KEY_SECONDS
        self._session.app.timeoutlen = _SEQUENCE_SECONDS

    def listening(self) -> AbstractContextManager[None]:
        """Keeps the input between two reads for the next one."""
        return self.keyboard.raw_mode()

    async def read(self) -> str:
        """Read a line. Raises `EOFError` when the user wants to leave."""
        begun, self._waiting = self._waiting, ""
        return await self._session.prompt_async(default=begun)

    def leave(self, error: BaseException | None = None) -> None:
        """End the reading from outside."""
        app = self._session.app
        if app.is_running and app.future is not None and not app.future.done():
            app.exit(exception=error or EOFError())

    def restore(self, text: str) -> None:
        """Put text back into the line, before what is typed there."""
        if not self._session.app.is_running:
            self._waiting = "\n".join(filter(None, [text, self._waiting]))
            return
        buffer = self._session.default_buffer
        buffer.text = "\n".join(filter(None, [text, buffer.text]))
        buffer.cursor_position = len(buffer.text)

    def remember(self, line: str) -> None:
        """Keep a line in the history that was not sent."""
        self._session.history.append_string(line)

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add("enter")(self._handle_enter)
        keys.add("escape", "enter")(_new_line)
        keys.add("c-c")(self._handle_interrupt)
        keys.add(Keys.SIGINT)(self._handle_interrupt)
        keys.add("escape")(lambda _event: self._talk.interrupt() and None)
        keys.add("escape", "escape")(self._handle_rewind)
        keys.add("up", filter=Condition(self._can_take_back))(self._handle_take_back)
        keys.add("c-z")(self._handle_suspend)
        keys.add("c-g")(self._handle_edit)
        keys.add("c-x", "c-e")(self._handle_edit)
        keys.add("c-v")(self._handle_paste_image)
        keys.add(Keys.BracketedPaste)(self._handle_paste)
        return keys

    def _handle_enter(self, event: KeyPressEvent) -> None:
        buffer: Buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\":
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif self._talk.asks:
            event.app.exit(result=buffer.text)
        else:
            buffer.validate_and_handle()

    def _handle_interrupt(self, event: KeyPressEvent) -> None:
        if not self._talk.interrupt():
            event.current_buffer.reset()

    def _handle_rewind(self, event: KeyPressEvent) -> None:
        """Interrupt what runs; else clear the line; else go back in the conversation."""
        if self._talk.interrupt():
            return
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(result="/rewind")

    def _can_take_back(self) -> bool:
        return self._talk.has_queued and not self._session.default_buffer.text

    def _handle_take_back(self, event: KeyPressEvent) -> None:
        async def take_back() -> None:
            self.restore(await self._talk.take_queued())

        event.app.create_background_task(take_back())

    def _handle_suspend(self, event: KeyPressEvent) -> None:
        event.app.create_background_task(self.keyboard.suspend())

    def _handle_edit(self, event: KeyPressEvent) -> None:
        async def edit(buffer: Buffer) -> None:
            buffer.text = self.pastes.expand(buffer.text)
            with self.keyboard.lend():
                await buffer.open_in_editor()

        event.app.create_background_task(edit(event.current_buffer))

    def _handle_paste(self, event: KeyPressEvent) -> None:
        # A terminal pastes nothing where the clipboard has an image and no text.
        if event.data:
            event.current_buffer.insert_text(self.pastes.take(event.data))
        else:
            self._handle_paste_image(event)

    def _handle_paste_image(self, event: KeyPressEvent) -> None:
        async def paste(buffer: Buffer) -> None:
            image = await read_image()
            if image is None:
                self._talk.report("no image can be read from the clipboard; drag its file in here")
            else:
                buffer.insert_text(self.pastes.take_image(image))

        event.app.create_background_task(paste(event.current_buffer))


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


def _private(path: Path) -> str:
    """Create a file for its owner only, with any umask."""
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    return str(path)
