"""Processes: forked from one that has imported everything.

So another user can run Treadle who cannot read its files. Owns forking, waiting and becoming
somebody else. Invariant: a forked process never returns into the code of its parent.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pkgutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = [
    "Finished",
    "become",
    "descendants",
    "find_running",
    "fork",
    "fork_and_wait",
    "preload",
    "reap_orphans",
]

_CHILD_SUBREAPER = 36
_UNNEEDED = ("treadle.testing.contracts", "treadle.testing.matrix", "treadle.testing.prefix_guard")
_LOADED_LATE = (
    *("concurrent.futures.thread", "concurrent.futures.process", "email.utils"),
    *("multiprocessing.context", "multiprocessing.popen_fork", "sqlite3.dbapi2", "stringprep"),
    *("asyncio.unix_events", "unicodedata", "zoneinfo", "getpass", "pwd", "grp", "locale", "glob"),
    *("importlib.metadata", "json.decoder", "tomllib", "traceback", "linecache", "_strptime"),
)


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that has ended."""

    code: int
    """Minus the signal, when one ended it."""
    out: str = ""
    err: str = ""


def preload() -> None:
    """Import all of Treadle, and what it imports when it needs it."""
    for name in ("treadle", "attack", "encodings", "tree_sitter"):
        with suppress(ImportError):
            _import_all(importlib.import_module(name))
    for name in _LOADED_LATE:
        with suppress(ImportError):
            importlib.import_module(name)


def _import_all(package: ModuleType) -> None:
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
        if not module.name.startswith(_UNNEEDED) and not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)


def become(uid: int) -> None:
    """Become another user, for good."""
    if uid != os.geteuid():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        # A change of user makes a process unreadable, also for itself, unless it says otherwise.
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


def reap_orphans() -> None:
    """Make every process that a descendant leaves behind a child of this one."""
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)


def fork(work: Callable[[], Any]) -> int:
    """Start a process that does `work`, in a session of its own; return its number."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        code = work() or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - the process ends here, whatever it is
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def fork_and_wait(
    work: Callable[[], Any],
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    seconds: float = 60,
) -> Finished:
    """Do `work` in a process of its own; return what it printed. One that hangs is killed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:

        def prepared() -> Any:
            nothing = os.open(os.devnull, os.O_RDONLY)
            for number, descriptor in enumerate((nothing, out.fileno(), err.fileno())):
                os.dup2(descriptor, number)
            if environ is not None:
                os.environ.clear()
                os.environ.update(environ)
            os.chdir(cwd or os.curdir)
            return work()

        code = _wait(fork(prepared), seconds)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return Finished(code, *texts)


def _wait(pid: int, seconds: float) -> int:
    deadline = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            deadline += seconds
        time.sleep(0.005)


def descendants(ancestor: int) -> dict[int, str]:
    """Return the processes below one, zombies left out, with their command lines."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            parents[int(entry.name)] = int(parent)
            if state != "Z":
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                names[int(entry.name)] = line.decode(errors="replace")[:200]
    return {pid: name for pid, name in names.items() if _is_below(pid, ancestor, parents)}


def _is_below(pid: int, ancestor: int, parents: Mapping[int, int]) -> bool:
    pid = parents.get(pid, 0)
    while pid and pid != ancestor:
        pid = parents.get(pid, 0)
    return pid == ancestor


def find_running(mark: str) -> list[int]:
    """Return the processes that have `mark` among their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found
