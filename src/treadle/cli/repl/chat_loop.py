"""Talking: from one thread to the next, until the person leaves.

Owns the terminal while the REPL runs. Invariant: however it ends, the terminal is as it
was, the turn is over and the thread is closed.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field
from pathlib import Path

import click
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.patch_stdout import patch_stdout

from ...config.config_file import MOST_BYTES
from ...config.trusted_files import TrustStore
from ...core.files import read_bounded
from ...hooks.configured_hooks import ProjectHook, untrusted_hooks
from ..cli_home import Home
from ..output import printable
from ..run_options import Wishes
from ..terminal_input import read_line
from ..thread_setup import Setup, about, open_thread, prepare, shown_model
from .chat_session import Conversation
from .editor import Editor
from .screen import Screen
from .slash import Leave, Slash

__all__ = ["talk"]


async def talk(home: Home, wishes: Wishes, resume: str | None = None) -> None:
    """Run the REPL."""
    screen = Screen()
    leave = Leave(wishes, resume)
    while leave.to is not None:
        setup = await prepare(home, leave.to, leave.resume)
        if setup.config.untrusted is not None and await _trusted(setup, setup.config.untrusted):
            setup = await prepare(home, leave.to, leave.resume)
        for hook in untrusted_hooks(setup.config, setup.home):
            await _trusted_hook(setup, hook)
        with patch_stdout(raw=True):
            leave = await _Table(setup, leave.to, screen).sit()


async def _trusted(setup: Setup, file: Path) -> bool:
    """Whether the person lets the project's configuration count, now that they have seen it."""
    seen = await asyncio.to_thread(read_bounded, file, MOST_BYTES)
    text = seen.decode(errors="replace")
    agreed = await _agreed(
        f"{file} wants to settle things here; it may run commands as you:\n\n{text}\n",
        "Let it count? (y)es, (n)ot now > ",
    )
    if agreed:
        TrustStore(setup.home).trust(file, seen)
    return agreed


async def _trusted_hook(setup: Setup, hook: ProjectHook) -> None:
    """Let a project's hook run, if the person agrees who now sees it."""
    digest, text = hook.digest, hook.text
    agreed = await _agreed(
        f"hook {hook.name!r} of {hook.file} wants to run as you, outside the sandbox:\n\n{text}\n",
        "Let it run? (y)es, (n)ot now > ",
    )
    if agreed:
        hook.trust(TrustStore(setup.home), digest)


async def _agreed(about: str, question: str) -> bool:
    # Printed first: what is longer than the screen would be cut within a prompt.
    click.echo(printable(about), err=True)
    try:
        return (await read_line(question)).strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


@dataclass(slots=True)
class _Table:
    """One thread and the editor in front of it."""

    setup: Setup
    wishes: Wishes
    screen: Screen
    _conversation: Conversation | None = field(init=False, default=None)
    _editor: Editor | None = field(init=False, default=None)

    async def sit(self) -> Leave:
        """Talk in one thread until it is left."""
        async with open_thread(self.setup) as thread:
            self.screen.quiet(f"{thread.id} · {about(self.setup, thread)}")
            conversation = Conversation(thread, self.setup, self.screen, self._failed)
            slash = Slash(conversation, self.wishes)
            self._conversation = conversation
            self._editor = self._made(conversation, slash)
            self._hear_signals()
            try:
                with self._editor.listening():
                    return await self._lines(conversation, slash)
            finally:
                await conversation.settle()

    async def _lines(self, conversation: Conversation, slash: Slash) -> Leave:
        assert self._editor is not None
        while True:
            try:
                line = (await self._editor.read()).strip()
            except EOFError:
                return Leave()
            if conversation.interview.open:
                conversation.interview.answer(line)
            elif line.startswith("/"):
                self.screen.typed(line)
                leave = await slash.run(line)
                if leave is not None:
                    return leave
            elif line:
                await conversation.say(line)

    def _made(self, conversation: Conversation, slash: Slash) -> Editor:
        return Editor(
            self.setup.home / "history",
            message=conversation.message,
            toolbar=self._toolbar,
            words=slash.words,
            interrupt=conversation.interrupt,
            asking=lambda: conversation.interview.open,
        )

    def _toolbar(self) -> StyleAndTextTuples:
        assert self._conversation is not None
        thread, meter = self._conversation.thread, self._conversation.meter
        shown = [
            shown_model(thread),
            meter.context,
            meter.cached,
            meter.cost,
            self.setup.settings.sandbox,
        ]
        return [("", " · ".join(printable(part) for part in shown if part))]

    def _failed(self, error: BaseException) -> None:
        if self._editor is not None:
            self._editor.leave(error)

    def _hear_signals(self) -> None:
        assert self._editor is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._editor.leave)
