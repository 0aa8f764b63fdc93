"""The far end: the program that serves an executor's requests where it was sent.

Owns its standard streams and its place for a few files. Invariant: nothing but messages goes
to standard output, whatever prints by accident.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ..local.local_executor import LocalExecutor
from ..local.streams import Stream
from .pipe_server import serve
from .protocol import MAGIC, VERSION, Hello, MessagePipe

__all__ = ["main"]

_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")


async def _serve(home: Path) -> None:
    hello = _hello()
    _leave_root(home)
    reader, writer = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.write(writer, MAGIC)
    pipe = MessagePipe(Stream(reader), Stream(writer))
    await serve(pipe, LocalExecutor(home=home), hello)


def _hello() -> Hello:
    bash = any(os.access(shell, os.X_OK) for shell in _SHELLS)
    return Hello(
        version=VERSION,
        python=".".join(map(str, sys.version_info[:3])),
        pid=os.getpid(),
        cwd=str(Path.cwd()),
        home=os.environ.get("HOME", ""),
        shell="bash" if bash else "sh",
    )


def _own_place() -> tuple[Path, bool]:
    """Return Treadle's home on this machine, which commands do not see, and whether to remove it.

    A thread of this machine's own user may live there.
    """
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")  # noqa: PTH111
    named = os.environ.get("TREADLE_HOME")
    place = Path(named) if named else Path(data, "treadle")
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="treadle-")), True
    return (place, False) if os.access(place, os.W_OK) else (Path(tempfile.mkdtemp()), True)


def _leave_root(home: Path) -> None:
    """Go where not every program of the machine lies below.

    Containers start us in ``/``, and no program for the sandbox is taken from the working
    directory.
    """
    if Path.cwd() == Path("/"):
        os.chdir(home)


def main() -> None:
    """Serve until standard input ends."""
    home, temporary = _own_place()
    try:
        asyncio.run(_serve(home))
    finally:
        if temporary:
            shutil.rmtree(home, ignore_errors=True)
