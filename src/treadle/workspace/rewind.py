"""Rewinding files: a plan, the restore, and the way back.

Owns the order: finish what a kill left, scan, plan; then scan again, write down, restore, scan.
Invariants: everything that a restore replaces has a copy before, or was named as having none;
each restore is a window of its own, so that it can be undone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..sandbox.policy import SandboxPolicy
from ..tools.executor import Bounds
from .disk_changes import Scan, scan_root
from .file_history import FILE_NAME, FileHistory, open_history
from .restore import Restored, begin_restore, finish_restore, open_restores
from .rewind_plan import FileChange, FilePlan, plan_files
from .window_scans import find_places
from .windows import (
    Owner,
    Window,
    close_window,
    cut_windows,
    find_windows,
    open_window,
    restore_windows,
)

__all__ = ["FileRewinds", "PastRewind"]


class PastRewind(Struct, frozen=True):
    """A rewind that was made, as far as undoing it needs to know."""

    number: int
    rollback: int | None
    """The entry that hid the conversation."""
    turns: int
    """How many turns the thread had then."""


class FileRewinds:
    """The files of one thread, and how they go back. Its methods block.

    `policy` is the thread's own; `spans` say which windows are its past: a thread and its first
    and last entry that count.
    """

    def __init__(
        self,
        home: Path,
        thread: str,
        *,
        policy: SandboxPolicy | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._home, self._thread = home, thread
        self._policy = policy or SandboxPolicy(mode="workspace-write")
        self._environ = os.environ if environ is None else environ

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever kept in this home."""
        return not (self._home / FILE_NAME).exists()

    def plan(self, spans: Sequence[tuple[str, int, int]]) -> FilePlan:
        """Plan the way back to before the given entries. Raises `OSError`, `StoreError`."""
        if self.is_empty:
            return FilePlan()
        with open_history(self._home) as history:
            finished = self._finish_begun(history)
            return self._plan(history, find_windows(history, spans), finished)

    def plan_undo(self, past: PastRewind) -> FilePlan:
        """Plan the way back to before a rewind."""
        with open_history(self._home) as history:
            finished = self._finish_begun(history)
            return self._plan(history, restore_windows(history, past.number), finished)

    def restore(self, changes: Sequence[FileChange], seq: int) -> tuple[int, Restored]:
        """Do what was planned; return the number of the rewind, and what came of it.

        `seq` is the newest entry of the thread.
        """
        with open_history(self._home) as history:
            scans = [self._scan(history, Path(root)) for root in {each.root for each in changes}]
            number = begin_restore(history, self._thread, changes)
            for scan in scans:
                owner = Owner(self._thread, seq)
                open_window(history, scan, "restore", [owner], rewind=number)
            return number, self._finish(history, number)

    def note_conversation(self, number: int | None, rollback: int, turns: int) -> None:
        """Record which entry hid the conversation with a rewind, or in one of its own."""
        with open_history(self._home) as history, history.transaction():
            if number is None:
                history.connection.execute(
                    "INSERT INTO rewinds (thread, began, state, plan, rollback, turns) "
                    "VALUES (?, ?, 'done', x'5b5d', ?, ?)",
                    (self._thread, time.time_ns() // 1_000_000, rollback, turns),
                )
            else:
                history.connection.execute(
                    "UPDATE rewinds SET rollback = ?, turns = ? WHERE number = ?",
                    (rollback, turns, number),
                )

    def newest(self) -> PastRewind | None:
        """Return the newest rewind of the thread that was not undone."""
        if self.is_empty:
            return None
        with open_history(self._home) as history:
            row = history.connection.execute(
                "SELECT number, rollback, turns FROM rewinds "
                "WHERE thread = ? AND state <> 'undone' ORDER BY number DESC LIMIT 1",
                (self._thread,),
            ).fetchone()
        return None if row is None else PastRewind(*row)

    def mark_undone(self, *numbers: int) -> None:
        """Record that rewinds were undone, so that the next undo takes the one before."""
        with open_history(self._home) as history, history.transaction():
            history.connection.executemany(
                "UPDATE rewinds SET state = 'undone' WHERE number = ?", [(n,) for n in numbers]
            )

    def _plan(
        self, history: FileHistory, windows: Sequence[Window], finished: Sequence[str]
    ) -> FilePlan:
        notes = list(finished)
        ended: list[Window] = []
        for number in dict.fromkeys(window.root for window in windows):
            place = history.root(number).path
            try:
                scan = self._scan(history, place)
            except OSError as error:
                notes.append(f"{str(place)!r} cannot be looked at: {error.strerror or error}")
                continue
            cut_windows(history, self._thread, scan)
            ended += [_end_window(each, scan) for each in windows if each.root == number]
        plan = plan_files(history, ended)
        return replace(plan, notes=(*notes, *plan.notes))

    def _scan(self, history: FileHistory, root: Path) -> Scan:
        policy = replace(self._policy, mode="workspace-write", writable_roots=())
        bounds = Bounds(policy=policy, workspace=root)
        for place in find_places(bounds, self._home, self._environ):
            return scan_root(history, place.root, place.skipped)
        raise NotADirectoryError(20, "it is no directory any more", str(root))

    def _finish_begun(self, history: FileHistory) -> list[str]:
        """Finish what a kill left half done; return what to tell of it."""
        said = []
        for number in open_restores(history, self._thread):
            done = self._finish(history, number)
            said.append(
                f"a rewind that was interrupted has been finished: {len(done.done)} restored, "
                f"{len(done.left)} left"
            )
        return said

    def _finish(self, history: FileHistory, number: int) -> Restored:
        done = finish_restore(history, number)
        for window in restore_windows(history, number):
            root = history.root(window.root)
            close_window(history, window.number, self._scan(history, root.path))
        return done


def _end_window(window: Window, scan: Scan) -> Window:
    """Return a window with an end: one that was left open ends with the scan of now."""
    return window if window.after is not None else replace(window, after=scan.number, kind="cut")
