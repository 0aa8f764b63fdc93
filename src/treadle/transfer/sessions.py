"""Sessions: the conversations that a file of another agent holds.

Owns the seam between a format and the import: a format surveys a file once, and later
reads single records. Invariant: a spot always becomes at least one entry under its key,
so that keys alone tell what a log has.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from ..core.patterns import regex
from ..core.provenance import plain_text
from ..prompt.registry import Registry
from .lines import Line
from .pieces import Piece
from .tally import Tally

__all__ = ["Session", "SessionFormat", "Spot", "clean_id", "clean_line", "existing", "line_key"]

_PLAIN_ID = regex(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
_TITLE = 200


class Spot(Struct, frozen=True):
    """Where a record stands, and what was in force there."""

    key: str
    offset: int
    size: int
    provider: str = ""
    model: str = ""
    alone: bool = False
    """Whether nothing of the conversation comes before it."""


class Session(Struct, kw_only=True):
    """One conversation of a file."""

    key: str
    """Its identity: the format and the session's own id."""
    title: str = ""
    cwd: str = ""
    spots: list[Spot]


class SessionFormat(Protocol):
    """Reads the files of one agent."""

    name: str
    agent: str
    """What people call it."""

    def survey(self, path: Path, tally: Tally) -> list[Session]:
        """The conversations of a file, and what of it is not part of one."""
        ...

    def pieces(self, data: bytes, spot: Spot, registry: Registry) -> list[Piece]:
        """What a record becomes; nothing means that it is kept verbatim."""
        ...

    def time(self, data: bytes) -> int | None:
        """When a record was made."""
        ...


def line_key(session: str, line: Line) -> str:
    """The key of a record without an id: its place and its bytes."""
    digest = hashlib.blake2b(line.data, digest_size=6).hexdigest()
    return f"{session}:{line.offset}-{digest}"


def clean_id(value: object) -> str | None:
    """An id that can be a key; None for what is none."""
    return value if isinstance(value, str) and _PLAIN_ID.fullmatch(value) else None


def clean_line(value: object) -> str:
    """A title on one line."""
    return (
        " ".join(plain_text(value[: 4 * _TITLE]).split())[:_TITLE] if isinstance(value, str) else ""
    )


def existing(value: object) -> str:
    """A directory that is there; a session of another machine works in none."""
    if not isinstance(value, str) or "\0" in value:
        return ""
    place = Path(value)
    try:
        return value if place.is_absolute() and place.is_dir() else ""
    except OSError:
        return ""
