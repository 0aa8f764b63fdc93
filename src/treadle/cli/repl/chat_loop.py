"""The chat loop: from one thread to the next, until the user leaves.

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
from ..run_options import RunOptions
from ..terminal_input import read_line
from ..thread_setup import Setup, about, open_thread, prepare, shown_model, untrusted_text
from .chat_session import ChatSession
from .editor import Editor
from .screen import Screen
from .slash import Leave, Slash

__all__ = ["run_chat"]


async def run_chat(home: Home, options: RunOptions, resume: str | None = None) -> None:
    """Run the REPL."""
    screen = Screen()
    leave = Leave(options, resume)
    while leave.to is not None:
        setup = await prepare(home, leave.to, leave.resume)
        if setup.config.untrusted is not None and await _ask_to_trust_config(
            setup, setup.config.untrusted
        ):
            setup = await prepare(home, leave.to, leave.resume)
        for hook in untrusted_hooks(setup.config, setup.home):
            await _ask_to_trust_hook(setup, hook)
        with patch_stdout(raw=True):
            leave = await _ThreadTerminal(setup, leave.to, screen).run()


async def _ask_to_trust_config(setup: Setup, file: Path) -> bool:
    """Show the project's configuration and ask the user to trust it."""
    seen = await asyncio.to_thread(read_bounded, file, MOST_BYTES)
    text = seen.decode(errors="replace")
    agreed = await _confirm(
        f"{file} changes settings here; it can run commands with your rights:\n\n{text}\n",
        "Let it count? (y)es, (n)ot now > ",
    )
    if agreed:
        TrustStore(setup.home).trust(file, seen)
    return agreed


async def _ask_to_trust_hook(setup: Setup, hook: ProjectHook) -> None:
    """Show a hook of the project and ask the user to trust it."""
    seen = await asyncio.to_thread(hook.read)
    if seen.problem:
        click.echo(printable(untrusted_text(hook, seen.problem)), err=True)
        return
    agreed = await _confirm(
        f"hook {hook.name!r} of {hook.file} would run with your rights, outside the sandbox:\n\n"
        f"{seen.text}\n",
        "Let it run? (y)es, (n)ot now > ",
    )
    if agreed:
        hook.trust(TrustStore(setup.home), seen.digest)


async def _confirm(about: str, question: str) -> bool:
    # Printed first: what is longer than the screen would be cut within a prompt.
    click.echo(printable(about), err=True)
    try:
        return (await read_line(question)).strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


@dataclass(slots=True)
class _ThreadTerminal:
    """One thread and the editor in front of it."""

    setup: Setup
    options: RunOptions
    screen: Screen
    _session: ChatSession | None = field(init=False, default=None)
    _editor: Editor | None = field(init=False, default=None)

    async def run(self) -> Leave:
        """Chat in one thread until the user leaves it."""
        async with open_thread(self.setup) as thread:
            self.screen.quiet(f"{thread.id} · {about(self.setup, thread)}")
            session = ChatSession(thread, self.setup, self.screen, self._leave_with_error)
            slash = Slash(session, self.options)
            self._session = session
            self._editor = self._make_editor(session, slash)
            self._watch_signals()
            try:
                with self._editor.listening():
                    return await self._lines(session, slash)
            finally:
                await session.settle()

    async def _lines(self, session: ChatSession, slash: Slash) -> Leave:
        assert self._editor is not None
        while True:
            try:
                line = (await self._editor.read()).strip()
            except EOFError:
                return Leave()
            if session.interview.open:
                session.interview.answer(line)
            elif line.startswith("/"):
                self.screen.show_input(line)
                leave = await slash.run(line)
                if leave is not None:
                    return leave
            elif line:
                await session.say(line)

    def _make_editor(self, session: ChatSession, slash: Slash) -> Editor:
        return Editor(
            self.setup.home / "history",
            message=session.message,
            toolbar=self._toolbar,
            words=slash.words,
            interrupt=session.interrupt,
            asking=lambda: session.interview.open,
        )

    def _toolbar(self) -> StyleAndTextTuples:
        assert self._session is not None
        thread, meter = self._session.thread, self._session.meter
        shown = [
            shown_model(thread),
            meter.context,
            meter.cache_share,
            meter.cost,
            self.setup.settings.sandbox,
        ]
        return [("", " · ".join(printable(part) for part in shown if part))]

    def _leave_with_error(self, error: BaseException) -> None:
        if self._editor is not None:
            self._editor.leave(error)

    def _watch_signals(self) -> None:
        assert self._editor is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._editor.leave)
