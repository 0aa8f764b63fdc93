from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .arena import IDENTITIES, Arena, arena, started


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can read."""
    directory = Path(tempfile.mkdtemp(prefix="treadle-open-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session", params=IDENTITIES, ids=lambda uid: f"uid{uid}")
def somebody(request: pytest.FixtureRequest) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with started(request.param) as process:
        yield request.param, process


@pytest.fixture
def ground(somebody: tuple[int, subprocess.Popen[bytes]]) -> Iterator[Arena]:
    with arena(*somebody) as built:
        yield built


@pytest.fixture(params=IDENTITIES, ids=lambda uid: f"uid{uid}")
def own_ground(request: pytest.FixtureRequest) -> Iterator[Arena]:
    with started(request.param) as process, arena(request.param, process) as built:
        yield built
