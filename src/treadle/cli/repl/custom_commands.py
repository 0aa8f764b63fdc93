"""Custom commands: prompts in files, which users call like built-in commands.

Owns what their files mean. Invariant: a project's command is used only with the bytes that the
user has seen and trusted.
"""

from __future__ import annotations

import re
import shlex
from functools import partial
from pathlib import Path

from msgspec import Struct

from ...config.prompt_files import HeaderValue, PromptFile, find_prompt_files
from ...config.trusted_files import TrustStore
from ...sandbox.reading import open_for_model

__all__ = ["CustomCommand", "find_commands"]

_PLACE = re.compile(r"\$(ARGUMENTS|[1-9])")


class CustomCommand(Struct, frozen=True):
    """A command that stands in a file."""

    of: PromptFile

    @property
    def help(self) -> str:
        """Return what it does, as its file says."""
        try:
            header = self.of.header
        except ValueError:
            header = {}
        described = _value_text(header.get("description", ""))
        hint = _value_text(header.get("argument-hint", ""))
        return " ".join(filter(None, [described or f"the prompt in {self.of.file.name}", hint]))

    def prompt(self, arguments: str) -> str:
        """Return the prompt with the arguments in their places, or behind it."""
        text = self.of.prompt
        words = _split(arguments)
        given = {str(n): word for n, word in enumerate(words, 1)} | {"ARGUMENTS": arguments}
        filled = _PLACE.sub(lambda found: given.get(found[1], ""), text)
        return filled if _PLACE.search(text) or not arguments else f"{filled}\n\n{arguments}"

    def meaning(self, trust: TrustStore) -> str:
        """Return what it does; of one that is not trusted, only whose it is."""
        is_trusted = self.of.is_trusted(trust)
        return self.help if is_trusted else "a prompt of this project, not trusted yet"


def find_commands(home: Path, cwd: Path) -> dict[str, CustomCommand]:
    """Return the commands of the user and of the project, by name."""
    found = find_prompt_files(
        cwd,
        own=home / "commands",
        project=(".treadle/commands",),
        open_file=partial(open_for_model, cwd, home),
    )
    return {name: CustomCommand(each) for name, each in found.items() if not each.problem}


def _value_text(value: HeaderValue) -> str:
    return value if isinstance(value, str) else f"[{', '.join(value)}]"


def _split(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()
