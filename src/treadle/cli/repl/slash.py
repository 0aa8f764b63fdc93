"""Slash commands: commands to the REPL itself.

Owns their names and what each does. Invariant: a command that changes the thread waits
for no more than the end of what is ending: while something runs it is refused, with a
line that says so.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ...core.errors import TreadleError
from ..cli_home import find_thread
from ..fallbacks import apply_own_fallbacks
from ..output import iso, one_line
from ..run_options import RunOptions
from ..thread_setup import shown_network
from .changes import changes
from .chat_session import ChatSession

__all__ = ["COMMANDS", "Leave", "Slash"]

_BUSY_CHECKS = 20
_BUSY_INTERVAL = 0.05
"""How often, and every how many seconds, to check whether a turn has ended."""

_MOST_THREADS = 10


class Leave(Struct, frozen=True):
    """Leave the thread: for another one, or to end the REPL."""

    to: RunOptions | None = None
    """How the next thread is opened; None ends the REPL."""
    resume: str | None = None


Handler: TypeAlias = Callable[["Slash", str], Awaitable[Leave | None]]


@dataclass(slots=True)
class Slash:
    """Runs the commands in a chat session."""

    session: ChatSession
    options: RunOptions

    async def run(self, line: str) -> Leave | None:
        """Run one command; return how to leave the thread, if it does."""
        name, _, rest = line[1:].strip().partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            close = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean /{close[0]}?" if close else "/help lists them"
            self.session.screen.trouble(f"there is no command /{name}; {hint}")
            return None
        if command.alone and await self._stays_busy():
            self.session.screen.trouble(
                f"/{name} has to wait for the running work; Ctrl-C interrupts it"
            )
            return None
        try:
            return await command.handler(self, rest.strip())
        except TreadleError as error:
            self.session.screen.trouble(str(error))
            return None

    async def _stays_busy(self) -> bool:
        """Return whether work runs that does not end within a moment: users type ahead."""
        for _ in range(_BUSY_CHECKS):
            if not self.session.busy:
                return False
            await asyncio.sleep(_BUSY_INTERVAL)
        return self.session.busy

    def words(self, text: str) -> Iterable[str]:
        """Return the completions of `text`."""
        if " " not in text:
            return [f"/{name}" for name in COMMANDS]
        if text.startswith("/model "):
            catalog = self.session.thread.log.setup.catalog
            names = (catalog.profile(entry) for entry in catalog.entries)
            return sorted(f"{profile.provider}:{profile.slug}" for profile in names)
        if text.startswith("/harness "):
            return [
                "auto",
                *(each.id for each in self.session.thread.policy.harnesses.registry.harnesses()),
            ]
        return ()

    async def new(self, rest: str) -> Leave | None:
        """Leave for a new thread with the same settings, model and harness."""
        del rest
        thread = self.session.thread
        harness = thread.policy.harnesses.pin or self.options.harness
        return Leave(msgspec.structs.replace(self.options, model=thread.model, harness=harness))

    async def resume(self, rest: str) -> Leave | None:
        """Leave for another thread."""
        if not rest:
            self.session.screen.trouble("which one? /threads lists them, then /resume THREAD")
            return None
        info = await find_thread(self.session.thread.store, rest)
        if info.id == self.session.thread.id:
            self.session.screen.say("that is this thread")
            return None
        return Leave(msgspec.structs.replace(self.options, model=None), info.id)

    async def threads(self, rest: str) -> None:
        """List the threads written most recently."""
        del rest
        found = await self.session.thread.store.threads(limit=_MOST_THREADS)
        for info in found:
            mark = "*" if info.id == self.session.thread.id else " "
            title = one_line(info.title, 60)
            self.session.screen.say(f"{mark} {info.id}  {iso(info.updated)}  {title}")

    async def reset(self, rest: str) -> None:
        """Start from an empty view."""
        del rest
        await self.session.thread.reset()
        self.session.screen.say("the model starts with an empty view; the log keeps everything")

    async def compact(self, rest: str) -> None:
        """Compact the view into a summary."""
        del rest

        async def compact_and_show() -> None:
            done = await self.session.thread.compact()
            told = f"from about {done.tokens_before:,} tokens to {done.tokens_after:,}"
            self.session.screen.say(f"compacted: {told}")

        self.session.start("compacting", compact_and_show())

    async def undo(self, rest: str) -> None:
        """Hide the last turn from the model."""
        del rest
        await self.session.thread.rollback(1)
        self.session.screen.say("the last turn is hidden from the model; files are not changed")

    async def model(self, rest: str) -> None:
        """Show the model, or change it from the next turn on."""
        if rest:
            self.session.thread.use(rest)
            apply_own_fallbacks(self.session.thread, self.session.setup.config)
        self.session.screen.say(f"model {self.session.thread.model}")

    async def harness(self, rest: str) -> None:
        """Show the harness, or change it from the next turn on."""
        if rest:
            self.session.thread.use(harness=rest)
        self.session.screen.say(f"harness {self._harness()}")

    def _harness(self) -> str:
        """Return the harness of the next turn, and the reason."""
        thread = self.session.thread
        chosen = thread.policy.harnesses.select(thread.model)
        return f"{chosen.harness} ({chosen.reason})"

    async def diff(self, rest: str) -> None:
        """Show the changes in the directory."""
        del rest
        text = await changes(self.session.thread)
        if text:
            self.session.screen.diff(text, longest=400)
        else:
            self.session.screen.say("nothing has changed")

    async def status(self, rest: str) -> None:
        """Show the state of the thread."""
        del rest
        thread, meter, settings = (
            self.session.thread,
            self.session.meter,
            self.session.setup.settings,
        )
        window = thread.log.setup.profile.effective_window
        used = f"about {thread.log.requests.occupied:,} tokens"
        share = (
            f", {100 * thread.log.requests.occupied / window:.0f}% of {window:,}" if window else ""
        )
        self.session.screen.pairs(
            {
                "model": thread.model,
                "harness": self._harness(),
                "thread": thread.id,
                "directory": str(thread.log.setup.cwd),
                "context": f"{used}{share}",
                "used here": meter.tokens,
                "cached": meter.cache_share or "not reported",
                "cost": meter.cost or "not known: no price is configured",
                "sandbox": f"{settings.sandbox}, {shown_network(settings)}",
                "approval": settings.approval,
            }
        )

    async def help(self, rest: str) -> None:
        """List the commands."""
        del rest
        self.session.screen.pairs({f"/{name}": command.help for name, command in COMMANDS.items()})
        self.session.screen.quiet(
            "Enter sends, Alt-Enter or \\ Enter begins a new line; what you say while a turn "
            "runs reaches it; Ctrl-C interrupts, Ctrl-D leaves"
        )

    async def quit(self, rest: str) -> Leave | None:
        """End the REPL."""
        del rest
        return Leave()


@dataclass(frozen=True, slots=True)
class _Command:
    help: str
    handler: Handler
    alone: bool = False
    """Whether it must wait until nothing runs."""


COMMANDS = {
    "new": _Command("start a new thread", Slash.new, alone=True),
    "reset": _Command("start with an empty view in this thread", Slash.reset, alone=True),
    "compact": _Command("compact the view into a summary", Slash.compact, alone=True),
    "model": _Command("show or change the model: /model NAME", Slash.model, alone=True),
    "harness": _Command("show or change the harness: /harness NAME", Slash.harness, alone=True),
    "status": _Command(
        "show model, harness, thread, context, cache, cost, sandbox, approval", Slash.status
    ),
    "diff": _Command("show what changed in the directory", Slash.diff),
    "undo": _Command("hide the last turn from the model", Slash.undo, alone=True),
    "threads": _Command("list the threads written most recently", Slash.threads),
    "resume": _Command("continue another thread: /resume THREAD", Slash.resume, alone=True),
    "help": _Command("list these commands", Slash.help),
    "quit": _Command("leave; everything is kept", Slash.quit),
}
