"""Prompt files: Markdown with a header, in which users keep commands and agents.

Owns where such files are looked for, how they are read and what their header may look like.
Invariants: the user's own file goes before a project's of the same name; a project's counts
only with the bytes that the user has seen and trusted.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from ..core.files import is_directory, is_there, open_regular
from ..core.front_matter import read_document
from .config_file import MOST_BYTES
from .trusted_files import TrustStore

__all__ = ["HeaderValue", "OpenFile", "PromptFile", "find_prompt_files"]

MOST_FILES = 200
"""How many files of one directory are read."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.IGNORECASE)

HeaderValue: TypeAlias = str | tuple[str, ...]
OpenFile: TypeAlias = Callable[[Path], io.BufferedReader]
"""Opens a project's file, or raises `OSError` where a model may not read it."""


class PromptFile(Struct, frozen=True):
    """A file with a prompt."""

    name: str
    file: Path
    source: str
    """``yours`` or ``project``."""
    body: bytes = b""
    problem: str = ""
    """Why it cannot be read; empty if it can."""

    def is_trusted(self, trust: TrustStore) -> bool:
        """Return whether it may be used as it is."""
        return self.source == "yours" or trust.is_trusted(self.file, self.body)

    @property
    def text(self) -> str:
        """Return the file as it is."""
        return self.body.decode(errors="replace").replace("\r\n", "\n")

    @property
    def prompt(self) -> str:
        """Return what follows the header."""
        document = read_document(self.text)
        return (document.body if document.found else self.text).strip()

    @property
    def header(self) -> dict[str, HeaderValue]:
        """Return the header: texts and lists of texts. Raises `ValueError` for anything else."""
        document = read_document(self.text)
        if document.found and document.problems:
            raise ValueError(document.problems[0])
        found: dict[str, HeaderValue] = {}
        for key, value in document.values.items():
            if isinstance(value, Mapping):
                why = f"its front matter gives {key!r} names of its own; write a text"
                raise ValueError(why)  # noqa: TRY004 - the file is wrong, not the caller
            found[key] = value
        return found


def find_prompt_files(
    cwd: Path, *, own: Path, project: Sequence[str], open_file: OpenFile
) -> dict[str, PromptFile]:
    """Return the files of the project and the user's own, by their names in lower case.

    `own` is the user's directory. Of the `project` directories the nearest counts, not above
    the root of the project; of several in one place, the first goes first.
    """
    places = [("project", place) for place in reversed(_project_directories(cwd, project))]
    return {
        file.stem.lower(): _read(file, source, open_file)
        for source, place in (*places, ("yours", own))
        for file in _files(place)
    }


def _project_directories(cwd: Path, names: Sequence[str]) -> list[Path]:
    for place in (cwd, *cwd.parents):
        if found := [directory for name in names if is_directory(directory := place / name)]:
            return found
        if is_there(place / ".git"):
            break
    return []


def _files(place: Path) -> list[Path]:
    try:
        found = sorted(place.glob("*.md"))
    except OSError:
        return []
    return [file for file in found if _NAME.fullmatch(file.stem)][:MOST_FILES]


def _read(file: Path, source: str, open_file: OpenFile) -> PromptFile:
    name = file.stem.lower()
    try:
        with (open_regular if source == "yours" else open_file)(file) as opened:
            body = opened.read(MOST_BYTES + 1)
    except OSError as error:
        return PromptFile(name, file, source, problem=f"cannot be read: {error.strerror or error}")
    if len(body) > MOST_BYTES:
        return PromptFile(name, file, source, problem=f"has more than {MOST_BYTES:,} bytes")
    return PromptFile(name, file, source, body)
