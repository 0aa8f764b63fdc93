"""Places: the directories in which skills are looked for.

Owns the conventions and their order. Invariants: a project's places lie below its root and are
looked at first, the nearest before those above; where a place of the user's lies inside the
project, it counts as the project's, because commands may write there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from ..core.errors import ConfigError
from ..core.files import is_directory
from ..core.plugins import PluginGroup
from ..prompt.machine import printable, project_directories
from .rules import SkillRules
from .skill_file import SkillProblem, SkillSource

__all__ = [
    "CONVENTIONS",
    "PLUGINS_FILE",
    "SkillPlace",
    "installed_places",
    "own_directory",
    "places",
]

CONVENTIONS = (".treadle/skills", ".agents/skills", ".claude/skills")
"""Where skills lie in a project, and in the user's home."""

PLUGINS_FILE = "plugins.json"
"""Names the plug-in directories that the user has added, below the home."""

_SKILLS = PluginGroup("treadle.skills", "skills")
"""Packages offer directories of skills, or functions that return one."""


class SkillPlace(Struct, frozen=True):
    """A directory that may hold skills."""

    directory: Path
    source: SkillSource
    owner: str = ""
    root: Path | None = None
    """What no link may lead out of, free of links; None where links are the user's own."""


def places(
    cwd: Path, home: Path, rules: SkillRules, environ: Mapping[str, str]
) -> tuple[SkillPlace, ...]:
    """Return the places for a thread in `cwd`, the strongest first."""
    here = Path(os.path.abspath(cwd))  # noqa: PTH100 - `resolve` fails on loops of links
    line = [*reversed([*project_directories(here, (".git",))])]
    root = Path(os.path.realpath(line[-1]))
    inside = [
        SkillPlace(directory / convention, "project", root=root)
        for directory in line
        for convention in CONVENTIONS
    ]
    taken = {place.directory for place in inside}
    own = [each for each in _own(home, rules, environ) if each not in taken]
    found = inside if rules.project else []
    found += [
        SkillPlace(each, "project", root=root)
        if _is_open(each, here, home)
        else SkillPlace(each, "user")
        for each in own
    ]
    found += _of_plugins(home) if rules.user else []
    return tuple(place for place in found if is_directory(place.directory))


def own_directory(home: Path) -> Path:
    """Return the directory for new skills of the user's."""
    return home / "skills"


def _is_open(directory: Path, here: Path, home: Path) -> bool:
    """Return whether commands of a thread in `here` may write in a directory of the user's."""
    real = Path(os.path.realpath(directory))
    # Treadle's home is hidden from them, wherever it is.
    return real.is_relative_to(os.path.realpath(here)) and not real.is_relative_to(
        os.path.realpath(home)
    )


def _own(home: Path, rules: SkillRules, environ: Mapping[str, str]) -> Iterator[Path]:
    user_home = environ.get("HOME", "")
    for named in rules.directories:
        expanded = user_home + named[1:] if named == "~" or named.startswith("~/") else named
        yield Path(os.path.abspath(expanded))  # noqa: PTH100 - links stay
    if rules.user:
        yield own_directory(home)
        if user_home.startswith("/"):
            yield from (Path(user_home) / convention for convention in CONVENTIONS)
            yield Path(environ.get("CODEX_HOME") or f"{user_home}/.codex") / "skills"


@cache
def installed_places() -> tuple[tuple[SkillPlace, ...], tuple[SkillProblem, ...]]:
    """Return the places of installed packages, and what is wrong with some. Imports them, once."""
    found: list[SkillPlace] = []
    problems: list[SkillProblem] = []
    try:
        plugins = _SKILLS.plugins()
    except ConfigError as error:
        return (), (SkillProblem(_SKILLS.name, str(error)),)
    for plugin in plugins:
        try:
            offered = plugin.load()
            offered = offered() if callable(offered) else offered
            directory = Path(os.fspath(offered))
        except Exception as error:  # noqa: BLE001 - other people's code may raise anything
            why = plugin.problem(error)
            problems.append(SkillProblem(plugin.target, why))
            continue
        if is_directory(directory):
            found.append(SkillPlace(directory, "package", plugin.owner))
        else:
            missing = plugin.problem(f"{printable(directory)!r} is no directory")
            problems.append(SkillProblem(plugin.target, missing))
    return tuple(found), tuple(problems)


def _of_plugins(home: Path) -> list[SkillPlace]:
    if not os.path.exists(home / PLUGINS_FILE):  # noqa: PTH110 - False also where nobody may look
        return []
    from .plugin_directory import added_plugins  # few users have some

    return [
        SkillPlace(plugin / "skills", "plugin", name, Path(os.path.realpath(plugin)))
        for name, plugin in added_plugins(home).items()
    ]
