"""Probes: the checks of `treadle doctor`.

Owns the checks and their remedies. Invariant: a probe leaves nothing behind, never
raises, and never prints the value of a secret.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from ..config import load_config
from ..core.errors import SandboxUnavailable, TreadleError
from ..core.install import install_command
from ..core.redact import one_line
from ..core.search_path import find_program
from ..harness.registry import HarnessRegistry
from ..models.catalog import Catalog
from ..policy.auth.secrets import SecretStore
from ..prompt.imported_prompts import ImportedPrompts
from ..prompt.registry import default_registry
from ..sandbox.kernel import Kernel
from ..sandbox.probe import find_bubblewrap
from ..store.database import connect, open_reader, sqlite_errors
from ..store.index import APPLICATION_ID, OLDER, VERSION
from ..store.lease import FileLock
from ..store.looking import LookingIndex, LookingStore
from ..store.migrations import check_layout
from ..store.queries import find_damaged
from ..store.search.coverage import IndexCoverage
from .codex_state import codex_state
from .commands.harnesses import choice
from .database_probe import database_state
from .engine_states import configured_engine

__all__ = ["Check", "Status", "examine"]

Status: TypeAlias = Literal["ok", "warn", "fail"]

_PATIENCE = 10.0
_NAMED = 3
"""So many damaged entries are named."""
_LITTLE_SPACE = 200 << 20
_STRICT_TABLES = (3, 37)
_LEADS = {"kubernetes": "kubectl"}
_KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


class Check(Struct, frozen=True):
    """The result of one check, and how to fix the problem."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


Probe: TypeAlias = Callable[[], Check]


def examine(
    home: Path,
    environ: Mapping[str, str],
    progress: Callable[[str], None],
    *,
    address: Callable[[], str | None] = lambda: None,
    kernel: Kernel | None = None,
) -> Iterator[Check]:
    """Run every check, in order; `kernel` stands in for this machine's own.

    `address` says in which database the threads are, if not in the home.
    """
    probes: dict[str, Probe] = {
        "python": _python,
        "sqlite": _sqlite,
        "home": lambda: _home(home),
        "space": lambda: _space(home),
        "store": lambda: _store(address()),
        "log": lambda: _log(home / "log.db"),
        "index": lambda: _index(home / "index.db"),
        "recall": lambda: _recall(home),
        "locks": lambda: _locks(home),
        "models": lambda: _models(home / "models.toml"),
        "prompts": lambda: _prompts(home),
        "fragments": _fragments,
        "engine": lambda: _engine(home, environ),
        "harness": lambda: _harness(home, environ),
        "codex": lambda: _codex(home, environ),
        "sandbox": lambda: _sandbox(environ, kernel),
        "executor": lambda: _executor(home, environ),
        "rg": lambda: _tool("rg", "searching files will be slow", "ripgrep"),
        **{f"{name} key": partial(_key, name, home, environ) for name in _KEYS},
    }
    for name, probe in probes.items():
        progress(f"checking {name}")
        try:
            check = probe()
        except (OSError, TreadleError, sqlite3.Error, subprocess.TimeoutExpired) as error:
            detail, _, remedy = str(error).partition("; ")
            check = _fail(detail, remedy or "fix what the message names")
        yield Check(name, check.status, check.detail, check.remedy)


def _ok(detail: str) -> Check:
    return Check("", "ok", detail)


def _warn(detail: str, remedy: str) -> Check:
    return Check("", "warn", detail, remedy)


def _fail(detail: str, remedy: str) -> Check:
    return Check("", "fail", detail, remedy)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return _ok(f"{version} ({sys.executable})")


def _sqlite() -> Check:
    version = sqlite3.sqlite_version
    remedy = "use a Python that is built with a newer SQLite"
    if sqlite3.sqlite_version_info < _STRICT_TABLES:
        return _fail(f"{version} has no STRICT tables", remedy)
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
        except sqlite3.OperationalError:
            return _fail(f"{version} has no FTS5, so search cannot work", remedy)
    return _ok(f"{version}, with STRICT tables and FTS5")


def _home(home: Path) -> Check:
    if not home.exists():
        return _ok(f"{home} (does not exist yet; the first thread creates it)")
    if not os.access(home, os.W_OK | os.X_OK):
        return _warn(
            f"{home} can only be read",
            "make yourself its owner and `chmod 700` it, or use another home",
        )
    if home.stat().st_mode & 0o077:
        return _warn(f"{home} can be entered by others", f"chmod 700 {home}")
    return _ok(f"{home}, writable")


def _space(home: Path) -> Check:
    place = next(parent for parent in (home, *home.parents) if parent.exists())
    free = shutil.disk_usage(place).free
    said = f"{free >> 20:,} MiB free"
    return _warn(said, "free some space") if free < _LITTLE_SPACE else _ok(said)


def _store(address: str | None) -> Check:
    """Check the database with the threads, and how leases are held there."""
    if address is None:
        return _ok("threads are in the home, in log.db")
    state = asyncio.run(database_state(address))
    if state.damaged:
        more = f" and {len(state.damaged) - _NAMED:,} more" if len(state.damaged) > _NAMED else ""
        return _fail(
            f"not as they were written: {', '.join(state.damaged[:_NAMED])}{more}",
            "check the disk of the server; continue a thread before such an entry with "
            "`treadle fork --at`",
        )
    if state.trouble:
        return _warn(f"{state.said}; {state.trouble}", state.remedy)
    return _ok(state.said)


def _log(path: Path) -> Check:
    if not path.exists():
        return _ok("not made yet")
    with closing(open_reader(path)) as connection, sqlite_errors(path):
        layout = check_layout(connection, path)
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        damaged = find_damaged(connection) if verdict == "ok" else []
        (threads,) = connection.execute(
            "SELECT count(*) FROM threads WHERE deleted IS NULL"
        ).fetchone()
    if verdict != "ok":
        return _fail(f"{path} is damaged: {verdict}", "copy it, then `sqlite3 log.db .recover`")
    if damaged:
        more = f" and {len(damaged) - _NAMED:,} more" if len(damaged) > _NAMED else ""
        return _fail(
            f"not as they were written: {', '.join(damaged[:_NAMED])}{more}",
            "check the disk; continue a thread before such an entry with `treadle fork --at`",
        )
    held = "1 thread" if threads == 1 else f"{threads:,} threads"
    return _ok(f"layout {layout}, valid, {held}, {path.stat().st_size:,} bytes")


def _index(path: Path) -> Check:
    if not path.exists():
        return _ok("not made yet")
    renewed = "nothing; it is moved aside and built again from the log at its next use"
    try:
        application, version = _index_layout(path)
    except sqlite3.Error as error:
        return _warn(f"{path} cannot be read ({error})", renewed)
    if application != APPLICATION_ID or version not in {VERSION, *OLDER}:
        return _warn(f"{path} is not an index of this version", renewed)
    return _ok(f"layout {version}, {path.stat().st_size:,} bytes")


def _index_layout(path: Path) -> tuple[int, int]:
    with closing(connect(path, "mode=ro")) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _recall(home: Path) -> Check:
    path = home / "index.db"
    try:
        is_known = not path.exists() or _index_layout(path) == (APPLICATION_ID, VERSION)
    except sqlite3.Error:
        is_known = False
    if not is_known:
        return _ok("how much is indexed is told when this version has used the index once")

    async def measure() -> IndexCoverage:
        async with LookingStore(home) as store:
            index = LookingIndex(store, home)
            try:
                return await index.coverage()
            finally:
                await index.close()

    return _ok(asyncio.run(measure()).told)


def _locks(home: Path) -> Check:
    if not os.access(home, os.W_OK | os.X_OK):
        return _ok("not tried: there is no place to write")
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as directory:
        first, second = (FileLock(Path(directory, "probe.lock")) for _ in range(2))
        taken, again = first.acquire(), second.acquire()
        first.release()
        second.release()
    if not taken or again:
        return _fail(
            "two writers could hold one lock, so threads are not safe here",
            "keep the home on a local disk, not on a network share without locks",
        )
    return _ok("one writer at a time")


def _models(path: Path) -> Check:
    known = Catalog.load(path)
    said = f"{len(known.entries)} entries"
    return _ok(f"{said}, {len(known.changes)} of them yours" if path.exists() else said)


def _prompts(home: Path) -> Check:
    imported = ImportedPrompts(home)
    manifest = imported.manifest()
    if manifest is None:
        return _ok("Treadle's own")
    broken = [prompt.name for prompt in imported.all() if not prompt.intact]
    if broken:
        return _warn(f"changed since the import: {', '.join(broken)}", "treadle prompts import")
    return _ok(f"{len(manifest.digests)} imported from {manifest.version}")


def _fragments() -> Check:
    registry = default_registry()
    loaded = registry.load_entry_points()
    said = f"{len(registry.fragments)} kinds"
    return _ok(f"{said}, from packages: {', '.join(loaded)}" if loaded else said)


def _engine(home: Path, environ: Mapping[str, str]) -> Check:
    """Check that the selected engine can be created, and did not fail last time."""
    here = _here(home)
    settings = load_config(home, here, environ).settings
    state = asyncio.run(configured_engine(settings, home, here))
    lacks = [need.unmet for need in state.needs if need.unmet is not None]
    if state.problem is not None:
        return _fail(state.problem, state.remedy or "choose another engine")
    if lacks:
        return _fail(lacks[0], "choose another engine")
    if state.last_failure is not None:
        said = f"{state.id} failed last at {state.last_failure.operation}"
        return _warn(f"{said}: {state.last_failure.reason}", "see `treadle engines`")
    if state.notes:
        return _warn(state.notes[0].partition("; ")[0], "choose another id, or remove one of them")
    return _ok(f"{state.id} {state.version} of {state.owner}; turns reach it {state.guarantee}")


def _here(home: Path) -> Path:
    try:
        return Path().absolute()
    except FileNotFoundError:
        return home


def _harness(home: Path, environ: Mapping[str, str]) -> Check:
    """Check which harness would run the configured model."""
    registry = HarnessRegistry(import_seconds=_PATIENCE)
    chosen = asyncio.run(choice(load_config(home, _here(home), environ), home, registry))
    if chosen.problem is not None:
        detail, _, remedy = chosen.problem.partition("; ")
        return _fail(detail, remedy)
    troubles = [f"{name}: {problem}" for name, problem in registry.problems.items()]
    troubles += [str(conflict).partition("; ")[0] for conflict in registry.conflicts()]
    if troubles:
        return _warn(troubles[0], "see `treadle harnesses`")
    return _ok(f"{chosen.model} runs on {chosen.harness} ({chosen.reason})")


def _codex(home: Path, environ: Mapping[str, str]) -> Check:
    """Check that Codex is installed, has a supported version, and answers."""
    settings = load_config(home, _here(home), environ).settings
    state = asyncio.run(codex_state(settings, home, environ))
    if state.binary is None:
        return _warn(
            "not found; its models cannot be asked, nor its prompts imported",
            f"put `codex` on the search path, or run {install_command('codex')}",
        )
    if state.problem is not None:
        detail, _, remedy = state.problem.partition("; ")
        return _warn(detail, remedy or "install Codex again")
    return _ok(f"{state.version}, its app-server answers ({state.binary})")


def _sandbox(environ: Mapping[str, str], kernel: Kernel | None) -> Check:
    """Check that commands can run in the sandbox, by running one, and are bounded in it."""
    with tempfile.TemporaryDirectory(prefix="treadle-doctor-") as scratch:
        try:
            sandbox = find_bubblewrap(Path(scratch), environ, kernel=kernel)
        except (SandboxUnavailable, OSError) as error:
            detail, _, remedy = str(error).partition("; ")
            return _warn(detail, remedy or "change to a directory that exists")
    said = f"commands run in the sandbox of {sandbox.binary}"
    if not sandbox.bounds_processes:
        return _warn(
            f"{said}, but how many processes they start is not bounded for root",
            "work as another user, or use Linux 6.14 or newer, or mount the cgroup "
            "controller `pids` where root can write",
        )
    return _ok(said)


def _executor(home: Path, environ: Mapping[str, str]) -> Check:
    """Say where commands run, and whether what leads there is at hand."""
    where = load_config(home, Path(), environ).settings.executor.where
    kind, _, what = (where or "local").partition(":")
    if kind == "local":
        return _ok("commands run on this machine")
    if kind == "e2b":
        found = bool(environ.get("E2B_API_KEY"))
        return (
            _ok(f"commands run in E2B's {what!r}")
            if found
            else _fail(f"commands should run in {where!r}, and there is no key", "set E2B_API_KEY")
        )
    program = what.split()[0] if kind == "pipe" else _LEADS.get(kind, kind)
    if find_program(program, environ.get("PATH")) is None:
        return _fail(
            f"commands should run in {where!r}, and there is no {program!r}", f"install {program}"
        )
    if kind not in ("docker", "podman"):
        return _ok(f"commands run in {where!r}, through {program!r}")
    done = subprocess.run(  # noqa: S603 - a binary from the user's own search path
        [program, "version"], capture_output=True, check=False, timeout=_PATIENCE
    )
    if done.returncode:
        said = one_line(done.stderr.decode(errors="replace"))
        return _fail(f"commands should run in {where!r}: {said}", f"start {program}")
    return _ok(f"commands run in {where!r}")


def _tool(name: str, without: str, package: str) -> Check:
    found = find_program(name)
    if found is None:
        return _warn(f"not found; {without}", f"install {package}")
    return _runs(str(found), package)


def _runs(binary: str, package: str) -> Check:
    try:
        return _ok(f"{_version(binary)} ({binary})")
    except (OSError, subprocess.SubprocessError) as error:
        return _warn(f"does not run: {error}", f"install {package} again")


def _version(binary: str) -> str:
    """Return the first line of ``--version``, run with a temporary home."""
    with tempfile.TemporaryDirectory(prefix="treadle-doctor-") as scratch:
        private = {"HOME": scratch, "CODEX_HOME": scratch, "PATH": os.environ.get("PATH", "")}
        done = subprocess.run(  # noqa: S603 - a binary from the user's own search path
            [binary, "--version"],
            capture_output=True,
            check=True,
            cwd=scratch,
            env=private,
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE,
        )
    return done.stdout.decode(errors="replace").partition("\n")[0].strip()


def _key(provider: str, home: Path, environ: Mapping[str, str]) -> Check:
    variable = _KEYS[provider]
    if environ.get(variable):
        return _ok(f"{variable} is set")
    if any(each.provider == provider for each in SecretStore(home).profiles()):
        return _ok("it is stored")
    return _warn(f"{variable} is not set, and no key is stored", f"treadle auth add {provider}")
