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
from typing import NamedTuple

from ..core.errors import SandboxUnavailable
from ..core.install import install_command
from ..core.search_path import explain_missing, find_program
from .boundary import Boundary, PathRule
from .bubblewrap import Bubblewrap
from .kernel import Kernel
from .process_groups import find_group_parent

__all__ = ["find_bubblewrap"]

_TOOLS = ("prlimit", "setsid", "setpriv", "unshare", "env")
_TRIAL_TIMEOUT = 20.0
_REMEDY = (
    f"install bubblewrap, or run {install_command('codex')}, which brings one; "
    "without a sandbox commands run only under --sandbox danger-full-access"
)
_PLAIN = Boundary(rules=(PathRule.of(Path("/"), "read"),))
# Opens files to append, and writes nothing: a sandbox that does not hold is not to do harm.
_TRIAL = (
    'echo "$0"; for file do if true >>"$file"; then echo "$file"; fi; done 2>/dev/null; '
    "sh -c 'kill -s PIPE $$; echo deaf'; true"
)
_DEAF = "deaf"
"""Said by a command that a signal does not end which it should."""
_RESTORE = "--default-signal=PIPE"
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
    tools = {name: _tool(name, search) for name in _TOOLS}
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
                trial = _run_trial(variant)
                if trial.complaint is None:
                    return _restore_signals(variant, tools) if trial.deaf else variant
                complaints.append(f"{str(plain.binary)!r} says: {trial.complaint}")
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


def _restore_signals(sandbox: Bubblewrap, tools: Mapping[str, Path]) -> Bubblewrap:
    """Return `sandbox`, whose commands are ended by a broken pipe, if `env` can do that."""
    # One that is written in Rust ignores the signal, and a shell cannot undo that.
    restoring = (str(tools["env"]), _RESTORE)
    done = subprocess.run((*restoring, "true"), capture_output=True, check=False)  # noqa: S603
    return replace(sandbox, restoring=restoring) if done.returncode == 0 else sandbox


class _Trial(NamedTuple):
    """What a trial run has shown."""

    complaint: str | None
    """What went wrong; None when all holds."""
    deaf: bool = False
    """Whether a broken pipe does not end commands."""


def _run_trial(sandbox: Bubblewrap) -> _Trial:
    """Run a command that tries to get out."""
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
        return _Trial(str(error))
    if done.returncode == 0:
        return _judge(token, done.stdout.decode(errors="replace").splitlines())
    complaint = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return _Trial(complaint or f"ended with {done.returncode}")


def _judge(token: str, lines: list[str]) -> _Trial:
    """Return what a trial has shown not to hold."""
    if lines[:1] != [token]:
        return _Trial("ended well, but ran no command")
    written = [line for line in lines[1:] if line != _DEAF]
    return _Trial(f"a command could write {written[0]!r}" if written else None, _DEAF in lines)


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
        package = "coreutils" if name == "env" else "util-linux"
        raise SandboxUnavailable(
            f"commands cannot be sandboxed: {explain_missing(name, package, search)}"
        )
    return found
