"""Leases: one writer per thread, across processes and within one.

Owns the lock files and the fencing number. The kernel frees a lock when its
process ends, however it ends; the fence, raised by every new holder and checked
inside every commit, stops a writer that only believes it still holds the lock.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from msgspec import Struct

from ..core.errors import StoreError, StoreReadOnly, ThreadBusy
from ..core.typed import decode_json
from ..core.wire import json_bytes
from .contract import Holder
from .queries import thread_number

__all__ = [
    "FileLock",
    "SqliteLease",
    "clear_holder",
    "describe_holder",
    "lock_thread",
    "take_lease",
    "this_process",
]


class FileLock:
    """An exclusive lock on a file, held until `release` or the end of the process."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; return whether it was."""
        fcntl = _fcntl()
        try:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreReadOnly(
                f"cannot create the lock file {str(self.path)!r} ({error.strerror}); "
                "check the owner and mode of its directory"
            ) from error
        self._descriptor = descriptor
        with self.release_on_error():
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
        return self._descriptor is not None

    @contextmanager
    def release_on_error(self) -> Iterator[None]:
        """Release the lock when the block raises."""
        try:
            yield
        except BaseException:
            self.release()
            raise

    def is_held(self) -> bool:
        """Return whether anybody has the lock; takes it for a moment, together with others."""
        fcntl = _fcntl()
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # who may not even look will not get it either
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def release(self) -> None:
        """Release the lock. Harmless when called twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class SqliteLease(Struct, eq=False):
    """The right to write one thread of a `SqliteStore`."""

    thread: str
    fence: int
    lock: FileLock
    on_release: Callable[[SqliteLease], Awaitable[None]]

    async def release(self) -> None:
        """Release the thread. Harmless when called twice."""
        await self.on_release(self)


def take_lease(connection: sqlite3.Connection, thread: str, lock: FileLock, holder: Holder) -> int:
    """Lock the thread's file and raise its fence; return the new fence."""
    lock_thread(connection, thread, lock)
    with lock.release_on_error():
        (fence,) = connection.execute(
            "UPDATE threads SET fence = fence + 1, holder = ? WHERE id = ? RETURNING fence",
            (json_bytes(holder).decode(), thread),
        ).fetchone()
    return int(fence)


def lock_thread(connection: sqlite3.Connection, thread: str, lock: FileLock) -> None:
    """Lock a living thread's file. Raises `ThreadBusy` while someone else has it."""
    thread_number(connection, thread)
    if not lock.acquire():
        raise ThreadBusy(thread, describe_holder(connection, thread))


def clear_holder(connection: sqlite3.Connection, thread: str, fence: int) -> None:
    """Record that nobody writes the thread any more, unless a newer lease exists."""
    connection.execute(
        "UPDATE threads SET holder = NULL WHERE id = ? AND fence = ?", (thread, fence)
    )


def describe_holder(connection: sqlite3.Connection, thread: str) -> str:
    """Describe who holds the thread."""
    row = connection.execute("SELECT holder FROM threads WHERE id = ?", (thread,)).fetchone()
    if row is None or row[0] is None:
        return "another process"
    return str(decode_json(row[0], Holder))


def this_process(now: int, address: str = "") -> Holder:
    """Return this process as a holder, and where it serves its live events."""
    # Arguments may hold a prompt or a secret; the program's name is enough.
    program = Path(sys.argv[0] if sys.argv else "")
    # `python -m treadle` is the program treadle.
    command = (program.parent if program.name == "__main__.py" else program).name or "python"
    host = socket.gethostname()
    return Holder(pid=os.getpid(), host=host, command=command, since=now, address=address)


def _fcntl() -> ModuleType:
    try:
        import fcntl
    except ImportError as error:
        raise StoreError(
            f"threads cannot be written on {sys.platform!r}: it has no POSIX file locks; "
            "use Linux, macOS or WSL"
        ) from error
    return fcntl
