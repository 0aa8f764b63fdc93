"""Windows: between which scans a turn, a patch or a restore changed files.

Owns the rows that tie scans to threads. Invariants: what changed between the scans of a window
is its owners'; what changed outside of all windows is somebody else's; a window without an
end belongs to work that goes on, or that was killed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from .disk_changes import Scan
from .file_history import FileHistory

__all__ = [
    "Owner",
    "Window",
    "WindowKind",
    "close_window",
    "cut_windows",
    "find_windows",
    "open_window",
    "overlapping_threads",
    "restore_windows",
]

WindowKind: TypeAlias = Literal["turn", "patch", "restore", "cut"]
"""``cut`` is a turn whose process was killed: what changed until the next scan is in it, too."""

_COLUMNS = "w.number, w.root, w.kind, w.before, w.after, w.whole, w.passed"


class Owner(Struct, frozen=True):
    """A thread that a window belongs to, and the entry that its log had reached."""

    thread: str
    seq: int


class Window(Struct, frozen=True):
    """The scans around a piece of work."""

    number: int
    root: int
    kind: WindowKind
    before: int
    after: int | None
    whole: bool = True
    passed: tuple[bytes, ...] = ()

    def contains(self, scan: int) -> bool:
        """Whether what a scan saw changed, changed in this window."""
        return self.before < scan and (self.after is None or scan <= self.after)


def open_window(
    history: FileHistory,
    scan: Scan,
    kind: WindowKind,
    owners: Sequence[Owner],
    *,
    rewind: int | None = None,
) -> int:
    """Begin a window after `scan`; the first owner is the one who works."""
    with history.transaction():
        number = history.connection.execute(
            "INSERT INTO windows (root, kind, before, began, whole, passed, rewind) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING number",
            (
                *(scan.root, kind, scan.number, time.time_ns() // 1_000_000),
                *(int(scan.whole), b"\0".join(scan.passed), rewind),
            ),
        ).fetchone()[0]
        history.connection.executemany(
            "INSERT OR IGNORE INTO owners VALUES (?, ?, ?, ?)",
            [(number, each.thread, each.seq, int(at == 0)) for at, each in enumerate(owners)],
        )
    return int(number)


def close_window(history: FileHistory, number: int, scan: Scan) -> None:
    """End a window with `scan`; one in which nothing changed is forgotten."""
    with history.transaction():
        row = history.connection.execute(
            "UPDATE windows SET after = ?, whole = min(whole, ?) WHERE number = ? "
            "RETURNING before, whole, kind",
            (scan.number, int(scan.whole), number),
        ).fetchone()
        if row is not None and row[0] == scan.number and row[1] and row[2] != "restore":
            history.connection.execute("DELETE FROM windows WHERE number = ?", (number,))
            history.connection.execute("DELETE FROM owners WHERE window = ?", (number,))


def cut_windows(history: FileHistory, thread: str, scan: Scan) -> None:
    """End the windows that a killed process of `thread` left open."""
    with history.transaction():
        history.connection.execute(
            "UPDATE windows SET after = ?, kind = 'cut' WHERE after IS NULL AND root = ? "
            "AND kind <> 'restore' "
            "AND number IN (SELECT window FROM owners WHERE thread = ? AND own)",
            (scan.number, scan.root, thread),
        )


def find_windows(history: FileHistory, spans: Sequence[tuple[str, int, int]]) -> list[Window]:
    """Return the windows of threads between two entries each, oldest first."""
    found: dict[int, Window] = {}
    for thread, first, last in spans:
        rows = history.connection.execute(
            f"SELECT {_COLUMNS} FROM owners o JOIN windows w ON w.number = o.window "
            "WHERE o.thread = ? AND o.seq BETWEEN ? AND ?",
            (thread, first, last),
        )
        found |= {row[0]: _window(row) for row in rows}
    return sorted(found.values(), key=lambda window: window.number)


def restore_windows(history: FileHistory, rewind: int) -> list[Window]:
    """Return the windows of one restore."""
    rows = history.connection.execute(
        f"SELECT {_COLUMNS} FROM windows w WHERE w.rewind = ? ORDER BY w.number", (rewind,)
    )
    return [_window(row) for row in rows]


def overlapping_threads(history: FileHistory, window: Window) -> set[str]:
    """Return the threads that worked in the same directory at the same time, of other families."""
    rows = history.connection.execute(
        "SELECT DISTINCT o.thread FROM windows w JOIN owners o ON o.window = w.number "
        "WHERE w.root = :root AND w.number <> :number AND w.before < :after "
        "AND (w.after IS NULL OR w.after > :before) AND o.own AND NOT EXISTS ("
        "SELECT 1 FROM owners a JOIN owners b ON a.thread = b.thread "
        "WHERE a.window = w.number AND b.window = :number)",
        {
            "root": window.root,
            "number": window.number,
            "before": window.before,
            "after": (1 << 62) if window.after is None else window.after,
        },
    )
    return {row[0] for row in rows}


def _window(row: tuple[int, int, WindowKind, int, int | None, int, bytes]) -> Window:
    passed = tuple(row[6].split(b"\0")) if row[6] else ()
    return Window(*row[:5], bool(row[5]), passed)
