"""A home that Codex has used before: it takes half the time to start.

An empty one costs a start all migrations of six databases. Each test process lets Codex make
them once; a test gets a copy, and one of the list of models, which another start of Codex
would print. Invariant: nothing but empty databases and that list is copied.
"""

from __future__ import annotations

import asyncio
import atexit
import shutil
import sqlite3
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path

from treadle.harness.codex.codex_home import CodexHome, write_catalog

__all__ = ["warm_home"]

_ASK = b'{"id":1,"method":"initialize","params":{"clientInfo":{"name":"tests","version":"1"}}}\n'


def warm_home(home: Path, binary: Path) -> None:
    """Put databases into the private `CODEX_HOME` below `home`, unless it has some."""
    directory = CodexHome.below(home).directory
    if directory.exists():
        return
    directory.mkdir(parents=True)
    for each in _databases(binary):
        shutil.copy(each, directory)
    shutil.copy(_models(binary), directory.parent)


@cache
def _models(binary: Path) -> Path:
    place = Path(tempfile.mkdtemp(prefix="treadle-warm-codex-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    with ThreadPoolExecutor(1) as thread:  # whoever asks has a loop of its own
        return thread.submit(asyncio.run, write_catalog(binary, place)).result()


@cache
def _databases(binary: Path) -> tuple[Path, ...]:
    place = Path(tempfile.mkdtemp(prefix="treadle-warm-codex-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    command = CodexHome.below(place).prepare(binary, {})
    with subprocess.Popen(
        [binary, *command.arguments],
        env=dict(command.environment),
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(_ASK)
        process.stdin.flush()
        assert process.stdout.readline()
    found = tuple(sorted(CodexHome.below(place).directory.glob("*.sqlite")))
    for each in found:
        with closing(sqlite3.connect(each)) as database:  # whoever closes last ends the journal
            database.execute("SELECT * FROM sqlite_schema").fetchall()
    return found
