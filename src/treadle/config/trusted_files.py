"""Trusted files: which project files may configure Treadle, and what of a project may be used.

Owns ``<home>/trusted.json``. Invariant: the user trusts a file with the bytes that they
have seen, and a hook or a skill with its digest; once one changes, it has to be trusted again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field

from ..core.errors import ConfigError
from ..core.files import read_bounded, read_private_json, write_private_json
from .config_file import MOST_BYTES

__all__ = ["TrustStore"]


class _Trusted(Struct, kw_only=True):
    version: int = 1
    files: dict[str, str] = field(default_factory=dict)
    hooks: dict[str, dict[str, str]] = field(default_factory=dict)
    """The digests of hooks, by file and name."""
    skills: dict[str, str] = field(default_factory=dict)
    """The digests of skills, by directory."""


class TrustStore(Struct, frozen=True):
    """The files that one home trusts."""

    home: Path

    def is_trusted(self, file: Path, body: bytes | None = None) -> bool:
        """Return whether `file` is trusted with these bytes, or with those it has now."""
        known = read_private_json(self._path, _Trusted).files
        return known.get(str(file)) == _digest(_read(file) if body is None else body)

    def trust(self, file: Path, body: bytes | None = None) -> None:
        """Trust `file` with these bytes, or with those it has now."""
        trusted = read_private_json(self._path, _Trusted)
        trusted.files[str(file)] = _digest(_read(file) if body is None else body)
        write_private_json(self._path, trusted)

    def distrust(self, file: Path) -> bool:
        """Trust `file` and its hooks no longer; return whether they were trusted."""
        trusted = read_private_json(self._path, _Trusted)
        was_trusted = trusted.files.pop(str(file), None) is not None
        was_trusted |= trusted.hooks.pop(str(file), None) is not None
        if was_trusted:
            write_private_json(self._path, trusted)
        return was_trusted

    def is_hook_trusted(self, file: Path, name: str, digest: str) -> bool:
        """Return whether the hook `name` of `file` is trusted as it is now."""
        known = read_private_json(self._path, _Trusted).hooks
        return known.get(str(file), {}).get(name) == digest

    def trust_hook(self, file: Path, name: str, digest: str) -> None:
        """Trust the hook `name` of `file` with this digest."""
        trusted = read_private_json(self._path, _Trusted)
        trusted.hooks.setdefault(str(file), {})[name] = digest
        write_private_json(self._path, trusted)

    @property
    def skills(self) -> dict[str, str]:
        """The digests that skills are trusted with, by directory."""
        return dict(read_private_json(self._path, _Trusted).skills)

    def trust_skills(self, digests: Mapping[str, str]) -> None:
        """Trust skills, by directory, with these digests."""
        trusted = read_private_json(self._path, _Trusted)
        trusted.skills.update(digests)
        write_private_json(self._path, trusted)

    def distrust_skills(self, directories: Iterable[str]) -> None:
        """Trust the skills in these directories no longer."""
        trusted = read_private_json(self._path, _Trusted)
        for directory in directories:
            trusted.skills.pop(directory, None)
        write_private_json(self._path, trusted)

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that was ever trusted."""
        return tuple(sorted(read_private_json(self._path, _Trusted).files))

    @property
    def _path(self) -> Path:
        return self.home / "trusted.json"


def _read(file: Path) -> bytes:
    try:
        return read_bounded(file, MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"cannot read {str(file)!r}: {error.strerror}; check it") from error


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
