"""Sources: the files that an import reads.

Owns how paths become files with a format. Invariant: a file that was named is read or
refused before anything is written; in a directory, what is no transcript is passed over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from ..core.errors import ConfigError
from .detect import Format, detect
from .report import Skipped

__all__ = ["Source", "find_sources"]

_ENDING = ".jsonl"


class Source(Struct, frozen=True):
    """A file, and who wrote it."""

    path: Path
    format: Format


def find_sources(
    paths: Sequence[Path], wanted: Format | None = None
) -> tuple[list[Source], list[Skipped]]:
    """The files to read, and those that hold nothing to import.

    Raises `ConfigError` for a file that was named and cannot be read.
    """
    sources: list[Source] = []
    skipped: list[Skipped] = []
    for path in paths:
        if path.is_dir():
            for file in _files(path):
                _add(file, wanted, sources, skipped)
        else:
            sources.append(_named(path, wanted))
    return list(dict.fromkeys(sources)), skipped


def _files(directory: Path) -> Iterator[Path]:
    """Transcripts below a directory in the order of their names; links are not followed."""
    for place, inner, names in os.walk(directory):
        inner.sort()
        for name in sorted(names):
            if name.endswith(_ENDING):
                yield Path(place, name)


def _add(file: Path, wanted: Format | None, sources: list[Source], skipped: list[Skipped]) -> None:
    try:
        if not stat.S_ISREG(file.lstat().st_mode):
            return
        found = wanted or detect(file)
    except OSError as error:
        skipped.append(Skipped(str(file), error.strerror or "cannot be read"))
        return
    if found is None:
        skipped.append(Skipped(str(file), "no format that is known"))
    else:
        sources.append(Source(file, found))


def _named(path: Path, wanted: Format | None) -> Source:
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
        found = (wanted or detect(path)) if regular else None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot read {str(path)!r}: {reason}; check the path") from error
    if not regular:
        raise ConfigError(f"{str(path)!r} is no regular file; name a JSONL file or a directory")
    if found is None:
        raise ConfigError(
            f"{str(path)!r} is in no format that is known; say which with --format, "
            "or convert it to plain JSONL"
        )
    return Source(path, found)
