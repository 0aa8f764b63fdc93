"""Trust: whose project files may settle things here, and which of their hooks may run.

Owns ``<home>/trusted.json``. Invariant: what is trusted is a file with the bytes the
user has seen, and a hook with its digest; once either changes, it has to be trusted again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec import Struct, field

from ..core.errors import ConfigError
from ..core.files import read_bounded
from .files import MOST_BYTES
from .private import read_private, write_private

__all__ = ["Trust"]


class _Trusted(Struct, kw_only=True):
    version: int = 1
    files: dict[str, str] = field(default_factory=dict)
    hooks: dict[str, dict[str, str]] = field(default_factory=dict)
    """By file and name: the digests of hooks."""


class Trust(Struct, frozen=True):
    """The files that one home trusts."""

    home: Path

    def holds(self, file: Path) -> bool:
        """Whether `file` is trusted as it is now."""
        known = read_private(self._path, _Trusted).files
        return known.get(str(file)) == _digest(_seen(file))

    def give(self, file: Path, seen: bytes | None = None) -> None:
        """Trust `file` as it was `seen`, or as it is now."""
        trusted = read_private(self._path, _Trusted)
        trusted.files[str(file)] = _digest(_seen(file) if seen is None else seen)
        write_private(self._path, trusted)

    def withdraw(self, file: Path) -> bool:
        """Trust `file` and its hooks no longer; whether it was."""
        trusted = read_private(self._path, _Trusted)
        was = trusted.files.pop(str(file), None) is not None
        was |= trusted.hooks.pop(str(file), None) is not None
        if was:
            write_private(self._path, trusted)
        return was

    def holds_hook(self, file: Path, name: str, digest: str) -> bool:
        """Whether the hook `name` of `file` is trusted as it is now."""
        known = read_private(self._path, _Trusted).hooks
        return known.get(str(file), {}).get(name) == digest

    def give_hook(self, file: Path, name: str, digest: str) -> None:
        """Trust the hook `name` of `file` as it is with this digest."""
        trusted = read_private(self._path, _Trusted)
        trusted.hooks.setdefault(str(file), {})[name] = digest
        write_private(self._path, trusted)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that was ever trusted."""
        return tuple(sorted(read_private(self._path, _Trusted).files))

    @property
    def _path(self) -> Path:
        return self.home / "trusted.json"


def _seen(file: Path) -> bytes:
    try:
        return read_bounded(file, MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"cannot read {str(file)!r}: {error.strerror}; check it") from error


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
