"""Skill trust: what the user says of the skills of a project, one by one.

Owns how trust is given and taken. Invariant: a skill is trusted with all of its files as they
are; a changed file, a new one or a missing one ends the trust.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..config.trusted_files import TrustStore
from .discovery import FoundSkills, UntrustedSkill
from .skill_file import GUARDED

__all__ = ["distrust_skills", "trust_skills"]


def trust_skills(home: Path, skills: Iterable[UntrustedSkill]) -> tuple[UntrustedSkill, ...]:
    """Trust skills as they were seen; return those that nobody can trust as they are."""
    given = tuple(skills)
    good = {str(each.skill.directory): each.digest for each in given if each.digest}
    if good:
        TrustStore(home).trust_skills(good)
    return tuple(each for each in given if not each.digest)


def distrust_skills(home: Path, found: FoundSkills, names: Iterable[str] = ()) -> tuple[str, ...]:
    """Trust the project's skills of these names no longer, or all; return their names."""
    wanted = {name.casefold() for name in names}
    gone = [
        each
        for each in found.skills
        if each.source in GUARDED and (not wanted or each.name.casefold() in wanted)
    ]
    if gone:
        TrustStore(home).distrust_skills(str(each.directory) for each in gone)
    return tuple(each.name for each in gone)
