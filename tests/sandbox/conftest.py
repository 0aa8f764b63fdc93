from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from .arena import IDENTITIES, Arena, arena, started


@pytest.fixture(scope="session", params=IDENTITIES, ids=lambda uid: f"uid{uid}")
def somebody(request: pytest.FixtureRequest) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    with started(request.param) as process:
        yield request.param, process


@pytest.fixture
def ground(somebody: tuple[int, subprocess.Popen[bytes]]) -> Iterator[Arena]:
    with arena(*somebody) as built:
        yield built


@pytest.fixture
def own_ground() -> Iterator[Arena]:
    uid = os.geteuid()
    with started(uid) as process, arena(uid, process) as built:
        yield built
