"""Session formats: files that hold whole conversations of another agent.

Owns the protocol between a format and the import: a format scans a file once, and later
reads single records. Invariants: a position always becomes at least one entry under its
key, so that keys alone say what a log has; and the walk through a tree of records ends,
also where parents form a ring or are missing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from ..core.provenance import plain_text
from ..prompt.registry import Registry
from .import_drafts import PlacedDraft
from .import_report import ImportCounts
from .jsonl import JsonLine

__all__ = [
    "ImportedSession",
    "RecordPosition",
    "SessionFormat",
    "TreeNode",
    "clean_id",
    "clean_line",
    "existing_directory",
    "line_key",
    "path_to",
]

_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
_TITLE = 200


class RecordPosition(Struct, frozen=True):
    """Where a record is in its file, and the provider and model of that part."""

    key: str
    offset: int
    size: int
    provider: str = ""
    model: str = ""
    is_first: bool = False
    """Whether no record of the conversation comes before it."""


class ImportedSession(Struct, kw_only=True):
    """One conversation of a file."""

    key: str
    """Its identity: the format and the session's own id."""
    title: str = ""
    cwd: str = ""
    positions: list[RecordPosition]


class SessionFormat(Protocol):
    """Reads the files of one agent."""

    name: str
    agent: str
    """The agent's name for people."""

    def scan(self, path: Path, counts: ImportCounts) -> list[ImportedSession]:
        """Return the conversations of a file; count what is not part of one."""
        ...

    def drafts(
        self, data: bytes, position: RecordPosition, registry: Registry
    ) -> list[PlacedDraft]:
        """Return the drafts of a record; an empty list means that it is stored verbatim."""
        ...

    def time(self, data: bytes) -> int | None:
        """Return the time of a record."""
        ...


class TreeNode(Struct):
    """A record of a file whose records form a tree."""

    id: str
    parent: str | None
    index: int
    """Its index in the file's order."""


def path_to(
    leaf: TreeNode, order: Sequence[TreeNode], by_id: Mapping[str, TreeNode]
) -> list[TreeNode]:
    """Return the records from the first one to `leaf`.

    The record before in the file replaces a parent that is missing.
    """
    path: list[TreeNode] = []
    seen: set[str] = set()
    at: TreeNode | None = leaf
    while at is not None and at.id not in seen:
        seen.add(at.id)
        path.append(at)
        if at.parent is None:
            break
        at = by_id.get(at.parent) or (order[at.index - 1] if at.index else None)
    return path[::-1]


def line_key(session: str, line: JsonLine) -> str:
    """Return the key of a record without an id: its offset and a digest of its bytes."""
    digest = hashlib.blake2b(line.data, digest_size=6).hexdigest()
    return f"{session}:{line.offset}-{digest}"


def clean_id(value: object) -> str | None:
    """Return an id that can be a key; None for anything else."""
    return value if isinstance(value, str) and _PLAIN_ID.fullmatch(value) else None


def clean_line(value: object) -> str:
    """Return a title on one line."""
    return (
        " ".join(plain_text(value[: 4 * _TITLE]).split())[:_TITLE] if isinstance(value, str) else ""
    )


def existing_directory(value: object) -> str:
    """Return a directory if it exists here; empty for one of another machine."""
    if not isinstance(value, str) or "\0" in value:
        return ""
    place = Path(value)
    try:
        return value if place.is_absolute() and place.is_dir() else ""
    except OSError:
        return ""
