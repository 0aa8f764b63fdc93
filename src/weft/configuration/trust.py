"""Trust: whose project files may settle things here.

Owns ``<home>/trusted.json``. Invariant: what is trusted is a file with the bytes the
user has seen; once it changes, it has to be trusted again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct, field

from .private import read_private, write_private

__all__ = ["Trust"]


class _Trusted(Struct, kw_only=True):
    version: int = 1
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trust:
    """The files that one home trusts."""

    home: Path

    def holds(self, file: Path) -> bool:
        """Whether `file` is trusted as it is now."""
        known = read_private(self._path, _Trusted).files
        return known.get(str(file)) == _digest(file.read_bytes())

    def give(self, file: Path, seen: bytes | None = None) -> None:
        """Trust `file` as it was `seen`, or as it is now."""
        trusted = read_private(self._path, _Trusted)
        trusted.files[str(file)] = _digest(file.read_bytes() if seen is None else seen)
        write_private(self._path, trusted)

    def withdraw(self, file: Path) -> bool:
        """Trust `file` no longer; whether it was."""
        trusted = read_private(self._path, _Trusted)
        was = trusted.files.pop(str(file), None) is not None
        if was:
            write_private(self._path, trusted)
        return was

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that was ever trusted."""
        return tuple(sorted(read_private(self._path, _Trusted).files))

    @property
    def _path(self) -> Path:
        return self.home / "trusted.json"


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
