"""The chat loop: from one thread to the next, until the user leaves.

Owns the terminal while the REPL runs. Invariant: however it ends, the terminal is as it
was, the turn is over and the thread is closed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
from prompt_toolkit.patch_stdout import patch_stdout

from ... import __version__
from ...config.config_file import MOST_BYTES
from ...config.trusted_files import TrustStore
from ...core.files import read_bounded
from ...hooks.configured_hooks import ProjectHook, untrusted_hooks
from ...thread.thread import Thread
from ..cli_home import Home
from ..output import printable
from ..run_options import RunOptions
from ..terminal_input import read_line
from ..thread_heading import shown_model, shown_rights
from ..thread_setup import Setup, open_thread, prepare, untrusted_text, warn_of_skills
from .chat_servers import with_resources
from .chat_session import ChatSession
from .choose import Choice, choose
from .editor import Editor
from .mentions import Said, compose
from .past import past_turns, show_past
from .picker import shown_directory
from .screen import Screen
from .slash import Leave, Slash, is_command

__all__ = ["run_chat"]

_SHOWN_TURNS = 3
"""How much of a thread is shown when it is continued."""
_ENOUGH_OF_ID = 12
"""The end of an id is a name for the thread."""


async def run_chat(
    home: Home, options: RunOptions, resume: str | None = None, first: str | None = None
) -> None:
    """Run the REPL; `first` is what the user said on the command line."""
    leave = Leave(options, resume)
    while leave.to is not None:
        setup = await prepare(home, leave.to, leave.resume)
        if setup.config.untrusted is not None and await _ask_to_trust_config(
            setup, setup.config.untrusted
        ):
            setup = await prepare(home, leave.to, leave.resume)
        for hook in untrusted_hooks(setup.config, setup.home):
            await _ask_to_trust_hook(setup, hook)
        warn_of_skills(setup)
        plain = setup.settings.plain or os.environ.get("TERM") == "dumb"
        terminal = _ThreadTerminal(setup, leave.to, Screen(plain=plain), first)
        leave = await terminal.run()
        first = None
    terminal.say_goodbye()


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
    first: str | None = None
    """Said before the first line that the user types."""
    _session: ChatSession | None = field(init=False, default=None)
    _editor: Editor | None = field(init=False, default=None)
    _leaves: bool = field(init=False, default=False)

    async def run(self) -> Leave:
        """Chat in one thread until the user leaves it."""
        async with open_thread(self.setup) as thread:
            self._greet(thread)
            session = ChatSession(thread, self.setup, self.screen, self)
            await self._show_past(session)
            # From here on only: what waits to be printed when the line appears would be printed
            # over it, without it being drawn again.
            with patch_stdout(raw=True):
                return await self._converse(session)

    async def _converse(self, session: ChatSession) -> Leave:
        """Read lines until one of them leaves the thread."""
        slash = Slash(session, self.options)
        self._session = session
        self._editor = self._make_editor(session, slash)
        self._watch_signals()
        try:
            with self._editor.listening():
                return await self._lines(session, slash)
        finally:
            self._leaves = True
            await session.settle()

    def say_goodbye(self) -> None:
        """Tell how to come back, if anything was said."""
        if self._session is not None and self._session.thread.view.upto:
            end = self._session.thread.id[-_ENOUGH_OF_ID:]
            self.screen.quiet(f"to continue this thread: treadle resume {end}")

    def fail(self, error: BaseException) -> None:
        """End the conversation with an error."""
        if self._editor is not None:
            self._editor.leave(error)

    def restore(self, line: str) -> None:
        """Put text back into the input line."""
        assert self._editor is not None
        if self._leaves:
            self.screen.say(f"not sent, but kept in the history: {line}")
            self._editor.remember(line)
        else:
            self._editor.restore(line)

    async def choose(self, title: str, choices: Sequence[Choice], start: int = 0) -> int | None:
        """Let the user choose a row; return its position, or None."""
        assert self._editor is not None
        return await choose(
            title, choices, start=start, plain=self.screen.plain, keyboard=self._editor.keyboard
        )

    def _greet(self, thread: Thread) -> None:
        """Print two lines: what answers where, and what it may do."""
        settings, where = self.setup.settings, shown_directory(str(thread.log.setup.cwd))
        rights = shown_rights(settings, thread)
        self.screen.heading(f"Treadle {__version__} · {shown_model(thread)} · {where}")
        self.screen.quiet(f"{rights} · approval {settings.approval} · /help lists the commands")

    async def _show_past(self, session: ChatSession) -> None:
        """Print the last turns of a thread that is continued."""
        if self.setup.info is None or not self.setup.info.turns:
            return
        thread = session.thread
        turns = await past_turns(thread.store, thread.id, _SHOWN_TURNS)
        if turns and turns[0].number > 1:
            self.screen.quiet(f"… earlier: treadle show {thread.id[-_ENOUGH_OF_ID:]}")
        show_past(self.screen, turns)
        session.last_answer = turns[-1].answer if turns else ""

    async def _lines(self, session: ChatSession, slash: Slash) -> Leave:
        assert self._editor is not None
        if self.first:
            await session.say(Said(self.first, (self.first,)))
        while True:
            try:
                line = (await self._editor.read()).strip()
            except EOFError:
                return Leave()
            if session.interview.open:
                session.interview.answer(line)
            elif is_command(line):
                self.screen.show_input(line)
                leave = await slash.run(line)
                if leave is not None:
                    return leave
            elif line == "!":
                self.screen.show_input(line)
                self.screen.trouble("a command follows the !, such as `!ls`")
            elif line.startswith("!"):
                session.run_command(self._editor.pastes.expand(line[1:].strip()))
            elif line:
                cwd = Path(session.thread.log.setup.cwd)
                said = compose(line, self._editor.pastes, cwd)
                await session.say(await with_resources(session, said))

    def _make_editor(self, session: ChatSession, slash: Slash) -> Editor:
        return Editor(
            self.setup.home / "history",
            session,
            words=slash.words,
            cwd=Path(session.thread.log.setup.cwd),
            plain=self.screen.plain,
        )

    def _watch_signals(self) -> None:
        assert self._editor is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._editor.leave)
