"""The options of the Codex harness.

Owns their names, types and defaults; the table ``[codex]`` of a configuration has the
same keys. Invariant: every option has a default.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

__all__ = ["HARNESS", "CodexOptions", "HomeOwner", "ProjectionMode"]

HARNESS = "codex"
"""The name of the harness; mirrored items have it as their origin."""

HomeOwner: TypeAlias = Literal["private", "user"]
ProjectionMode: TypeAlias = Literal["native", "text"]


class CodexOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How Codex is run."""

    binary: Path | None = None
    """None: the first of a supported version on the search path, then in the extra ``codex``."""
    home: HomeOwner = "private"
    """Which ``CODEX_HOME`` Codex uses: one below Treadle's home, or the user's own."""
    projection: ProjectionMode = "native"
    """Whether a view becomes the history of a Codex thread, or text before the request."""
    allow_newer: bool = False
    """Whether a version runs that is newer than Treadle knows; then the user is warned."""
    request_timeout: float = 60.0
    """Seconds that the app-server has to answer a request; turns have no limit."""
    unguarded: bool = False
    """Whether turns go on where hooks cannot guard Codex's own commands; the user is told."""
