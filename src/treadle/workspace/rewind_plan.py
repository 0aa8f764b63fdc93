"""What a rewind does to files: worked out before anything is touched.

Owns the decision for each path. Invariants: a path that only others changed is left alone; one
that others changed, too, or whose present content is in no copy, is marked and needs a yes of
its own; what cannot be restored is named with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from .disk_changes import LARGEST_COPY
from .file_history import FileHistory, FileVersion, Root
from .windows import Window, overlapping_threads

__all__ = ["FileAction", "FileChange", "FilePlan", "plan_files", "shown_path"]

FileAction: TypeAlias = Literal["restore", "create", "remove", "leave"]
"""Give back an earlier content, make again what was removed, remove what was made; or nothing."""


class FileChange(Struct, frozen=True, kw_only=True):
    """One path, and what a rewind does to it."""

    path: str
    """From the root; bytes that are no UTF-8 are replaced."""
    root: str
    action: FileAction
    kind: Literal["file", "link", "directory"] = "file"
    reason: str = ""
    """Why it is left, or why it needs a yes of its own."""
    risky: bool = False
    """Whether somebody else's work, or a content that nobody has a copy of, would be lost."""
    now: FileVersion
    then: FileVersion


class FilePlan(Struct, frozen=True, kw_only=True):
    """What a rewind does to the files of a thread."""

    changes: tuple[FileChange, ...] = ()
    notes: tuple[str, ...] = ()
    """What was not looked at, in a sentence each."""

    @property
    def actions(self) -> tuple[FileChange, ...]:
        """The changes that something is done about."""
        return tuple(each for each in self.changes if each.action != "leave")

    @property
    def risky(self) -> tuple[FileChange, ...]:
        """Those that need a yes of their own."""
        return tuple(each for each in self.actions if each.risky)


def plan_files(history: FileHistory, windows: Sequence[Window]) -> FilePlan:
    """Plan the way back to before `windows`, from what the newest scans saw."""
    changes: list[FileChange] = []
    notes: list[str] = []
    for number in dict.fromkeys(window.root for window in windows):
        own = [window for window in windows if window.root == number]
        root = history.root(number)
        planner = _Planner(history, root, own)
        changes += planner.changes()
        notes += planner.notes()
    return FilePlan(changes=tuple(changes), notes=tuple(notes))


class _Planner:
    """The plan of one directory."""

    def __init__(self, history: FileHistory, root: Root, windows: Sequence[Window]) -> None:
        self.history, self.root, self.windows = history, root, windows
        self.others = {each.number: overlapping_threads(history, each) for each in windows}

    def changes(self) -> list[FileChange]:
        """Return what is done to each path that changed in one of the windows."""
        paths: set[bytes] = set()
        for window in self.windows:
            upto = self.root.scan if window.after is None else window.after
            paths |= self.history.changed_paths(self.root.number, window.before, upto)
        planned = (self._plan(path) for path in sorted(paths))
        return [change for change in planned if change is not None]

    def notes(self) -> list[str]:
        """Return what these windows did not look at."""
        said = []
        if not all(window.whole for window in self.windows):
            said.append(
                f"{str(self.root.path)!r} has more files than are looked at; "
                "only what patches changed can be restored there"
            )
        passed = dict.fromkeys(path for window in self.windows for path in window.passed)
        if passed:
            names = ", ".join(shown_path(path) for path in list(passed)[:5])
            more = f" and {len(passed) - 5} more" if len(passed) > 5 else ""
            said.append(f"ignored, so neither copied nor restored: {names}{more}")
        return said

    def _plan(self, path: bytes) -> FileChange | None:
        versions = self.history.versions_of(self.root.number, path)
        moments = _moments(versions, self.root.complete)
        ours = [at for at in moments if self._window_of(at) is not None]
        if not ours:
            return None
        window = self._window_of(ours[0])
        assert window is not None
        then, now = _state(versions, path, window.before), _state(versions, path, self.root.scan)
        left = _state(versions, path, ours[-1])
        if now.is_same(then) or left.is_same(then):
            return None
        others = [at for at in moments if at > window.before and self._window_of(at) is None]
        return self._change(path, now, then, self._doubt(ours, bool(others), now))

    def _change(self, path: bytes, now: FileVersion, then: FileVersion, doubt: str) -> FileChange:
        kind = then.kind if then.exists else now.kind
        action: FileAction = "restore" if then.exists and now.exists else "create"
        action = action if then.exists else "remove"
        reason, risky = doubt, bool(doubt)
        if not then.is_known:
            action, reason, risky = "leave", _no_copy(then), False
        return FileChange(
            path=shown_path(path),
            root=str(self.root.path),
            action=action,
            kind="directory" if kind == "d" else "link" if kind == "l" else "file",
            reason=reason,
            risky=risky,
            now=now,
            then=then,
        )

    def _doubt(self, ours: Sequence[int], others: bool, now: FileVersion) -> str:
        """Return why a path needs a yes of its own."""
        if others:
            return "changed by somebody else, too"
        windows = [window for at in ours if (window := self._window_of(at)) is not None]
        if any(window.kind == "cut" or window.after is None for window in windows):
            return "its turn never ended, so somebody else may have changed it"
        threads = sorted({thread for window in windows for thread in self.others[window.number]})
        if threads:
            return f"changed while {', '.join(threads)} worked here, too"
        if now.exists and not now.is_known:
            return "there is no copy of what it contains now"
        return ""

    def _window_of(self, scan: int) -> Window | None:
        """Return the window in which a scan saw a change; the narrowest says most."""
        found = [window for window in self.windows if window.contains(scan)]
        return max(found, key=lambda window: window.before, default=None)


def _moments(versions: Sequence[FileVersion], complete: int | None) -> list[int]:
    """Return the scans that saw a path change; that it is first looked at is no change."""
    moments: set[int] = set()
    for at, version in enumerate(versions):
        followed = at > 0 and versions[at - 1].last == version.first
        if followed or (complete is not None and version.first > complete):
            moments.add(version.first)
        next_one = versions[at + 1] if at + 1 < len(versions) else None
        if version.last <= _NEWEST and (next_one is None or next_one.first != version.last):
            moments.add(version.last)
    return sorted(moments)


_NEWEST = 1 << 61


def _state(versions: Sequence[FileVersion], path: bytes, scan: int) -> FileVersion:
    """Return what was at a path after `scan`."""
    for version in versions:
        if version.first <= scan < version.last:
            return version
    return FileVersion(path, scan, scan, "-")


def _no_copy(version: FileVersion) -> str:
    if version.kind == "?":
        return "nobody looked at it before it changed"
    large = version.size > LARGEST_COPY
    return "it was too large to copy" if large else "it could not be copied"


def shown_path(path: bytes) -> str:
    """Return a path as text; bytes that are no UTF-8 are replaced."""
    return path.decode(errors="replace") or os.curdir
