"""`treadle skills`: folders with instructions that the model can load."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from ...config import Settings, load_config
from ...core.errors import ConfigError, NotFound
from ...core.files import open_regular
from ...prompt.machine import printable as printable_path
from ...skills.discovery import FoundSkills
from ...skills.places import CONVENTIONS, own_directory
from ...skills.rules import SkillRules
from ...skills.skill_file import FILE_NAME, SkillFile, SkillProblem, read_skill
from ...skills.skill_library import SkillLibrary
from ...skills.skill_trust import distrust_skills, trust_skills
from ..cli_home import Home
from ..command_options import as_json
from ..lazy_group import examples
from ..output import Column, one_line, printable, say, say_json, table
from ..skill_report import SkillRow, report_skills, skill_library

__all__ = ["command"]

_COLUMNS = (
    Column("NAME"),
    Column("FROM"),
    Column("TOKENS", right=True),
    Column("STATE"),
    Column("DESCRIPTION", gives=True),
)
_MOST_SHOWN_FILES = 50
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME = 64
_TEMPLATE = """\
---
name: {name}
description: {description}
---
# {title}

Say what to do, step by step, in the order in which it is done.

1. …

Files beside this one are read when this text says so: `references/…`, `scripts/…`.
"""
_UNSAID = "What this does, and when to use it. The model chooses by this sentence."


@click.group(
    "skills",
    invoke_without_command=True,
    epilog=examples("treadle skills", "treadle skills show deploy", "treadle skills trust deploy"),
)
@as_json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List, read, check, trust and create skills; alone, list them.

    A skill is a folder with a file SKILL.md. The model is told the name and the description
    of each, and loads the text of one when a task calls for it; you call one with `$name` or
    `/name`. Skills of a project count only after you have trusted them.
    """
    if ctx.invoked_subcommand is None:
        _list(ctx.obj, as_json=as_json)


@command.command("list", epilog=examples("treadle skills list", "treadle skills list --json"))
@as_json
@click.pass_obj
def list_(home: Home, as_json: bool) -> None:
    """List the skills of this directory, with their state and what they cost."""
    _list(home, as_json=as_json)


def _list(home: Home, *, as_json: bool) -> None:
    settings, found = _find(home)
    report = report_skills(home.path, settings.model, found)
    if as_json:
        say_json(report)
        return
    if report.skills:
        table(_COLUMNS, [_cells(row) for row in report.skills])
        say("")
        say(
            f"the list takes about {report.tokens:,} of {report.budget:,} tokens "
            f"with {report.model}"
        )
    else:
        say("no skills; `treadle skills new NAME` makes one")
    fatal = sum(problem.fatal for problem in found.problems)
    if fatal:
        say(f"{fatal} files cannot be used; `treadle skills check` says why")


def _cells(row: SkillRow) -> list[str]:
    tokens = f"{row.tokens:,}" if row.tokens else ""
    return [row.name, row.source, tokens, one_line(row.state), one_line(row.description)]


@command.command("show", epilog=examples("treadle skills show deploy"))
@click.argument("name")
@as_json
@click.pass_obj
def show(home: Home, name: str, as_json: bool) -> None:
    """Print a skill: its file as it is, and the names of the files beside it."""
    _, found = _find(home)
    skill = _find_skill(found, name)
    files = _files_beside(skill)
    with open_regular(skill.path) as file:
        text = file.read(1 << 20).decode(errors="replace")
    if as_json:
        say_json({**_skill_facts(skill), "text": text, "files": files})
        return
    say(f"{skill.path} ({skill.source})")
    say("")
    say(_shown_text(text).rstrip())
    if files:
        say("")
        say("\n".join(f"beside it: {printable(each)}" for each in files))


def _shown_text(text: str) -> str:
    return "\n".join(printable(line) for line in text.splitlines())


@command.command(
    "check", epilog=examples("treadle skills check", "treadle skills check ./my-skill")
)
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@as_json
@click.pass_obj
def check(home: Home, directory: Path | None, as_json: bool) -> int:
    """Check all skills, or the one in DIRECTORY. Exit with 1 if one of them cannot be used."""
    problems = _check_one(directory) if directory else _find(home)[1].problems
    fatal = any(problem.fatal for problem in problems)
    if as_json:
        say_json({"usable": not fatal, "problems": problems})
        return int(fatal)
    for problem in problems:
        say(f"{'cannot be used' if problem.fatal else 'note'}: {printable(problem.text)}")
    if not problems:
        say("nothing is wrong")
    return int(fatal)


def _check_one(directory: Path) -> tuple[SkillProblem, ...]:
    place = directory.parent if directory.name == FILE_NAME else directory
    read = read_skill(place.absolute(), "user", open_regular)
    return (read,) if isinstance(read, SkillProblem) else read.problems


@command.command(
    "trust",
    epilog=examples(
        "treadle skills trust deploy", "treadle skills trust", "treadle skills trust --remove"
    ),
)
@click.argument("names", nargs=-1)
@click.option("--remove", is_flag=True, help="Remove the trust.")
@as_json
@click.pass_obj
def trust(home: Home, names: tuple[str, ...], remove: bool, as_json: bool) -> int:
    """Trust skills of this project as they are now: those of NAMES, or all.

    Read them first: the model follows what they say. When a file of a skill changes, you must
    trust it again.
    """
    _, found = _find(home)
    if remove:
        gone = distrust_skills(home.path, found, names)
        say_json({"removed": gone}) if as_json else say(_list_line("not trusted any more", gone))
        return 0
    for name in names:
        _find_skill(found, name)
    wanted = {name.casefold() for name in names}
    chosen = [e for e in found.untrusted if not wanted or e.skill.name.casefold() in wanted]
    left = trust_skills(home.path, chosen)
    given = [each.skill.name for each in chosen if each not in left]
    if as_json:
        problems = {each.skill.name: each.why for each in left}
        say_json({"trusted": given, "problems": problems})
    else:
        say(_list_line("trusted", given))
        for each in left:
            say(f"cannot be trusted: {each.skill.name} {printable(each.why)}")
    return int(bool(left))


def _list_line(what: str, names: list[str] | tuple[str, ...]) -> str:
    return f"{what}: {', '.join(names) if names else 'nothing'}"


@command.command(
    "new",
    epilog=examples("treadle skills new release-notes", "treadle skills new deploy --project"),
)
@click.argument("name")
@click.option("--description", default=_UNSAID, help="What it does, and when to use it.")
@click.option("--project", is_flag=True, help="Create it in this project, and trust it.")
@as_json
@click.pass_obj
def new(home: Home, name: str, description: str, project: bool, as_json: bool) -> None:
    """Create a skill to fill in, in your home or in this project."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise ConfigError(f"{name!r} cannot be a name; use a-z, 0-9 and single '-' between them")
    place = Path.cwd() / CONVENTIONS[1] if project else own_directory(home.path)
    file = place / name / FILE_NAME
    if file.parent.exists():
        raise ConfigError(f"{str(file.parent)!r} exists; choose another name, or edit it")
    title = name.replace("-", " ").capitalize()
    said = " ".join(description.split())
    file.parent.mkdir(parents=True)
    file.write_text(_TEMPLATE.format(name=name, description=said, title=title), encoding="utf-8")
    if project:
        _, found = _find(home)
        trust_skills(home.path, [e for e in found.untrusted if e.skill.path == file])
    if as_json:
        say_json({"name": name, "path": str(file)})
    else:
        say(f"created {file}; edit it, then `treadle skills check` says what it lacks")


def _find(home: Home) -> tuple[Settings, FoundSkills]:
    cwd = Path.cwd()
    settings = load_config(home.path, cwd, os.environ).settings
    library = skill_library(home.path, settings) or SkillLibrary(home.path, SkillRules())
    return settings, library.look(cwd)


def _find_skill(found: FoundSkills, name: str) -> SkillFile:
    wanted = name.removeprefix("$").removeprefix("/").casefold()
    every = (*found.skills, *(each.skill for each in found.untrusted))
    skill = next((each for each in every if each.name.casefold() == wanted), None)
    if skill is None:
        raise NotFound("skill", name, "`treadle skills` lists them")
    return skill


def _skill_facts(skill: SkillFile) -> dict[str, object]:
    return {
        "name": skill.name,
        "description": skill.description,
        "source": skill.source,
        "path": str(skill.path),
        "digest": skill.digest,
        "allowed_tools": skill.allowed_tools,
    }


def _files_beside(skill: SkillFile) -> list[str]:
    found: list[str] = []
    for directory, below, files in os.walk(skill.directory):
        below.sort()
        for name in sorted(files):
            path = Path(directory, name)
            if path != skill.path:
                found.append(printable_path(path.relative_to(skill.directory)))
            if len(found) >= _MOST_SHOWN_FILES:
                return [*found, "…"]
    return found
