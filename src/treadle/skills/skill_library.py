"""The library: the skills that a thread may use now.

Owns what is read for a turn and what is read again when a skill is used. Invariants: looking
costs little where nothing changed; a skill that is used is read from its file at that moment,
and one of a project has then to be what the user has trusted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from ..config.trusted_files import TrustStore
from ..sandbox.boundary import Boundary, resolve_boundary
from ..sandbox.policy import SandboxPolicy
from .discovery import FoundSkills, UntrustedSkill, find_skills, opener_in
from .file_cache import FileCache
from .places import SkillPlace, installed_places, places
from .rules import SkillRules
from .skill_file import GUARDED, SkillFile, SkillProblem, read_skill

__all__ = ["SkillLibrary", "SkillRefusal"]

_POLICY = SandboxPolicy(mode="workspace-write")
"""Whatever a thread's mode is: without a sandbox a repository's links still lead nowhere."""


class SkillRefusal(Struct, frozen=True):
    """Why a skill is not used, for the model and the user."""

    reason: str


class SkillLibrary(Struct):
    """Finds skills for one thread. Everything it does blocks on files."""

    home: Path
    """Treadle's."""
    rules: SkillRules
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _cache: FileCache = field(default_factory=FileCache)

    def look(self, cwd: Path) -> FoundSkills:
        """Return the skills for a thread in `cwd`."""
        searched, problems = self._places(cwd)
        if not searched and not problems:
            return FoundSkills()
        return find_skills(
            searched,
            boundary=self._boundary(cwd),
            trusted=TrustStore(self.home).skills,
            disabled=self.rules.disabled,
            cache=self._cache,
            problems=problems,
        )

    def load(self, cwd: Path, name: str) -> SkillFile | SkillRefusal:
        """Return a skill as its file is now, or why it cannot be used."""
        found = self.look(cwd)
        skill = found.named(name)
        if skill is None:
            return SkillRefusal(_why_not(found, name))
        searched, _ = self._places(cwd)
        place = next(each for each in searched if skill.directory.is_relative_to(each.directory))
        opener = opener_in(place, self._boundary(cwd))
        read = read_skill(skill.directory, skill.source, opener, skill.owner)
        if isinstance(read, SkillProblem):
            return SkillRefusal(f"the skill {name!r} {read.what}")
        if skill.source in GUARDED and read.digest != skill.digest:
            return SkillRefusal(f"the skill {name!r} has changed since the user trusted it")
        return read

    def _places(self, cwd: Path) -> tuple[tuple[SkillPlace, ...], tuple[SkillProblem, ...]]:
        installed, problems = installed_places() if self.rules.packages else ((), ())
        return (*places(cwd, self.home, self.rules, self.environ), *installed), problems

    def _boundary(self, cwd: Path) -> Boundary:
        return resolve_boundary(_POLICY, cwd, home=self.home, environ=self.environ)


def _why_not(found: FoundSkills, name: str) -> str:
    wanted = name.casefold()
    waiting = (each for each in found.untrusted if each.skill.name.casefold() == wanted)
    untrusted: UntrustedSkill | None = next(waiting, None)
    if untrusted is not None:
        return (
            f"the skill {name!r} {untrusted.why}, so it is not used; the user "
            "can read it and run `treadle skills trust`"
        )
    return f"there is no skill {name!r}"
