"""Skill folders: all files of a skill as one digest.

Owns what the user trusts when they trust a skill of a project: the names and the bytes of its
files. Invariants: a folder with a link that leads out of it, or with more than can be looked
at, has a problem and no digest; what programs leave behind while they run does not count.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct

from ..core.files import read_bounded
from ..prompt.machine import printable
from .file_cache import FileCache

__all__ = ["FolderDigest", "digest_folder"]

_MOST_FILES = 500
_MOST_BYTES = 16 << 20
_MOST_DEPTH = 8
_LEFT_BEHIND = frozenset((".git", "__pycache__", ".DS_Store", ".pytest_cache"))


class FolderDigest(Struct, frozen=True):
    """What identifies a folder, or why nothing does."""

    digest: str = ""
    problem: str = ""


class _Unusable(Exception):
    """Why a folder has no digest."""


def digest_folder(directory: Path, cache: FileCache) -> FolderDigest:
    """Return what identifies all files of a skill as they are now. Blocks on files."""
    try:
        return FolderDigest(_digest_files(directory, cache))
    except _Unusable as error:
        return FolderDigest(problem=str(error))
    except OSError as error:
        name = printable(Path(error.filename or directory))
        return FolderDigest(problem=f"cannot be read whole: {name!r} {error.strerror}")


def _digest_files(directory: Path, cache: FileCache) -> str:
    seen = hashlib.sha256()
    total = 0
    for name, path, mode in sorted(_files(directory, "", 0)):
        digest, size = cache.read(path, partial(_digest, path), "bytes")
        total += size
        if total > _MOST_BYTES:
            raise _Unusable(f"has more than {_MOST_BYTES >> 20} MiB, which nobody reads")
        runs = "x" if mode & stat.S_IXUSR else "-"
        written = os.fsencode(name)
        seen.update(f"{runs} {len(written)} ".encode() + written + b"\n" + digest)
    return f"sha256:{seen.hexdigest()}"


def _files(directory: Path, prefix: str, depth: int) -> Iterator[tuple[str, Path, int]]:
    if depth > _MOST_DEPTH:
        raise _Unusable(f"is deeper than {_MOST_DEPTH} directories")
    count = 0
    with os.scandir(directory) as listing:
        for entry in listing:
            if entry.name in _LEFT_BEHIND:
                continue
            name = f"{prefix}{entry.name}"
            if entry.is_symlink():
                raise _Unusable(f"has a link, {printable(Path(name))!r}; put the file itself there")
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                found = list(_files(Path(entry.path), f"{name}/", depth + 1))
            else:
                found = [(name, Path(entry.path), mode)]
            count += len(found)
            if count > _MOST_FILES:
                raise _Unusable(f"has more than {_MOST_FILES} files, which nobody reads")
            yield from found


def _digest(path: Path) -> tuple[bytes, int]:
    data = read_bounded(path, _MOST_BYTES)
    return hashlib.sha256(data).digest(), len(data)
