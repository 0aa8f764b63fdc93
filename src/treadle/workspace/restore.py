"""Restoring: what a plan says, done on disk.

Owns the journal of a restore and its steps. Invariants: the copies and the plan are durable
before the first step; each file has its old or its new content at any moment, also of a kill; a
path that is not as the plan saw it is left and named; a restore that was killed goes on when it
is asked for again, and a finished one can be undone like a turn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ..core.typed import decode_json
from ..sandbox.pinned import pin_path
from ..tools.patch.disk_steps import (
    make_directory,
    open_file,
    remove_directory,
    rename,
    sync_directory,
    unlink,
)
from .disk_changes import describe_present
from .disk_scan import OWN_PREFIX
from .file_history import FileHistory, FileVersion
from .rewind_plan import FileChange

__all__ = ["RestoreStep", "Restored", "begin_restore", "finish_restore", "open_restores"]


class RestoreStep(Struct, frozen=True):
    """One path, as it is and as it shall be."""

    root: bytes
    now: FileVersion
    then: FileVersion

    @property
    def place(self) -> Path:
        """Where it is."""
        return Path(os.fsdecode(self.root)) / os.fsdecode(self.then.path)


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore has done."""

    done: tuple[str, ...] = ()
    """Paths that are as they were."""
    left: tuple[str, ...] = ()
    """Paths that changed meanwhile, or that the system refused, with the reason."""


def begin_restore(history: FileHistory, thread: str, changes: Sequence[FileChange]) -> int:
    """Write down what will be restored; return the number of the restore."""
    steps = [
        RestoreStep(
            os.fsencode(each.root), each.now, msgspec.structs.replace(each.then, path=_path(each))
        )
        for each in changes
    ]
    with history.transaction(durable=True):
        row = history.connection.execute(
            "INSERT INTO rewinds (thread, began, state, plan) VALUES (?, ?, 'doing', ?) "
            "RETURNING number",
            (thread, time.time_ns() // 1_000_000, msgspec.json.encode(steps)),
        ).fetchone()
    return int(row[0])


def _path(change: FileChange) -> bytes:
    return change.then.path or change.now.path


def open_restores(history: FileHistory, thread: str) -> list[int]:
    """Return the restores of a thread that were begun and not finished."""
    rows = history.connection.execute(
        "SELECT number FROM rewinds WHERE thread = ? AND state = 'doing' ORDER BY number", (thread,)
    )
    return [row[0] for row in rows]


def finish_restore(history: FileHistory, number: int) -> Restored:
    """Do what a restore that was begun has to do; what is done already stays."""
    (plan,) = history.connection.execute(
        "SELECT plan FROM rewinds WHERE number = ?", (number,)
    ).fetchone()
    steps = decode_json(plan, list[RestoreStep])
    work = _Restore(history, number)
    for step in _in_order(steps):
        work.take(step)
    for directory in sorted({step.place.parent for step in steps}):
        with suppress(OSError):
            sync_directory(directory)
    with history.transaction(durable=True):
        history.connection.execute("UPDATE rewinds SET state = 'done' WHERE number = ?", (number,))
    return Restored(done=tuple(work.done), left=tuple(work.left))


def _in_order(steps: Sequence[RestoreStep]) -> Iterator[tuple[RestoreStep, bool]]:
    """Yield what is removed from the inside out, then what is made from the outside in."""
    by_depth = sorted(steps, key=lambda step: (step.then.path.count(b"/"), step.then.path))
    for step in reversed(by_depth):
        if step.now.exists and step.now.kind != step.then.kind:
            yield step, True
    for step in by_depth:
        if step.then.exists:
            yield step, False


class _Restore:
    """One restore while it runs."""

    def __init__(self, history: FileHistory, number: int) -> None:
        self.history = history
        self.done: list[str] = []
        self.left: list[str] = []
        self._beside = f"{OWN_PREFIX.decode()}rewind-{number}"

    def take(self, ordered: tuple[RestoreStep, bool]) -> None:
        """Do one step, or say why it is left."""
        step, removes = ordered
        name = step.then.path.decode(errors="replace")
        if any(each.startswith(f"{name}: ") for each in self.left):
            return
        try:
            self._remove(step) if removes else self._make(step)
        except OSError as error:
            self.left.append(f"{name}: {error.strerror or error}")
        except _Changed as changed:
            self.left.append(f"{name}: {changed}")
        else:
            if not removes or not step.then.exists:
                self.done.append(name)

    def _remove(self, step: RestoreStep) -> None:
        present = self._present(step)
        if not present.exists or present.is_same(step.then):
            return
        self._check(step, present)
        if step.now.kind == "d":
            remove_directory(step.place)
        else:
            unlink(step.place)

    def _make(self, step: RestoreStep) -> None:
        present = self._present(step)
        if present.is_same(step.then):
            return
        if present.exists or step.now.kind == step.then.kind:
            self._check(step, present)
        if step.then.kind == "d":
            if not present.exists:
                make_directory(step.place)
            _change_mode(step.place, step.then.mode)
            return
        self._make_parents(step.place)
        beside = step.place.parent / self._beside
        with suppress(FileNotFoundError):
            unlink(beside)
        assert step.then.digest is not None, "a plan restores only what has a copy"
        data = self.history.content(step.then.digest)
        if step.then.kind == "l":
            _make_link(beside, data)
        else:
            _write_private(beside, data)
            _copy_owner(beside, step.place)
            _change_mode(beside, step.then.mode)
        rename(beside, step.place)

    def _check(self, step: RestoreStep, present: FileVersion) -> None:
        if not present.is_same(step.now):
            raise _Changed("it changed meanwhile")

    def _present(self, step: RestoreStep) -> FileVersion:
        """Return what is there now; a file that may have changed is read."""
        return describe_present(Path(os.fsdecode(step.root)), step.then.path, step.now)

    def _make_parents(self, place: Path) -> None:
        missing = [each for each in place.parents if not os.path.lexists(each)]
        for directory in reversed(missing):
            make_directory(directory)


class _Changed(Exception):
    """A path is not as the plan saw it."""


def _write_private(place: Path, data: bytes) -> None:
    """Write a new file that nobody else can read yet, and sync it."""
    descriptor = open_file(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _copy_owner(place: Path, like: Path) -> None:
    """Give a new file the owner of the one that it replaces, or of its directory."""
    model = like if os.path.lexists(like) else like.parent
    with suppress(OSError), pin_path(model) as at, pin_path(place) as new:
        found = os.stat(at.name, dir_fd=at.parent, follow_symlinks=False)
        os.chown(new.name, found.st_uid, found.st_gid, dir_fd=new.parent, follow_symlinks=False)


def _make_link(place: Path, target: bytes) -> None:
    with pin_path(place) as at:
        os.symlink(target, os.fsencode(at.name), dir_fd=at.parent)


def _change_mode(place: Path, mode: int) -> None:
    with pin_path(place) as at:
        descriptor = os.open(at.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at.parent)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
