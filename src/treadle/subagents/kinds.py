"""The kinds of agents of one thread: of its host, of files, and what each of them may be.

Owns which definition a name means when an agent is started. Invariant: a kind that the model
was told of and that is gone since starts nothing, for an agent without its definition would
have more rights.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.trusted_files import TrustStore
from ..core.choices import near_hint
from ..prompt.prompt_context import AgentType
from ..tools.agents import AgentRefusal
from .definition import AgentDefinition

if TYPE_CHECKING:
    from .agent_files import AgentFile

__all__ = ["PROJECT_PLACES", "AgentKinds", "has_agent_files"]

PROJECT_PLACES = (".treadle/agents", ".claude/agents")
"""Where a project has its agents."""


def has_agent_files(home: Path, cwd: Path) -> bool:
    """Return whether there is a directory in which agents could be; most have none."""
    places = (place / name for place in (cwd, *cwd.parents) for name in PROJECT_PLACES)
    return any(os.path.isdir(place) for place in (home / "agents", *places))  # noqa: PTH112 - fast


class AgentKinds:
    """Finds definitions by name; those of the host go before files."""

    def __init__(
        self, given: Sequence[AgentDefinition] = (), *, home: Path | None = None, cwd: Path
    ) -> None:
        self._given = {each.name: each for each in given}
        self._home = home
        self._cwd = cwd
        self._told: frozenset[str] = frozenset()
        self.problems: tuple[str, ...] = ()
        """What is wrong with files, as of the last look, one line each."""

    @property
    def home(self) -> Path | None:
        """The home in which files are looked for; None where no files count."""
        return self._home

    def look(self) -> dict[str, AgentDefinition]:
        """Return the definitions that may be used now, by name. Blocks on files."""
        found = {each.name: each for each in self._files()}
        return dict(sorted((found | self._given).items()))

    def listed(self) -> tuple[AgentType, ...]:
        """Return what the model is told of them. Blocks on files."""
        known = self.look()
        self._told |= known.keys()
        return tuple(AgentType(each.name, each.description) for each in known.values())

    def find(self, name: str) -> AgentDefinition | AgentRefusal | None:
        """Return the definition of a name; None for a word of the model's own. Blocks."""
        known = self.look()
        if name in known:
            return known[name]
        if name in self._told:
            return AgentRefusal(f"the agent_type {name!r} is gone; use another one")
        if hint := near_hint(name, known):
            return AgentRefusal(f"there is no agent_type {name!r}; {hint.strip()}")
        return None

    def _files(self) -> list[AgentDefinition]:
        self.problems = ()
        if self._home is None or not has_agent_files(self._home, self._cwd):
            return []
        from .agent_files import find_agent_files

        files, trust = find_agent_files(self._home, self._cwd), TrustStore(self._home)
        self.problems = tuple(map(_left_out_text, (each for each in files if each.problem)))
        return [each.definition for each in files if each.definition and each.is_trusted(trust)]


def _left_out_text(file: AgentFile) -> str:
    return f"the agent file {file.of.file} is left out: {file.problem}"
