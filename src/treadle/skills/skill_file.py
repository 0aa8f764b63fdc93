"""Skill files: one `SKILL.md`, read and understood.

Owns what its fields mean, how lenient a reader is with them, and what is said about those that
break a rule. Invariant: a skill that can be used has a name that is safe in any place where it
is printed, and a description on one line; a file that breaks a rule is reported, and keeps no
other from being read.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from ..core.text import approx_tokens, whole_characters
from ..core.words import word_set
from ..prompt.machine import printable
from ..prompt.skill_fragments import Skill

if TYPE_CHECKING:
    from ..core.front_matter import Document

__all__ = [
    "FILE_NAME",
    "GUARDED",
    "MOST_BYTES",
    "OpenSkill",
    "SkillFile",
    "SkillProblem",
    "SkillSource",
    "read_skill",
]

FILE_NAME = "SKILL.md"

MOST_BYTES = 1 << 20
"""The largest file of a skill that is read."""

_MOST_NAME, _MOST_DESCRIPTION, _MOST_COMPATIBILITY = 64, 1024, 500
_GOOD_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_USABLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_BODY_TOKENS = 5_000
"""The length that the format recommends for a body."""
_KNOWN_KEYS = word_set(
    "name description license compatibility metadata allowed-tools disallowed-tools version "
    "disable-model-invocation user-invocable argument-hint arguments context agent model effort "
    "hooks paths when_to_use"
)
_YES = frozenset(("true", "yes", "on", "1"))
_NO = frozenset(("false", "no", "off", "0"))

SkillSource: TypeAlias = Literal["project", "user", "package", "plugin"]
"""Who brings a skill: the project, the user, an installed package, or a plug-in directory."""

GUARDED: tuple[SkillSource, ...] = ("project", "plugin")
"""Whose skills count only with the digest that the user has trusted."""

OpenSkill: TypeAlias = Callable[[Path], io.BufferedReader]
"""Opens a file of a skill, or raises `OSError` where nobody may read it."""


class SkillProblem(Struct, frozen=True):
    """What is wrong with a skill or a place, for people."""

    path: str
    what: str
    fatal: bool = False
    """Whether the skill cannot be used."""

    @property
    def text(self) -> str:
        """Return it as one line."""
        return f"{self.path!r} {self.what}"


class SkillFile(Struct, frozen=True, kw_only=True):
    """A skill, as its file describes it."""

    name: str
    description: str
    directory: Path
    source: SkillSource
    owner: str = ""
    """The package or the plug-in directory that brings it."""
    digest: str
    """Of the bytes of the file."""
    body: str
    allowed_tools: tuple[str, ...] = ()
    """What it asks to be allowed; nothing is granted by being named here."""
    argument_hint: str = ""
    for_model: bool = True
    """Whether the model is told of it; the user can always call it."""
    for_user: bool = True
    """Whether it is offered among the commands of the user."""
    problems: tuple[SkillProblem, ...] = ()

    @property
    def path(self) -> Path:
        """Return its file."""
        return self.directory / FILE_NAME

    def fragment(self, *, changed: bool = False) -> Skill:
        """Return the text that puts it into a conversation."""
        return Skill(
            name=self.name,
            path=printable(self.path),
            contents=self.body.strip("\n"),
            digest=short_digest(self.digest),
            changed=changed,
        )


def short_digest(digest: str) -> str:
    """Return as much of a digest as tells two texts of one skill apart."""
    return digest.removeprefix("sha256:")[:16]


def read_skill(
    directory: Path, source: SkillSource, open_file: OpenSkill, owner: str = ""
) -> SkillFile | SkillProblem:
    """Read the skill in a directory; return what is wrong where it cannot be used."""
    path = directory / FILE_NAME
    shown = printable(path)
    try:
        with open_file(path) as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        return SkillProblem(shown, f"cannot be read ({error.strerror or error})", fatal=True)
    if len(data) > MOST_BYTES:
        return SkillProblem(shown, f"is larger than {MOST_BYTES >> 20} MiB", fatal=True)
    if b"\0" in data:
        return SkillProblem(shown, "is not text", fatal=True)
    return _understand(directory, source, owner, data, shown)


def _understand(
    directory: Path, source: SkillSource, owner: str, data: bytes, shown: str
) -> SkillFile | SkillProblem:
    text = data.decode(errors="replace")
    from ..core.front_matter import read_document  # most threads have no skills

    document = read_document(whole_characters(text))
    notes = list(document.problems)
    if "\ufffd" in text:
        notes.append("is not all UTF-8; odd bytes were replaced")
    folder = printable(directory).rpartition("/")[2]
    name = _one_line(document.text("name")) or folder
    if not _USABLE_NAME.fullmatch(name):
        wrong = f"has the name {name[:80]!r}, which cannot be typed or shown safely"
        return SkillProblem(shown, f"{wrong}; use a-z, 0-9 and single '-'", fatal=True)
    description = _one_line(document.text("description"))
    if not description:
        why = document.problems[0] if document.problems else "has no description"
        return SkillProblem(shown, f"{why}; a skill needs a description", fatal=True)
    notes += _complaints(document, name, folder, description)
    return SkillFile(
        name=name,
        description=_cut(description, _MOST_DESCRIPTION),
        directory=directory,
        source=source,
        owner=owner,
        digest="sha256:" + hashlib.sha256(data).hexdigest(),
        body=document.body,
        allowed_tools=_allowed_tools(document),
        argument_hint=_cut(_one_line(document.text("argument-hint")), _MOST_NAME),
        for_model=document.text("disable-model-invocation").strip().lower() not in _YES,
        for_user=document.text("user-invocable").strip().lower() not in _NO,
        problems=tuple(SkillProblem(shown, note) for note in notes),
    )


def _complaints(document: Document, name: str, folder: str, description: str) -> list[str]:
    """Return which rules of the format a usable skill breaks."""
    found: list[str] = []
    if not document.text("name"):
        found.append("has no name; its folder's is used")
    elif not _GOOD_NAME.fullmatch(name) or len(name) > _MOST_NAME:
        found.append(f"has the name {name!r}; the format wants a-z, 0-9 and single '-'")
    if document.text("name") and name != folder:
        found.append(f"has the name {name!r}, and its folder is called {folder!r}")
    if len(description) > _MOST_DESCRIPTION:
        found.append(f"has a description of more than {_MOST_DESCRIPTION:,} characters; it is cut")
    if len(document.text("compatibility")) > _MOST_COMPATIBILITY:
        found.append(f"has a compatibility of more than {_MOST_COMPATIBILITY} characters")
    tokens = approx_tokens(len(document.body.encode(errors="replace")))
    if tokens > Skill.cap_tokens:
        found.append(f"has a body of about {tokens:,} tokens; the model sees its ends only")
    elif tokens > _BODY_TOKENS:
        found.append(f"has a body of about {tokens:,} tokens; below {_BODY_TOKENS:,} is better")
    if not document.body.strip():
        found.append("has no body")
    unknown = [key for key in document.values if key not in _KNOWN_KEYS]
    if unknown:
        found.append(f"has keys that nobody knows: {', '.join(unknown[:8])}")
    return found


def _allowed_tools(document: Document) -> tuple[str, ...]:
    """Return the tools of the field, split at blanks and commas outside parentheses."""
    written = document.text("allowed-tools")[:_MOST_DESCRIPTION]
    return tuple(re.findall(r"[^\s,()]+(?:\([^()]*\))?", written))


def _one_line(text: str) -> str:
    """Return a text on one line, without characters that are not seen or that turn it around."""
    from unicodedata import category

    kept = (" " if each.isspace() else each for each in text)
    seen = (each for each in kept if category(each) not in ("Cc", "Cf", "Cs", "Co"))
    return " ".join("".join(seen).split())


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
