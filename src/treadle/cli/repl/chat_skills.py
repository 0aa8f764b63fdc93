"""Skills in the chat: the list of them, and `/name`, which calls one.

Owns what a user is asked about a skill of the project. Invariant: built-in commands, commands in
files and then skills answer to a name, in this order; a skill that is not trusted as it is
reaches the model only after the user has seen its text and said yes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.files import open_regular
from ...skills.discovery import FoundSkills, UntrustedSkill
from ...skills.skill_file import MOST_BYTES
from ...skills.skill_trust import trust_skills
from ..output import one_line
from ..skill_report import report_skills
from .choose import Choice
from .mentions import Said

if TYPE_CHECKING:
    from .slash import Slash

__all__ = ["call_skill", "found_skills", "show_skills", "skill_words"]


def found_skills(slash: Slash) -> FoundSkills:
    """Return the skills of the thread. Blocks on files."""
    skills = slash.session.thread.policy.skills
    return FoundSkills() if skills is None else skills.look()


async def show_skills(slash: Slash, rest: str) -> None:
    """List the skills, with their state and what the list costs."""
    del rest
    session = slash.session
    found = await asyncio.to_thread(found_skills, slash)
    if not (found.skills or found.untrusted):
        session.screen.say("no skills; `treadle skills new NAME` makes one")
        return
    report = await asyncio.to_thread(report_skills, session.setup.home, session.thread.model, found)
    rows = {
        f"/{row.name}": one_line(f"{row.state} · {row.source} · {row.description}", 160)
        for row in report.skills
        if not row.state.startswith("shadowed")
    }
    session.screen.pairs(rows)
    session.screen.quiet(
        f"the list takes about {report.tokens:,} of {report.budget:,} tokens; "
        f"{len(report.problems)} problems, see `treadle skills check`"
        if report.problems
        else f"the list takes about {report.tokens:,} of {report.budget:,} tokens"
    )


async def call_skill(slash: Slash, name: str, rest: str) -> bool:
    """Send a message that calls the skill of this name; return whether there is one."""
    found = await asyncio.to_thread(found_skills, slash)
    waiting = [each for each in found.untrusted if each.skill.name.casefold() == name.casefold()]
    if found.named(name) is None:
        if not waiting:
            return False
        if not await _trusts(slash, waiting[0]):
            return True
    line = f"/{name} {rest}".rstrip()
    await slash.session.say(Said(line, (line,)), is_shown=found.named(name) is not None)
    return True


def skill_words(slash: Slash) -> Iterator[tuple[str, str]]:
    """Yield the names of skills that a user may call, each with what it is for."""
    found = found_skills(slash)
    for skill in found.skills:
        if skill.for_user:
            hint = " ".join(filter(None, [skill.argument_hint, skill.description]))
            yield f"/{skill.name}", hint
    for each in found.untrusted:
        yield f"/{each.skill.name}", f"a skill of this project that {each.why}"


async def _trusts(slash: Slash, untrusted: UntrustedSkill) -> bool:
    """Show a skill of the project that the user has not seen as it is, and ask about it."""
    session, skill = slash.session, untrusted.skill
    if not untrusted.digest:
        session.screen.trouble(f"the skill {skill.name} {untrusted.why}")
        return False
    text = await asyncio.to_thread(_read, skill.path)
    session.screen.say(f"{skill.path} would tell the model what to do:")
    session.screen.quiet(text.rstrip())
    rows = [Choice("no"), Choice("yes, as long as its files stay as they are")]
    if await session.front.choose("Use this skill of the project?", rows) != 1:
        return False
    trust_skills(session.setup.home, [untrusted])
    return True


def _read(path: Path) -> str:
    with open_regular(path) as file:
        return file.read(MOST_BYTES).decode(errors="replace")
