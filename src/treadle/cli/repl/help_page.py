"""The help page: `/help`, with the commands in groups, and the keys.

Invariant: every command is listed, built-in ones by group and those from files after them.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ...config.trusted_files import TrustStore
from ..output import one_line
from .chat_skills import skill_words

if TYPE_CHECKING:
    from .slash import Slash

__all__ = ["show_help"]

_KEYS = {
    "Enter": "send; Alt-Enter or \\ Enter begins a new line",
    "@FILE": "add a file or an image; images can be dragged in, Ctrl-V pastes one",
    "!COMMAND": "run a command as you, without a sandbox; the model reads its output",
    "Esc, Ctrl-C": "interrupt; what you say while a turn runs reaches it, Up takes it back",
    "Esc Esc": "go back to an earlier message",
    "Ctrl-G": "write in $EDITOR",
    "Ctrl-Z, Ctrl-D": "suspend, leave",
}


async def show_help(slash: Slash, rest: str) -> None:
    """List the commands and the keys."""
    from .slash import COMMANDS, GROUPS

    del rest
    screen = slash.session.screen
    ordered = sorted(COMMANDS.items(), key=lambda each: GROUPS.index(each[1].group))
    for group, commands in groupby(ordered, key=lambda each: each[1].group):
        screen.heading(group)
        screen.pairs({f"  /{name}": each.help for name, each in commands})
    if custom := {name: each for name, each in slash.custom().items() if name not in COMMANDS}:
        trust = TrustStore(slash.session.setup.home)
        screen.heading("From files")
        screen.pairs({f"  /{name}": each.meaning(trust) for name, each in custom.items()})
    taken = {f"/{name}" for name in (*COMMANDS, *custom)}
    if skills := {word: told for word, told in skill_words(slash) if word not in taken}:
        screen.heading("Skills")
        screen.pairs({f"  {word}": one_line(told, 100) for word, told in skills.items()})
    screen.heading("Keys")
    screen.pairs({f"  {key}": meaning for key, meaning in _KEYS.items()})
