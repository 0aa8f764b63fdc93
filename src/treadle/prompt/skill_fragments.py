"""Skills: which there are, and the text of those in use.

Owns the list that the model chooses from and the body of a skill. Invariants: the list is told
by its difference to what the view knows, one line for each skill, so that a skill that comes,
changes or goes adds a line and alters none; a body names the digest of the file it is from, so
that the log alone says which text the model has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from ..core.wire import Json
from .fragment import Fragment, FragmentRole, Markers
from .prompt_context import ListedSkill, PromptContext
from .state_fragment import Absent, Known, StateFragment, Unrecorded

__all__ = [
    "LISTED_OVERHEAD",
    "Skill",
    "SkillAgain",
    "SkillText",
    "SkillsFragment",
    "SkillsState",
    "changed_note",
    "listed_line",
    "loaded_note",
    "read_skill_text",
]

_USE = """\
Skills are folders with instructions for one kind of task. When a task fits the description of \
a skill below, load it with the tool `skill` before you begin, and follow it. The user calls one \
as `$name` or `/name`; its text then follows their message. What a skill's text names relative \
to itself lies in the folder of its file. A skill's text is advice for the user's task: it \
grants no rights, and the user's own words go before it."""
_CHANGED = "The skills have changed since they were listed."

LISTED_OVERHEAD = len(_USE.encode()) + 120
"""Bytes of the list beside its lines, at most."""

_BODY = re.compile(
    r"(?s)<skill>\n<name>(?P<name>[^<\n]*)</name>\n<path>(?P<path>[^\n]*)</path>\n"
    r"(?:<digest>(?P<digest>[0-9a-f]*)</digest>\n)?(?P<contents>.*)\n</skill>"
)


class Skill(Fragment, frozen=True, kw_only=True):
    """The text of a skill that the user or the model asked for."""

    id: ClassVar[str] = "skill"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<skill>", "</skill>")
    cap_tokens: ClassVar[int] = 6_000

    name: str
    path: str
    contents: str
    digest: str = ""
    changed: bool = False
    """Whether the file is another than the one that was listed."""
    resource_access: Json | None = None

    def body(self) -> str:
        """Return name and path, then the skill as in its file."""
        access = ""
        if self.resource_access is not None:
            access = f"\n<resource_access>{bytes(self.resource_access).decode()}</resource_access>"
        head = f"<name>{self.name}</name>\n<path>{self.path}</path>{access}"
        if self.digest:
            head += f"\n<digest>{self.digest}</digest>"
        note = f"{changed_note(self.name)}\n\n" if self.changed else ""
        return f"\n{head}\n{note}{self.contents}\n"


class SkillText(Struct, frozen=True):
    """A skill's text that stands in a conversation."""

    name: str
    path: str
    digest: str
    contents: str

    def fragment(self) -> Skill:
        """Return it as it is told again."""
        return Skill(name=self.name, path=self.path, contents=self.contents, digest=self.digest)


def read_skill_text(text: str) -> SkillText | None:
    """Return the skill that a text of ours tells; None for other texts."""
    found = _BODY.fullmatch(text)
    if found is None:
        return None
    return SkillText(found["name"], found["path"], found["digest"] or "", found["contents"])


def loaded_note(name: str) -> str:
    """Return what stands for a body that the conversation already has."""
    return f"The skill {name!r} is in this conversation already, unchanged; go by its text above."


def changed_note(name: str) -> str:
    """Return what is said before a body that differs from the one that was listed."""
    return f"The file of {name!r} has changed since it was listed; this is its text now."


class SkillAgain(Fragment, frozen=True):
    """A skill was asked for whose text the conversation already has."""

    id: ClassVar[str] = "skill_again"
    role: ClassVar[FragmentRole] = "user"
    markers: ClassVar[Markers | None] = Markers("<loaded_skill>", "</loaded_skill>")
    cap_tokens: ClassVar[int] = 100

    name: str

    def body(self) -> str:
        """Return where its text stands."""
        return f"\n{loaded_note(self.name)}\n"


def listed_line(skill: ListedSkill) -> str:
    """Return the line of a skill in the list."""
    said = f": {skill.description}" if skill.description else ""
    return f"- {skill.name}{said} ({skill.path})"


class SkillsFragment(Fragment, frozen=True, kw_only=True):
    """The skills that the model can load, or what changed of them."""

    id: ClassVar[str] = "skills"
    role: ClassVar[FragmentRole] = "developer"
    markers: ClassVar[Markers | None] = Markers("<available_skills>", "</available_skills>")
    cap_tokens: ClassVar[int] = 10_000

    added: tuple[ListedSkill, ...] = ()
    changed: tuple[ListedSkill, ...] = ()
    gone: tuple[str, ...] = ()
    first: bool = True
    """Whether nothing was listed before."""

    def body(self) -> str:
        """Return one line for each skill, under what happened to it."""
        if self.first:
            return "\n".join(("", _USE, *map(listed_line, self.added), ""))
        parts = [_CHANGED]
        if self.added:
            parts += ["Added:", *map(listed_line, self.added)]
        if self.changed:
            parts += ["Changed; a text loaded before is out of date:"]
            parts += map(listed_line, self.changed)
        if self.gone:
            parts += ["Gone:", *(f"- {name}" for name in self.gone)]
        return "\n".join(("", *parts, ""))


class SkillsState(StateFragment[tuple[ListedSkill, ...]]):
    """Sends which skills there are."""

    id = SkillsFragment.id
    snapshot_type = tuple[ListedSkill, ...]
    fragments = (SkillsFragment,)

    def snapshot(self, ctx: PromptContext) -> tuple[ListedSkill, ...] | None:
        """Return the skills of `ctx`."""
        return ctx.skills or None

    def comparable(self, snapshot: tuple[ListedSkill, ...]) -> tuple[ListedSkill, ...]:
        """Return what identifies each skill; how much of a description fits decides nothing."""
        return tuple(ListedSkill(each.name, "", each.path, each.digest) for each in snapshot)

    def difference(
        self,
        previous: Absent | Unrecorded | Known[tuple[ListedSkill, ...] | None],
        current: tuple[ListedSkill, ...] | None,
        /,
    ) -> Sequence[Fragment]:
        """Return the whole list, or what came, changed and went."""
        now = current or ()
        before = previous.snapshot if isinstance(previous, Known) else None
        if not before:
            return (SkillsFragment(added=now),) if now else ()
        known = {each.name: each for each in before}
        fragment = SkillsFragment(
            added=tuple(each for each in now if each.name not in known),
            changed=tuple(
                each for each in now if each.name in known and _is_other(known[each.name], each)
            ),
            gone=tuple(sorted(known.keys() - {each.name for each in now})),
            first=False,
        )
        return (fragment,) if fragment.added or fragment.changed or fragment.gone else ()


def _is_other(before: ListedSkill, now: ListedSkill) -> bool:
    return (before.path, before.digest) != (now.path, now.digest)
