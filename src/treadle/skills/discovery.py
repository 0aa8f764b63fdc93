"""Discovery: the skills in some places, which of them count, and why others do not.

Owns the walk through directories and what shadows what. Invariants: a walk is bounded in depth
and in directories, and follows no link out of a project; of two skills with one name the one in
the stronger place counts; a skill of a project counts only with the digest that the user has
trusted, and one that is not trusted shadows nothing.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field

from ..core.files import open_regular, opened_path
from ..prompt.machine import printable
from ..sandbox.boundary import Boundary
from ..sandbox.reading import open_readable
from .file_cache import FileCache
from .places import SkillPlace
from .skill_file import FILE_NAME, GUARDED, OpenSkill, SkillFile, SkillProblem, read_skill

__all__ = ["FoundSkills", "ShadowedSkill", "UntrustedSkill", "find_skills", "opener_in"]

_MOST_DEPTH = 6
_MOST_DIRECTORIES = 2_000
_MOST_ENTRIES = 20_000
_SKIPPED = frozenset((".git", "node_modules", "__pycache__", ".venv", ".system"))
"""Where no skills of anybody's lie; Codex keeps its own in `.system`."""


class ShadowedSkill(Struct, frozen=True):
    """A skill that does not count, because a stronger place has one of its name."""

    skill: SkillFile
    by: SkillFile


class UntrustedSkill(Struct, frozen=True):
    """A project's skill that does not count until it is trusted as it is."""

    skill: SkillFile
    digest: str = ""
    """Of all its files; empty where nobody can trust it as it is."""
    why: str = "is not trusted"


class FoundSkills(Struct, frozen=True):
    """What was found."""

    skills: tuple[SkillFile, ...] = ()
    """Those that count, the strongest place first."""
    shadowed: tuple[ShadowedSkill, ...] = ()
    untrusted: tuple[UntrustedSkill, ...] = ()
    problems: tuple[SkillProblem, ...] = ()
    digests: dict[str, str] = {}
    """Of all the files of each trusted skill of the project, by directory."""

    def named(self, name: str) -> SkillFile | None:
        """Return the skill of a name, in any case."""
        wanted = name.casefold()
        return next((each for each in self.skills if each.name.casefold() == wanted), None)


class _Finds(Struct):
    """Collects what is found, the strongest place first."""

    trusted: dict[str, str]
    disabled: frozenset[str]
    cache: FileCache
    boundary: Boundary
    skills: dict[str, SkillFile] = field(default_factory=dict)
    shadowed: list[ShadowedSkill] = field(default_factory=list)
    untrusted: list[UntrustedSkill] = field(default_factory=list)
    problems: list[SkillProblem] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def search(self, place: SkillPlace) -> None:
        opener = opener_in(place, self.boundary)
        for directory in self._walk(place):
            reading = partial(read_skill, directory, place.source, opener, place.owner)
            read = self.cache.read(directory / FILE_NAME, reading)
            if isinstance(read, SkillProblem):
                self.problems.append(read)
                continue
            self.problems += read.problems
            if read.name.casefold() not in self.disabled:
                self._weigh(read)

    def _weigh(self, skill: SkillFile) -> None:
        if skill.source in GUARDED and (untrusted := self._distrust(skill)) is not None:
            self.untrusted.append(untrusted)
            return
        name = skill.name.casefold()
        if name in self.skills:
            self.shadowed.append(ShadowedSkill(skill, self.skills[name]))
        else:
            self.skills[name] = skill

    def _distrust(self, skill: SkillFile) -> UntrustedSkill | None:
        """Return why a project's skill does not count; None where it does."""
        from .skill_folder import digest_folder  # most projects have no skills

        folder = digest_folder(skill.directory, self.cache)
        if folder.problem:
            return UntrustedSkill(skill, why=folder.problem)
        known = self.trusted.get(str(skill.directory))
        if known == folder.digest:
            self.digests[str(skill.directory)] = folder.digest
            return None
        why = "is not trusted" if known is None else "has changed since it was trusted"
        return UntrustedSkill(skill, folder.digest, why)

    def _walk(self, place: SkillPlace) -> Iterator[Path]:
        """Yield the directories with a skill, in the order of their names."""
        waiting = [(place.directory, 0)]
        looked = entries = 0
        while waiting:
            directory, depth = waiting.pop()
            if not self._enters(directory, place):
                continue
            looked += 1
            if looked > _MOST_DIRECTORIES or entries > _MOST_ENTRIES:
                what = f"has more than {_MOST_DIRECTORIES:,} directories; the rest is left out"
                self.problems.append(SkillProblem(printable(place.directory), what))
                return
            try:
                with os.scandir(directory) as listing:
                    below = sorted(listing, key=lambda each: each.name)
            except OSError as error:
                what = f"cannot be read ({error.strerror})"
                self.problems.append(SkillProblem(printable(directory), what))
                continue
            entries += len(below)
            if depth and any(each.name == FILE_NAME for each in below):
                yield directory
            elif depth < _MOST_DEPTH:
                inner = [Path(each.path) for each in below if _is_directory(each)]
                waiting += [(each, depth + 1) for each in reversed(inner)]

    def _enters(self, directory: Path, place: SkillPlace) -> bool:
        """Return whether a directory is looked at: once, and never outside the project."""
        if not str(directory).isprintable():
            what = "has a name that cannot be shown"
            self.problems.append(SkillProblem(printable(directory), what))
            return False
        try:
            real = os.path.realpath(directory, strict=True)
        except OSError:
            return False
        if real in self.seen:
            return False
        self.seen.add(real)
        if place.root is not None and not Path(real).is_relative_to(place.root):
            what = "leads out of the project; it is not followed"
            self.problems.append(SkillProblem(printable(directory), what))
            return False
        return True


def opener_in(place: SkillPlace, boundary: Boundary) -> OpenSkill:
    """Return what opens the files of a place; a project's, only where a model may read them."""

    def open_inside(path: Path) -> io.BufferedReader:
        if place.root is None:
            return open_regular(path)
        file = open_readable(path, boundary)
        try:
            _check_inside(file, path, place.root)
        except BaseException:
            file.close()
            raise
        return file

    return open_inside


def _check_inside(file: io.BufferedReader, path: Path, root: Path) -> None:
    if not opened_path(file, path).is_relative_to(root):
        raise PermissionError(errno.EACCES, "it leads out of the project", str(path))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    if entry.name in _SKIPPED:
        return False
    try:
        return entry.is_dir()
    except OSError:
        return False


def find_skills(
    searched: Sequence[SkillPlace],
    *,
    boundary: Boundary,
    trusted: dict[str, str],
    disabled: Sequence[str] = (),
    cache: FileCache | None = None,
    problems: Sequence[SkillProblem] = (),
) -> FoundSkills:
    """Return the skills in some places, of which the first is the strongest. Blocks on files."""
    finds = _Finds(
        trusted=trusted,
        disabled=frozenset(name.casefold() for name in disabled),
        cache=FileCache() if cache is None else cache,
        boundary=boundary,
        problems=list(problems),
    )
    for place in searched:
        finds.search(place)
    return FoundSkills(
        skills=tuple(finds.skills.values()),
        shadowed=tuple(finds.shadowed),
        untrusted=tuple(finds.untrusted),
        problems=tuple(finds.problems),
        digests=finds.digests,
    )
