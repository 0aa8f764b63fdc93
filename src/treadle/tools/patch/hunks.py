"""What a patch says, as values.

Owns the markers of the format and the structs a parsed patch is made of.
Invariant: a chunk keeps its lines in the order they were written, so that a
context line can stay the line it is in the file.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = [
    "ADD",
    "BEGIN",
    "CHUNK",
    "DELETE",
    "END",
    "END_OF_FILE",
    "ENVIRONMENT",
    "MOVE",
    "UPDATE",
    "WHITESPACE",
    "AddFile",
    "ChangeLine",
    "Chunk",
    "DeleteFile",
    "Hunk",
    "Patch",
    "UpdateFile",
]

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ENVIRONMENT = "*** Environment ID: "
ADD = "*** Add File: "
DELETE = "*** Delete File: "
UPDATE = "*** Update File: "
MOVE = "*** Move to: "
CHUNK = "@@"
END_OF_FILE = "*** End of File"

# Unicode's White_Space; `str.strip()` alone would also take the separators \x1c to \x1f.
WHITESPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class ChangeLine(Struct, frozen=True):
    """One line of a chunk: kept (``" "``), added or removed."""

    kind: Literal[" ", "+", "-"]
    text: str


class Chunk(Struct, frozen=True):
    """A contiguous change, to be looked for after `context` if there is one."""

    lines: tuple[ChangeLine, ...]
    context: str | None = None
    at_end: bool = False
    """The change touches the last line of the file."""

    @property
    def old(self) -> list[str]:
        """The lines to find."""
        return [line.text for line in self.lines if line.kind != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that stand there afterwards."""
        return [line.text for line in self.lines if line.kind != "-"]


class AddFile(Struct, frozen=True, tag="add"):
    """Writes a file, over one that may be there."""

    path: str
    content: str


class DeleteFile(Struct, frozen=True, tag="delete"):
    """Removes a file."""

    path: str


class UpdateFile(Struct, frozen=True, tag="update"):
    """Changes a file, and moves it when `move_to` is given."""

    path: str
    chunks: tuple[Chunk, ...]
    move_to: str | None = None


Hunk: TypeAlias = AddFile | DeleteFile | UpdateFile
"""What is to happen to one file."""


class Patch(Struct, frozen=True):
    """A whole patch, in the order it was written."""

    hunks: tuple[Hunk, ...]
    environment: str | None = None
