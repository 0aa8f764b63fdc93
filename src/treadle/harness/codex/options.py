"""The options of the Codex harness: what a user can settle about it.

Owns their names, types and defaults; the table ``[codex]`` of a configuration says the
same. Invariant: every one of them can be left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["CodexOptions", "HomeOwner", "ProjectionMode"]

HomeOwner: TypeAlias = Literal["private", "user"]
ProjectionMode: TypeAlias = Literal["native", "text"]


class CodexOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How Codex is run."""

    binary: Path | None = None
    """None: the one on the search path, else the one of the extra ``codex``."""
    home: HomeOwner = "private"
    """Whose ``CODEX_HOME`` it works in: one below Treadle's home, or the user's own."""
    projection: ProjectionMode = "native"
    """Whether a view becomes Codex's own history, or text before the request."""
    request_timeout: float = 60.0
    """Seconds that the app-server has for an answer; turns take as long as they take."""
