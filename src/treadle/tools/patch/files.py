"""The seam between a patch and the files it changes.

Owns the `Files` Protocol, so that a patch can be applied here, in a sandbox or
on another machine. Invariant: a set of edits is written whole or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

__all__ = ["Edit", "Files", "digest"]


def digest(data: bytes) -> str:
    """What a content is recognised by."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Edit(Struct, frozen=True, kw_only=True):
    """One file as it shall be; `data` None removes it."""

    place: Path
    data: bytes | None
    before: str | None
    """Digest of what was there when the edit was planned; None for nothing."""
    like: Path | None = None
    """A file whose mode and owner a new file takes on."""


class Files(Protocol):
    """Where a patch is applied. Paths are absolute. Methods may block."""

    def locate(self, path: Path, *, follow: bool) -> Path:
        """The real place of `path`: no symbolic link and no ``..`` in it.

        With `follow` the last part is resolved too, also when it does not exist yet.
        Raises `OSError` for a loop of links, `ValueError` for what is no path.
        """
        ...

    def read(self, place: Path) -> bytes | None:
        """The content, None where nothing is. Raises `OSError`, also for a directory."""
        ...

    def replace(self, edits: Sequence[Edit]) -> None:
        """Make all edits, or none.

        Missing parent directories are made. Modes and owners stay. Raises `PatchStale`
        when a content is not the one an edit was planned for, `PatchFailed` when the
        system refuses; in both cases every file is as it was, and nothing is left over.
        """
        ...
