"""One look at a directory: what is in it, without opening a file.

Owns the walk and its bounds. Invariants: no link is followed, also not one that is swapped in
meanwhile; nothing below a path that commands may not write is looked at; a walk that was not
whole says so, and why.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct, field

from ..sandbox.boundary import Boundary
from ..sandbox.pinned import pin_path
from ..sandbox.policy import PROTECTED_NAMES
from .ignore import IGNORED_NAMES, IgnoreFile, is_ignored, parse_ignore_file

__all__ = [
    "MOST_ENTRIES",
    "OWN_PREFIX",
    "Found",
    "Walk",
    "find_entry",
    "is_passed_over",
    "skipped_paths",
    "walk",
]

MOST_ENTRIES = 50_000
"""Files, links and directories that a walk looks at."""
OWN_PREFIX = b".treadle-"
"""How files begin that patches and rewinds write beside others for a moment."""

_DEEPEST = 64
_MOST_TOLD = 100
_LONGEST_IGNORE_FILE = 256 << 10
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Found(Struct, frozen=True, gc=False):
    """A file (`f`), link (`l`) or directory (`d`), as the disk describes it."""

    kind: str
    mode: int
    size: int
    mtime: int
    ctime: int
    inode: int


class Walk(Struct):
    """What a walk has found, by path from the root."""

    entries: dict[bytes, Found] = field(default_factory=dict)
    ignored: list[bytes] = field(default_factory=list)
    """The first directories and files that were passed over."""
    whole: bool = True
    """False when there is more than a walk looks at."""
    _rules: list[bytes] = field(default_factory=list)

    @property
    def rules(self) -> bytes:
        """What decided which paths were looked at; equal for walks that looked at the same."""
        return hashlib.sha256(b"\0".join(sorted(self._rules))).digest()

    def pass_over(self, path: bytes) -> None:
        """Note what was not looked at."""
        if len(self.ignored) < _MOST_TOLD:
            self.ignored.append(path)

    def note_rule(self, *parts: bytes) -> None:
        """Note what decides which paths are looked at."""
        self._rules.append(b"\1".join(parts))


def skipped_paths(root: Path, boundary: Boundary) -> frozenset[bytes]:
    """Return what lies in `root` and commands may not write, as paths from it."""
    below = os.fsencode(root) + b"/"
    closed = (os.fsencode(rule.path) for rule in boundary.rules if rule.access != "write")
    inside = {path.removeprefix(below) for path in closed if path.startswith(below)}
    return frozenset({*inside, *map(os.fsencode, PROTECTED_NAMES)})


def walk(root: Path, skipped: Collection[bytes]) -> Walk:
    """Look at everything in `root`. Raises `OSError` where it cannot be opened."""
    found = Walk()
    for path in skipped:
        found.note_rule(b"skipped", path)
    with pin_path(root) as at:
        descriptor = os.open(at.name or ".", _DIRECTORY, dir_fd=at.parent)
    _Walker(found, skipped).enter(descriptor, b"", ())
    return found


class _Walker(Struct):
    found: Walk
    skipped: Collection[bytes]

    def enter(self, directory: int, base: bytes, rules: tuple[IgnoreFile, ...]) -> None:
        """Look at one directory and those in it; closes its descriptor."""
        try:
            rules = (*rules, *self.read_rules(directory, base))
            with os.scandir(directory) as entries:
                deeper = list(self._look(entries, base, rules))
            for name in deeper:
                if not self.found.whole:
                    return
                inner = self._open(directory, name, base + name)
                if inner is not None:
                    self.enter(inner, base + name + b"/", rules)
        finally:
            os.close(directory)

    def _look(
        self, entries: Iterator[os.DirEntry[str]], base: bytes, rules: tuple[IgnoreFile, ...]
    ) -> Iterator[bytes]:
        """Note the entries of a directory; yield those to enter."""
        for entry in entries:
            name = os.fsencode(entry.name)
            path = base + name
            if name.startswith(OWN_PREFIX) or path in self.skipped:
                continue
            found = _found_entry(entry)
            if found is None:
                continue
            is_directory = found.kind == "d"
            if (is_directory and name in IGNORED_NAMES) or is_ignored(
                path + b"/" if is_directory else path, rules
            ):
                self.found.pass_over(path + b"/" if is_directory else path)
                continue
            if len(self.found.entries) >= MOST_ENTRIES:
                self.found.whole = False
                return
            self.found.entries[path] = found
            if is_directory:
                yield name

    def _open(self, parent: int, name: bytes, path: bytes) -> int | None:
        if path.count(b"/") < _DEEPEST:
            try:
                return os.open(name, _DIRECTORY, dir_fd=parent)
            except OSError:
                pass
        self.found.note_rule(b"closed", path)
        self.found.pass_over(path + b"/")
        return None

    def read_rules(self, directory: int, base: bytes) -> Iterator[IgnoreFile]:
        """Yield the rules of the files in a directory."""
        names = (b".gitignore",) if base else (b".git/info/exclude", b".gitignore")
        for name in names:
            data = _read_small(directory, name)
            if data:
                self.found.note_rule(b"rules", base, name, data)
                yield parse_ignore_file(base, data)


def _found_entry(entry: os.DirEntry[str]) -> Found | None:
    try:
        return _describe(entry.stat(follow_symlinks=False))
    except OSError:
        return None


def find_entry(root: Path, path: bytes) -> Found | None:
    """Look at one path; None where nothing is, or only what nobody keeps, such as a pipe."""
    try:
        with pin_path(root / os.fsdecode(path)) as at:
            return _describe(os.stat(at.name, dir_fd=at.parent, follow_symlinks=False))
    except OSError:
        return None


def is_passed_over(root: Path, path: bytes, skipped: Collection[bytes]) -> bool:
    """Return whether a walk does not look at `path`."""
    rules: tuple[IgnoreFile, ...] = ()
    names = path.split(b"/")
    walker = _Walker(Walk(), skipped)
    for depth, name in enumerate(names):
        base = b"".join(each + b"/" for each in names[:depth])
        try:
            with pin_path(root / os.fsdecode(base) / "x") as at:
                directory = os.open(".", _DIRECTORY, dir_fd=at.parent)
        except OSError:
            return False
        try:
            rules = (*rules, *walker.read_rules(directory, base))
        finally:
            os.close(directory)
        inner = depth < len(names) - 1
        if base + name in skipped or (inner and name in IGNORED_NAMES):
            return True
        if is_ignored(base + name + b"/" if inner else base + name, rules):
            return True
    return False


def _describe(found: os.stat_result) -> Found | None:
    mode = found.st_mode
    kind = "f" if stat.S_ISREG(mode) else "d" if stat.S_ISDIR(mode) else ""
    kind = kind or ("l" if stat.S_ISLNK(mode) else "")
    if not kind:
        return None
    # What a directory or a link says of itself besides changes with what is in it.
    size = found.st_size if kind == "f" else 0
    times = (0, 0) if kind == "d" else (found.st_mtime_ns, found.st_ctime_ns)
    permissions = 0 if kind == "l" else stat.S_IMODE(mode)
    return Found(kind, permissions, size, *times, 0 if kind == "d" else found.st_ino)


def _read_small(directory: int, name: bytes) -> bytes:
    try:
        descriptor = os.open(name, _FILE, dir_fd=directory)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        return file.read(_LONGEST_IGNORE_FILE)
