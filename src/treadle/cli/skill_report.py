"""The report on skills: each with its state, as `treadle skills` shows them.

Owns the words for the states. Invariant: what is reported as listed is what the model of the
next turn is told, by the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ..config import Settings
from ..models.catalog import Catalog
from ..skills.catalogue import Catalogue, build_catalogue, catalogue_tokens
from ..skills.discovery import FoundSkills
from ..skills.skill_file import SkillFile
from ..skills.skill_library import SkillLibrary
from .thread_setup import skill_rules

__all__ = ["SkillRow", "SkillsReport", "report_skills", "skill_library"]


class SkillRow(Struct, frozen=True, kw_only=True):
    """One skill."""

    name: str
    description: str
    source: str
    path: str
    digest: str
    state: str
    tokens: int = 0
    """What its line in the list costs."""


class SkillsReport(Struct, frozen=True, kw_only=True):
    """All skills of a directory, and what they cost."""

    skills: tuple[SkillRow, ...] = ()
    problems: tuple[str, ...] = ()
    tokens: int = 0
    budget: int = 0
    model: str = ""


def skill_library(home: Path, settings: Settings) -> SkillLibrary | None:
    """Return what finds skills with these settings; None where they are off."""
    rules = skill_rules(settings)
    return None if rules is None else SkillLibrary(home, rules)


def report_skills(home: Path, model: str, found: FoundSkills) -> SkillsReport:
    """Return every skill with its state. Blocks on files."""
    catalog = Catalog.load(home / "models.toml")
    model = catalog.full_name(model)
    catalogue = build_catalogue(found.skills, catalog.profile(model).effective_window)
    return SkillsReport(
        skills=tuple(_rows(found, catalogue)),
        problems=tuple(problem.text for problem in found.problems),
        tokens=catalogue.tokens,
        budget=catalogue.budget,
        model=model,
    )


def _rows(found: FoundSkills, catalogue: Catalogue) -> Iterator[SkillRow]:
    lines = {each.name: each for each in catalogue.listed}
    bare = catalogue_tokens(catalogue.listed[:1]) if catalogue.listed else 0
    for skill in found.skills:
        listed = lines.get(skill.name)
        if listed is None:
            state = "no room in the list" if skill.for_model else "for the user only"
            yield _row(skill, state)
        else:
            both = catalogue_tokens((catalogue.listed[0], listed))
            yield _row(skill, "listed", both - bare)
    for each in found.untrusted:
        yield _row(each.skill, each.why)
    for shadowed in found.shadowed:
        yield _row(shadowed.skill, f"shadowed by {shadowed.by.path}")


def _row(skill: SkillFile, state: str, tokens: int = 0) -> SkillRow:
    source = f"{skill.source} {skill.owner}".rstrip()
    return SkillRow(
        name=skill.name,
        description=skill.description,
        source=source,
        path=str(skill.path),
        digest=skill.digest,
        state=state,
        tokens=tokens,
    )
