"""Strays: processes that an app-server left behind in sessions of their own.

Owns the mark that all of them inherit. A server that is killed while it starts a command
leaves its helper waiting for ever, out of reach of its group. Where there is no ``/proc``
they cannot be found.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

__all__ = ["ORPHAN_MARK", "kill_orphans"]

ORPHAN_MARK = "TREADLE_APP_SERVER"
"""The variable that says which app-server a process comes from."""


def kill_orphans(name: str, processes: Path = Path("/proc")) -> None:
    """End every process that comes from the app-server `name`."""
    wanted = f"{ORPHAN_MARK}={name}".encode()
    for place in processes.glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)
