"""Versions of Codex, and which of them Treadle supports.

Owns the supported range and the lookup of a version. Invariant: a version outside
the range is reported in one line that says what to do; no version is guessed.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from .errors import CodexMissing

__all__ = ["SUPPORTED_VERSIONS", "Version", "VersionRange", "probe_version", "version_problem"]

_NUMBERS = re.compile(r"(?:^|[\s/v])(\d+)\.(\d+)\.(\d+)")


class Version(Struct, frozen=True, order=True):
    """A version of Codex, without the part after a hyphen."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Version | None:
        """Return the first version in `text`: the output of `--version`, or a user agent.

        >>> Version.parse("codex-cli 0.163.0"), Version.parse("treadle/0.166.0 (Linux)")
        (Version(major=0, minor=163, patch=0), Version(major=0, minor=166, patch=0))
        """
        found = _NUMBERS.search(text)
        return None if found is None else cls(*map(int, found.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class VersionRange(Struct, frozen=True):
    """The versions from `first` up to, but not including, `end`."""

    first: Version
    end: Version

    def __contains__(self, version: Version) -> bool:
        return self.first <= version < self.end

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
        "update Treadle, or install an older Codex"
    )


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
