"""Scans: the disk compared with what was known of it, and copies of what changed.

Owns what becomes a version. Invariants: a file whose time, inode and size are those of its
version is not opened, unless it was read so soon after its change that the clock could not
tell; what appears only because a scan looks at more than the one before is never taken for
new; what was changed after `since` counts as unknown where nobody has a copy from before.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from .contents import ContentReader
from .disk_scan import Found, Walk, find_entry, is_passed_over, walk
from .file_history import ENDLESS, FileHistory, FileVersion, Root

__all__ = ["LARGEST_COPY", "MOST_COPIED", "Scan", "describe_present", "scan_paths", "scan_root"]

LARGEST_COPY = 8 << 20
"""Bytes of a file that is copied."""
MOST_COPIED = 256 << 20
"""Bytes that one scan copies; small files come first."""

_TICK = 50_000_000
"""Nanoseconds in which the clock of a file system may stand still."""
_SECOND = 1_000_000_000
_COMMIT_BYTES = 32 << 20


class Scan(Struct, frozen=True):
    """What a scan has found out."""

    root: int
    number: int
    """The newest scan that saw a change: this one, or an earlier one where nothing changed."""
    whole: bool = True
    passed: tuple[bytes, ...] = ()
    """The first paths that it did not look at."""


def scan_root(
    history: FileHistory, place: Path, skipped: Collection[bytes], *, since: int | None = None
) -> Scan:
    """Look at all of a directory. Raises `OSError` where it cannot be opened.

    With `since`, in nanoseconds, what changed later is left to the next scan.
    """
    seen = walk(place, skipped)
    root = history.add_root(place)
    if not seen.whole:
        root.rules = None
        history.save_root(root, _now())
        return Scan(root.number, root.scan, whole=False, passed=tuple(seen.ignored))
    if since is not None and _is_ahead(seen):
        since = None  # the clock of that disk cannot say what came later
    work = _Work(history, root, history.live_versions(root.number), since=since)
    work.appears_unknown = root.complete is not None and root.rules != seen.rules
    for path, known in work.live.items():
        if path not in seen.entries and known.exists:
            # It is gone, or rules pass it over that were not there when it was first seen.
            work.compare(path, find_entry(place, path))
    for path, found in seen.entries.items():
        work.compare(path, found)
    return work.finish(seen)


def _is_ahead(seen: Walk) -> bool:
    """Whether the disk has another clock than this machine, as disks of others may have."""
    newest = max((found.ctime for found in seen.entries.values()), default=0)
    return newest > time.time_ns() + _SECOND


def scan_paths(
    history: FileHistory, place: Path, paths: Iterable[bytes], skipped: Collection[bytes]
) -> Scan:
    """Look at some paths of a directory and at the directories on the way, whatever rules say."""
    root = history.add_root(place)
    wanted = {each for path in paths for each in _on_the_way(path)}
    found = {path: history.live_version(root.number, path) for path in wanted}
    work = _Work(history, root, {path: each for path, each in found.items() if each is not None})
    for path in wanted:
        if root.complete and path not in work.live and is_passed_over(place, path, skipped):
            work.was_there.add(path)
        work.compare(path, find_entry(place, path))
    return work.finish(None)


def _on_the_way(path: bytes) -> Iterator[bytes]:
    while path:
        yield path
        path = path.rpartition(b"/")[0]


class _Work:
    """One scan while it runs."""

    def __init__(
        self,
        history: FileHistory,
        root: Root,
        live: dict[bytes, FileVersion],
        *,
        since: int | None = None,
    ) -> None:
        self.history, self.root, self.live, self.since = history, root, live, since
        self.appears_unknown = False
        self.was_there: set[bytes] = set()
        """What no scan looked at before; it did not appear with this one."""
        self._changed: dict[bytes, FileVersion] = {}
        self._to_read: dict[bytes, Found] = {}

    def compare(self, path: bytes, found: Found | None) -> None:
        """Note what became of a path."""
        known = self.live.get(path)
        if found is None:
            if known is None:
                if self.root.complete is None:
                    self._changed[path] = FileVersion(path, 0, 0, "-")
            elif known.kind != "-":
                self._changed[path] = FileVersion(path, 0, 0, "-")
            return
        if known is not None and _is_unchanged(known, found):
            return
        if self.since is not None and found.ctime > self.since:
            if known is None and self.root.complete is None:
                self._changed[path] = FileVersion(path, 0, 0, "?")
            return
        if found.kind == "d":
            self._changed[path] = _version(path, found)
        else:
            self._to_read[path] = found

    def finish(self, seen: Walk | None) -> Scan:
        """Copy what changed and write it all down."""
        self._read_contents()
        with self.history.transaction():
            scan = self.root.scan + 1
            written = [
                path for path, version in self._changed.items() if self._write(path, version, scan)
            ]
            if written or (seen is not None and self.root.complete is None):
                self.root.scan = scan
            if seen is not None:
                self.root.complete = self.root.complete or self.root.scan
                self.root.rules = seen.rules
            if written or seen is not None:
                self.history.save_root(self.root, _now())
        passed = tuple(seen.ignored) if seen is not None else ()
        return Scan(self.root.number, self.root.scan, passed=passed)

    def _write(self, path: bytes, version: FileVersion, scan: int) -> bool:
        """Write one version; return whether it differs from what was known."""
        known = self.live.get(path)
        if known is not None and known.is_same(version):
            # The same content at another time: the newer time saves the next reading.
            self.history.add_version(
                self.root.number, replace(version, first=known.first, last=ENDLESS)
            )
            return False
        if known is not None:
            self.history.end_version(self.root.number, known, scan)
        elif self.appears_unknown and version.exists:
            unknown = FileVersion(path, scan - 1, scan, "?")
            self.history.add_version(self.root.number, unknown)
        if version.kind != "-" or self.root.complete is None:
            first = self.root.complete if path in self.was_there else None
            self.history.add_version(
                self.root.number, replace(version, first=first or scan, last=ENDLESS)
            )
        return True

    def _read_contents(self) -> None:
        """Copy the contents of what changed, as much of it as is allowed."""
        waiting = sorted(self._chosen())
        if not waiting:
            return
        with ContentReader(self.root.path, LARGEST_COPY) as reader:
            while waiting:
                batch, waiting = _first_batch(waiting)
                with self.history.transaction():
                    for path, found in batch:
                        self._changed[path] = self._read(reader, path, found)

    def _chosen(self) -> Iterator[tuple[bytes, Found]]:
        """Yield what is copied; the small ones have the first claim."""
        copied = 0
        for path, found in sorted(self._to_read.items(), key=lambda each: each[1].size):
            if found.size <= LARGEST_COPY and copied + found.size <= MOST_COPIED:
                copied += found.size
                yield path, found
            else:
                self._changed[path] = _version(path, found)

    def _read(self, reader: ContentReader, path: bytes, found: Found) -> FileVersion:
        try:
            if found.kind == "l":
                data = reader.read_link(path)
            else:
                data, found = reader.read(path)
        except OSError:
            return _version(path, found)
        if found.size > LARGEST_COPY:
            return _version(path, found)
        return _version(path, found, self.history.put(data), time.time_ns())


def describe_present(root: Path, path: bytes, known: FileVersion) -> FileVersion:
    """Return what is at a path now; read it unless it surely is what is `known`.

    Raises `OSError`.
    """
    found = find_entry(root, path)
    if found is None:
        return FileVersion(path, 0, 0, "-")
    if _is_unchanged(known, found):
        return known
    if found.kind == "d" or found.size > LARGEST_COPY:
        return _version(path, found)
    with ContentReader(root, LARGEST_COPY) as reader:
        data = reader.read_link(path) if found.kind == "l" else reader.read(path)[0]
    return _version(path, found, hashlib.sha256(data).digest())


def _first_batch(
    waiting: list[tuple[bytes, Found]],
) -> tuple[list[tuple[bytes, Found]], list[tuple[bytes, Found]]]:
    """Part what one transaction copies from the rest."""
    total = count = 0
    for _, found in waiting:
        total += min(found.size, LARGEST_COPY)
        if count and total > _COMMIT_BYTES:
            break
        count += 1
    return waiting[:count], waiting[count:]


def _is_unchanged(known: FileVersion, found: Found) -> bool:
    """Whether a path surely is what it was."""
    if known.kind != found.kind or known.mode != found.mode:
        return False
    if found.kind == "d":
        return True
    same = (known.size, known.mtime, known.ctime, known.inode) == (
        *(found.size, found.mtime, found.ctime, found.inode),
    )
    # A file that was read within a tick of its change may have changed again in that tick.
    return same and (known.digest is None or found.kind == "l" or known.seen > found.ctime + _TICK)


def _version(path: bytes, found: Found, digest: bytes | None = None, seen: int = 0) -> FileVersion:
    about = (found.kind, found.mode, found.size, found.mtime, found.ctime, found.inode)
    return FileVersion(path, 0, 0, *about, seen, digest)


def _now() -> int:
    return time.time_ns() // 1_000_000
