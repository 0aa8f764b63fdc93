"""The probe: which bubblewrap there is, and what it can do here.

Owns the search and the trial runs. Invariant: nothing is taken from the working directory,
where a command could have put it, and what did not hold in a trial is never used.
"""

from __future__ import annotations

import importlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ..core.errors import SandboxUnavailable
from ..core.install import install_command
from ..core.search_path import find_program
from .boundary import Boundary, PathRule
from .bubblewrap import Bubblewrap
from .kernel import Kernel
from .process_groups import find_group_parent

__all__ = ["find_bubblewrap"]

_TRIAL_TIMEOUT = 20.0
_REMEDY = (
    f"install bubblewrap, or run {install_command('codex')}, which brings one; "
    "without a sandbox commands run only under --sandbox danger-full-access"
)
_PLAIN = Boundary(rules=(PathRule(Path("/"), "read"),))
# Opens files to append, and writes nothing: a sandbox that does not hold is not to do harm.
_TRIAL = 'echo "$0"; for file do if true >>"$file"; then echo "$file"; fi; done 2>/dev/null'
_KERNEL_FILES = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sysrq-trigger",
)
"""Files of user 0 that reach beyond every namespace."""


def find_bubblewrap(
    home: Path, environ: Mapping[str, str] | None = None, *, kernel: Kernel | None = None
) -> Bubblewrap:
    """Find the first bubblewrap that works: the system's, else the one in the installed extra.

    Runs each a few times, so call it once and keep the result. Raises
    `SandboxUnavailable` with the reason and the remedy.
    """
    if sys.platform != "linux":
        raise SandboxUnavailable(f"sandboxed commands need Linux, not {sys.platform!r}; {_REMEDY}")
    search = (environ if environ is not None else os.environ).get("PATH", os.defpath)
    tools = {name: _tool(name, search) for name in ("prlimit", "setsid", "setpriv", "unshare")}
    kernel = kernel or Kernel()
    complaints: list[str] = []
    binaries = tuple(_binaries(search))
    for binary in binaries:
        found = _try_variants(_candidate(binary, home, tools), kernel, tools, complaints)
        if found is not None:
            return found
    raise _unavailable(binaries, kernel, complaints)


def _unavailable(
    binaries: tuple[Path, ...], kernel: Kernel, complaints: list[str]
) -> SandboxUnavailable:
    """Return the error that names the cause, if it is known, and what to do."""
    if not binaries:
        return SandboxUnavailable(
            f"commands cannot be sandboxed: no bubblewrap was found; {_REMEDY}"
        )
    obstacle = kernel.find_obstacle(str(binaries[-1]), complaints[-1], root=os.geteuid() == 0)
    if obstacle is None:
        return SandboxUnavailable(f"commands cannot be sandboxed: {complaints[-1]}; {_REMEDY}")
    return SandboxUnavailable(
        f"commands cannot be sandboxed: {obstacle.cause} ({complaints[-1]}); {obstacle.remedy}"
    )


def _candidate(binary: Path, home: Path, tools: Mapping[str, Path]) -> Bubblewrap:
    return Bubblewrap(
        binary=binary,
        home=home,
        prlimit=tools["prlimit"],
        setsid=tools["setsid"],
        root=os.geteuid() == 0,
    )


def _try_variants(
    plain: Bubblewrap, kernel: Kernel, tools: Mapping[str, Path], complaints: list[str]
) -> Bubblewrap | None:
    """Return the strictest variant of `plain` that works."""
    for candidate in _ways_to_bound(plain, kernel, tools):
        for proc in (True, False):
            for nested in (False, True):
                variant = replace(candidate, proc=proc, nested=nested)
                complaint = _run_trial(variant)
                if complaint is None:
                    return variant
                complaints.append(f"{str(plain.binary)!r} says: {complaint}")
    return None


def _ways_to_bound(
    plain: Bubblewrap, kernel: Kernel, tools: Mapping[str, Path]
) -> Iterator[Bubblewrap]:
    """Yield `plain` with each way to bound root's processes; whoever else has limits."""
    if plain.root:
        if kernel.has_own_pid_max:
            yield replace(plain, bounding=(tools["setpriv"], tools["unshare"]))
        groups = find_group_parent(kernel.pid_cgroups)
        if groups is not None:
            yield replace(plain, groups=groups)
    yield plain


def _run_trial(sandbox: Bubblewrap) -> str | None:
    """Run a command that tries to get out; return what went wrong, None when all holds."""
    token = secrets.token_hex(8)
    files = (str(sandbox.home / "sandbox.lock"), *_KERNEL_FILES)
    argv = ("/bin/sh", "-c", _TRIAL, token, *files)
    try:
        with sandbox.prepare(argv, cwd=Path("/"), env={}, boundary=_PLAIN) as launch:
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
        return _breach(token, done.stdout.decode(errors="replace").splitlines())
    complaint = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return complaint or f"ended with {done.returncode}"


def _breach(token: str, lines: list[str]) -> str | None:
    """Return what a trial has shown not to hold."""
    if lines[:1] != [token]:
        return "ended well, but ran no command"
    return f"a command could write {lines[1]!r}" if lines[1:] else None


def _binaries(search: str) -> Iterator[Path]:
    if (system := find_program("bwrap", search)) is not None:
        yield system
    try:
        package = Path(importlib.import_module("codex_cli_bin").bundled_package_dir())
    except (ImportError, FileNotFoundError):
        return
    bundled = package / "codex-resources" / "bwrap"
    if bundled.is_file():
        yield bundled


def _tool(name: str, search: str) -> Path:
    found = find_program(name, search)
    if found is None:
        raise SandboxUnavailable(
            f"commands cannot be sandboxed: {name!r} is not on the search path; install util-linux"
        )
    return found
