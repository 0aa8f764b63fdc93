"""Agent files: kinds of agents in Markdown, the user's own and those of a project.

Owns where they are and which of them may be used. Invariant: a file that is wrong, or of a
project and not trusted as it is, is told with the reason and stops no other.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from msgspec import Struct

from ..config.prompt_files import PromptFile, find_prompt_files
from ..config.trusted_files import TrustStore
from ..sandbox.reading import open_for_model
from .agent_header import read_definition
from .definition import AgentDefinition
from .kinds import PROJECT_PLACES

__all__ = ["AgentFile", "find_agent_files"]


class AgentFile(Struct, frozen=True):
    """A file that describes a kind of agent."""

    of: PromptFile
    definition: AgentDefinition | None = None
    problem: str = ""
    """Why it cannot be used; empty if it can, once it is trusted."""

    @property
    def name(self) -> str:
        """What the agents are called."""
        return self.definition.name if self.definition else self.of.name

    def is_trusted(self, trust: TrustStore) -> bool:
        """Return whether it may be used as it is."""
        return self.of.is_trusted(trust)


def find_agent_files(home: Path, cwd: Path) -> tuple[AgentFile, ...]:
    """Return the agents of the user and of the project, by name. Blocks on files.

    A user's agent goes before a project's of the same name.
    """
    found = find_prompt_files(
        cwd,
        own=home / "agents",
        project=PROJECT_PLACES,
        open_file=partial(open_for_model, cwd, home),
    )
    by_name: dict[str, AgentFile] = {}
    # The user's last, so that they take the names of a project's.
    for each in sorted(map(_read, found.values()), key=lambda each: each.of.source == "yours"):
        known = by_name.get(each.name)
        if known is not None and known.of.source == each.of.source:
            of = f"{each.name!r} is the name of {known.of.file.name!r} too; rename one of them"
            by_name[str(each.of.file)] = AgentFile(each.of, problem=of)
        else:
            by_name[each.name] = each
    return tuple(sorted(by_name.values(), key=lambda each: each.name))


def _read(file: PromptFile) -> AgentFile:
    if file.problem:
        return AgentFile(file, problem=f"{file.problem}; check it")
    try:
        return AgentFile(file, read_definition(file))
    except ValueError as error:
        return AgentFile(file, problem=str(error))
