"""Versions of Codex, and which of them Treadle supports.

Owns the supported range, the lookup of a version and the choice between several binaries.
Invariants: a version outside the range is reported in one line that says what to do, and
hides no other binary that is inside; no version is guessed.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ...prompt.codex_import import find_codexes
from .errors import CodexError, CodexMissing, UnsupportedCodex

__all__ = [
    "SUPPORTED_VERSIONS",
    "Version",
    "VersionRange",
    "check_codex",
    "choose_codex",
    "probe_version",
    "supported_versions",
    "version_problem",
]

_NUMBERS = re.compile(r"(?:^|[\s/v])(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]{1,32}))?")


class Version(Struct, frozen=True, order=True):
    """A version of Codex."""

    major: int
    minor: int
    patch: int
    suffix: str = ""
    """What follows a hyphen, such as ``alpha.3``."""

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """Return the first version in `text`: the output of `--version`, or a user agent.

        >>> str(Version.parse("codex-cli 0.163.0")), str(Version.parse("treadle/0.166.0-alpha.2 ("))
        ('0.163.0', '0.166.0-alpha.2')
        """
        found = _NUMBERS.search(text)
        if found is None:
            return None
        major, minor, patch, suffix = found.groups()
        return cls(int(major), int(minor), int(patch), suffix or "")

    def __str__(self) -> str:
        numbers = f"{self.major}.{self.minor}.{self.patch}"
        return f"{numbers}-{self.suffix}" if self.suffix else numbers


class VersionRange(Struct, frozen=True):
    """The versions from `first` up to, but not including, `end`."""

    first: Version
    end: Version

    def __contains__(self, version: Version) -> bool:
        return self.first <= version < self.end

    def with_newer(self) -> VersionRange:
        """Return the range without an upper end."""
        return VersionRange(self.first, Version(sys.maxsize, 0, 0))

    def __str__(self) -> str:
        return f"{self.first} to before {self.end}"


SUPPORTED_VERSIONS = VersionRange(Version(0, 160, 0), Version(0, 180, 0))
"""The messages that Treadle uses are the same in 0.160, 0.163 and 0.166. If a later version
lacks a method, its first use shows that."""


def version_problem(
    version: Version | None, supported: VersionRange = SUPPORTED_VERSIONS
) -> str | None:
    """Return why Treadle does not support `version` and what to do; None if it does."""
    if version is None:
        return f"this Codex does not report its version; install one of {supported}"
    if version in supported:
        return None
    if version < supported.first:
        return f"Codex {version} is older than Treadle supports ({supported}); update Codex"
    return (
        f"Codex {version} is newer than Treadle supports ({supported}); "
        "update Treadle, install an older Codex, or set `codex.allow_newer`"
    )


def supported_versions(*, allow_newer: bool) -> VersionRange:
    """Return the versions that run; newer ones than Treadle knows only if the user says so."""
    return SUPPORTED_VERSIONS.with_newer() if allow_newer else SUPPORTED_VERSIONS


async def choose_codex(search: str | None, *, allow_newer: bool = False) -> Path:
    """Return the first Codex of a supported version; if there is none, the first of all.

    Raises `ConfigError` if there is no Codex.
    """
    found = await asyncio.to_thread(find_codexes, search)
    for binary in found if len(found) > 1 else ():
        with suppress(CodexError):
            await check_codex(binary, allow_newer=allow_newer)
            return binary
    return found[0]


async def check_codex(binary: Path, *, allow_newer: bool = False) -> None:
    """Refuse a binary that does not run or is of another version. Raises `CodexError`."""
    version = await probe_version(binary)
    supported = supported_versions(allow_newer=allow_newer)
    if (problem := version_problem(version, supported)) is not None:
        raise UnsupportedCodex(f"{problem} ({str(binary)!r})", str(version or ""))


async def probe_version(binary: Path, *, seconds: float = 10.0) -> Version | None:
    """Run `binary --version` and return the version, or None if the output has none.

    Raises `CodexMissing` if the binary cannot be run or does not end in time.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            str(binary),
            "--version",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise CodexMissing.because(binary, error) from error
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        raise CodexMissing(
            f"`{binary} --version` did not end within {seconds:g} s; name another binary"
        ) from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Version.parse(output.decode(errors="replace"))
