"""The probe: which bubblewrap there is, and what it can do here.

Owns the search and the trial runs. Invariant: nothing is taken from the working directory,
where a command could have put it, and what did not work in a trial is never used.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ..core.errors import SandboxUnavailable
from ..core.install import install_command
from .boundary import Boundary, PathRule
from .bubblewrap import Bubblewrap

__all__ = ["find_bubblewrap"]

_TRIAL_TIMEOUT = 20.0
_REMEDY = (
    f"install bubblewrap, or run {install_command('codex')}, which brings one; "
    "without a sandbox commands run only under --sandbox danger-full-access"
)
_PLAIN = Boundary(rules=(PathRule(Path("/"), "read"),))


def find_bubblewrap(home: Path, environ: Mapping[str, str] | None = None) -> Bubblewrap:
    """Find the first bubblewrap that works: the system's, else the one in the installed extra.

    Runs each a few times, so call it once and keep the result. Raises
    `SandboxUnavailable` with the reason and the remedy.
    """
    if sys.platform != "linux":
        raise SandboxUnavailable(f"sandboxed commands need Linux, not {sys.platform!r}; {_REMEDY}")
    search = (environ if environ is not None else os.environ).get("PATH", os.defpath)
    tools = {name: _tool(name, search) for name in ("prlimit", "setsid", "setpriv", "unshare")}
    complaints: list[str] = []
    for binary in _binaries(search):
        found = _try_variants(_candidate(binary, home, tools), complaints)
        if found is not None:
            return found
    reason = complaints[-1] if complaints else "no bubblewrap was found"
    raise SandboxUnavailable(f"commands cannot be sandboxed: {reason}; {_REMEDY}")


def _candidate(binary: Path, home: Path, tools: Mapping[str, Path]) -> Bubblewrap:
    root = os.geteuid() == 0
    return Bubblewrap(
        binary=binary,
        home=home,
        prlimit=tools["prlimit"],
        setsid=tools["setsid"],
        bounding=(tools["setpriv"], tools["unshare"]) if root else None,
        root=root,
    )


def _try_variants(best: Bubblewrap, complaints: list[str]) -> Bubblewrap | None:
    """Return the strictest variant of `best` that works."""
    bounded = (best, replace(best, bounding=None)) if best.root else (best,)
    for candidate in bounded:
        for proc in (True, False):
            for nested in (False, True):
                variant = replace(candidate, proc=proc, nested=nested)
                complaint = _run_trial(variant)
                if complaint is None:
                    return variant
                complaints.append(f"{str(best.binary)!r} says: {complaint}")
    return None


def _run_trial(sandbox: Bubblewrap) -> str | None:
    """Run a command that does nothing; return what went wrong, None when it works."""
    environ = {"PATH": os.defpath}
    try:
        with sandbox.prepare(("/bin/true",), cwd=Path("/"), env=environ, boundary=_PLAIN) as launch:
            done = subprocess.run(  # noqa: S603 - a line that we made ourselves
                launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                pass_fds=launch.fds,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_TRIAL_TIMEOUT,
            )
    except (OSError, SandboxUnavailable, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return None
    complaint = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return complaint or f"ended with {done.returncode}"


def _binaries(search: str) -> Iterator[Path]:
    if (system := _which("bwrap", search)) is not None:
        yield system
    try:
        package = Path(importlib.import_module("codex_cli_bin").bundled_package_dir())
    except (ImportError, FileNotFoundError):
        return
    bundled = package / "codex-resources" / "bwrap"
    if bundled.is_file():
        yield bundled


def _tool(name: str, search: str) -> Path:
    found = _which(name, search)
    if found is None:
        raise SandboxUnavailable(
            f"commands cannot be sandboxed: {name!r} is not on the search path; install util-linux"
        )
    return found


def _which(name: str, search: str) -> Path | None:
    """Return the program `name` from an absolute directory of `search`, never from below here."""
    here = Path.cwd()
    for directory in map(Path, search.split(os.pathsep)):
        file = directory / name
        if not directory.is_absolute() or Path(os.path.realpath(file)).is_relative_to(here):
            continue
        if directory.is_relative_to(here):
            continue
        # Asked of the kernel: `is_file` raises for a directory that we may not enter.
        if os.access(file, os.X_OK) and file.is_file():
            return file
    return None
