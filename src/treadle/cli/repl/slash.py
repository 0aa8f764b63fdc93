"""Slash commands: commands to the REPL itself.

Owns their names and what each does. Invariant: a command that changes the thread waits
for no more than the end of what is ending: while something runs it is refused, with a
line that says so.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ...config.trusted_files import TrustStore
from ...core.choices import nearest
from ...core.errors import TreadleError
from ...prompt.additional_context import AdditionalContextState
from ...prompt.prompt_context import PromptContext, named_mode
from ..run_options import RunOptions
from ..thread_heading import shown_network
from .changes import changes
from .chat_agents import agent_words, use_agents
from .chat_servers import call_prompt, prompt_words, show_servers
from .chat_session import ChatSession
from .chat_skills import call_skill, show_skills, skill_words
from .clipboard import copy_answer
from .conversation_commands import list_threads, name_thread, resume, rewind, write_instructions
from .custom_commands import CustomCommand, find_commands
from .figures import show_context, show_cost
from .help_page import show_help
from .mentions import Said
from .model_choice import change_model, known_models
from .numbered_diff import number_diff
from .prompt_trust import trusts_prompt
from .reviews import review_changes
from .rights import APPROVALS, SANDBOXES, change_approvals, change_sandbox, plan_first
from .undo import undo_turns

__all__ = ["COMMANDS", "GROUPS", "Leave", "Slash", "is_command"]

_BUSY_CHECKS = 20
_BUSY_INTERVAL = 0.05
"""How often, and every how many seconds, to check whether a turn has ended."""

_COMMAND = re.compile(r"/[^/\s]*(?:\s|\Z)")


def is_command(line: str) -> bool:
    """Return whether a line is a command, not a sentence that begins with a path."""
    return _COMMAND.match(line) is not None


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
        name, rest = [*line[1:].strip().split(None, 1), "", ""][:2]
        command = COMMANDS.get(name)
        if command is None:
            await self._run_custom(name, rest)
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

    async def _run_custom(self, name: str, rest: str) -> None:
        """Send the prompt of a command that stands in a file."""
        custom = self.custom()
        if name not in custom and await call_prompt(self, name, rest):
            return
        if name not in custom and not await call_skill(self, name, rest):
            skills = [word[1:] for word, _ in skill_words(self)]
            close = nearest(name, [*COMMANDS, *custom, *skills])
            hint = f"did you mean /{close}?" if close else "/help lists them"
            self.session.screen.trouble(f"there is no command /{name}; {hint}")
        elif name in custom:
            await self._send_custom(custom[name], f"/{name} {rest}".rstrip(), rest)

    async def _send_custom(self, command: CustomCommand, line: str, rest: str) -> None:
        """Send the prompt of a file; one of the project that was not seen yet is asked about."""
        was_asked = not command.of.is_trusted(TrustStore(self.session.setup.home))
        told = "would be sent to the model as your words"
        if not await trusts_prompt(self.session, command.of, told, "command"):
            return
        # Between the line and the answer stands what was asked, if anything was.
        await self.session.say(Said(line, (command.prompt(rest),)), is_shown=not was_asked)

    def custom(self) -> dict[str, CustomCommand]:
        """Return the commands that stand in files."""
        cwd = Path(self.session.thread.log.setup.cwd)
        return find_commands(self.session.setup.home, cwd)

    async def _stays_busy(self) -> bool:
        """Return whether work runs that does not end within a moment: users type ahead."""
        for _ in range(_BUSY_CHECKS):
            if not self.session.busy:
                return False
            await asyncio.sleep(_BUSY_INTERVAL)
        return self.session.busy

    def words(self, text: str) -> Iterable[tuple[str, str]]:
        """Return what may follow in `text`, each with what it means."""
        match text.split(" "):
            case [_]:
                custom = self.custom()
                trust = TrustStore(self.session.setup.home)
                yield from ((f"/{name}", command.help) for name, command in COMMANDS.items())
                for name in sorted(custom.keys() - COMMANDS.keys()):
                    yield f"/{name}", custom[name].meaning(trust)
                taken = {f"/{name}" for name in (*COMMANDS, *custom)}
                yield from (word for word in skill_words(self) if word[0] not in taken)
                yield from prompt_words(self)
            case ["/model", _]:
                yield from known_models(self.session)
            case ["/agents", _]:
                yield from agent_words(self)
            case ["/harness", _]:
                registry = self.session.thread.policy.harnesses.registry
                yield from ((name, "") for name in ("auto", *(h.id for h in registry.harnesses())))
            case ["/approvals", _]:
                yield from APPROVALS.items()
            case ["/sandbox", _]:
                yield from SANDBOXES.items()

    async def new(self, rest: str) -> Leave | None:
        """Leave for a new thread with the same settings, model and harness."""
        del rest
        thread = self.session.thread
        harness = thread.policy.harnesses.pin or self.options.harness
        return Leave(msgspec.structs.replace(self.options, model=thread.model, harness=harness))

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
        """Take back the last turns, with the files that they changed."""
        await undo_turns(self.session, rest)

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

    async def mode(self, rest: str) -> None:
        """Show the mode, or change it from the next turn on."""
        told = self._settings()
        if rest:
            told = self._tell(collaboration_mode=named_mode(rest))
        self.session.screen.say(
            f"mode {told.collaboration_mode.name if told.collaboration_mode else 'default'}"
        )

    async def personality(self, rest: str) -> None:
        """Show the personality, or change it from the next turn on."""
        told = self._settings()
        if rest:
            told = self._tell(personality=None if rest == "none" else rest)
        self.session.screen.say(f"personality {told.personality or 'none'}")

    def _settings(self) -> PromptContext:
        return self.session.thread.log.setup.settings

    def _tell(self, **changes: object) -> PromptContext:
        """Change what the model is told from the next turn on; a bad key changes nothing."""
        told = msgspec.structs.replace(self._settings(), **changes)
        AdditionalContextState().snapshot(told)
        self.session.thread.adopt(told)
        return told

    async def diff(self, rest: str) -> None:
        """Show the changes in the directory."""
        del rest
        text = await changes(self.session.thread)
        if text:
            self.session.screen.diff(number_diff(text), longest=400)
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
        spent = (await thread.usage()).total
        self.session.screen.pairs(
            {
                "model": thread.model,
                "harness": self._harness(),
                "thread": thread.id,
                "directory": str(thread.log.setup.cwd),
                "context": f"{used}{share}",
                "used here": meter.tokens,
                "used in all": f"{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out",
                "cached": meter.cache_share or "not reported",
                "cost": meter.cost or "not known: /cost tells why",
                "sandbox": f"{settings.sandbox}, {shown_network(settings)}",
                "approval": settings.approval,
            }
        )

    async def quit(self, rest: str) -> Leave | None:
        """End the REPL."""
        del rest
        return Leave()


GROUPS = ("This conversation", "Model and rights", "Workspace", "Other")


@dataclass(frozen=True, slots=True)
class _Command:
    help: str
    handler: Handler
    alone: bool = False
    """Whether it must wait until nothing runs."""
    group: str = GROUPS[0]


COMMANDS = {
    "new": _Command("start a new thread", Slash.new, alone=True),
    "resume": _Command("continue another thread: /resume [THREAD]", resume, alone=True),
    "threads": _Command("list the threads written most recently", list_threads),
    "title": _Command("name this thread, or let the model: /title [TEXT]", name_thread, alone=True),
    "rewind": _Command("go back to before an earlier message", rewind, alone=True),
    "undo": _Command(
        "take back the last turn and its files: /undo [N | redo]", Slash.undo, alone=True
    ),
    "compact": _Command("compact the view into a summary", Slash.compact, alone=True),
    "reset": _Command("start with an empty view in this thread", Slash.reset, alone=True),
    "copy": _Command("copy the last answer", copy_answer),
    "context": _Command(
        "show what fills the window; tell the model a value: /context set KEY VALUE",
        show_context,
        alone=True,
    ),
    "cost": _Command("show what this turn, thread, its agents and this day cost", show_cost),
    "model": _Command(
        "change the model, from a list: /model [NAME]", change_model, alone=True, group=GROUPS[1]
    ),
    "harness": _Command(
        "show or change the harness: /harness NAME", Slash.harness, alone=True, group=GROUPS[1]
    ),
    "approvals": _Command(
        "change when you are asked: /approvals [never]",
        change_approvals,
        alone=True,
        group=GROUPS[1],
    ),
    "sandbox": _Command(
        "change what commands may do: /sandbox [read-only, network …]",
        change_sandbox,
        alone=True,
        group=GROUPS[1],
    ),
    "plan": _Command(
        "let the model plan before it changes anything: /plan [TEXT]",
        plan_first,
        alone=True,
        group=GROUPS[1],
    ),
    "mode": _Command(
        "show or change how you work together: /mode plan",
        Slash.mode,
        alone=True,
        group=GROUPS[1],
    ),
    "personality": _Command(
        "show or change the manner of speaking: /personality TEXT",
        Slash.personality,
        alone=True,
        group=GROUPS[1],
    ),
    "skills": _Command("list the skills", show_skills, group=GROUPS[2]),
    "mcp": _Command("show the MCP servers and their state", show_servers, group=GROUPS[2]),
    "agents": _Command(
        "list kinds of agents, or start one: /agents [NAME [TASK]]", use_agents, group=GROUPS[2]
    ),
    "diff": _Command("show what changed in the directory", Slash.diff, group=GROUPS[2]),
    "review": _Command(
        "review changes, in a thread of its own: /review [--base BRANCH | --commit COMMIT] [TEXT]",
        review_changes,
        alone=True,
        group=GROUPS[2],
    ),
    "init": _Command("let the model write AGENTS.md", write_instructions, group=GROUPS[2]),
    "status": _Command(
        "show model, harness, thread, context, cache, cost, sandbox, approval",
        Slash.status,
        group=GROUPS[3],
    ),
    "help": _Command("list commands and keys", show_help, group=GROUPS[3]),
    "quit": _Command("leave; everything is kept", Slash.quit, group=GROUPS[3]),
}
