"""Files of secrets: locked across processes, for their owner only.

Invariants: what others could read is not read as a secret, and nobody waits for a lock
for ever. Files are replaced whole, by `configuration.private`.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...core.files import read_bounded
from .errors import AuthError

__all__ = ["LARGEST_FILE", "check_private", "locked", "read", "try_lock"]

LARGEST_FILE = 4 << 20
"""Bytes of a file of secrets."""

_PATIENCE = 10.0
_PAUSE = 0.01


@contextmanager
def locked(path: Path, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold the lock file `path`; the kernel lets go when the process ends. Raises `AuthError`."""
    until = time.monotonic() + patience
    while (descriptor := try_lock(path)) is None:
        if time.monotonic() > until:
            raise AuthError(
                f"another process keeps {str(path)!r} locked; try again when it is done"
            )
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed; None while someone else has it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise AuthError(
            f"cannot make the lock file {str(path)!r} ({error.strerror}); "
            "check the owner and mode of its directory"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read(path: Path) -> bytes | None:
    """What the file holds; None where there is none. Raises `AuthError`."""
    try:
        check_private(path)
        return read_bounded(path, LARGEST_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise AuthError(f"cannot read {str(path)!r}: {error.strerror}; mend or remove it") from None


def check_private(path: Path) -> None:
    """Raise `AuthError` if others may read or write the file, or if it is none."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        # To read a pipe would wait for its writer, for ever if there is none.
        raise AuthError(f"cannot read {str(path)!r}: it is no file; mend or remove it")
    if mode & 0o077:
        raise AuthError(
            f"{str(path)!r} can be read by others; `chmod 600` it, and think of its keys as known"
        )
