"""A `tmp_path` in memory, for rooms whose tests sync databases thousands of times.

    from tests.in_memory import tmp_path

in a room's `conftest.py`. Where there is no file system in memory with enough room, it is the
usual one. Not for rooms that start the sandbox: its commands have a `/dev` of their own.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

__all__ = ["tmp_path"]

_PLACE = Path("/dev/shm")
_ENOUGH = 2 << 30


@cache
def _has_room() -> bool:
    if not os.access(_PLACE, os.W_OK):
        return False
    found = os.statvfs(_PLACE)
    return found.f_bavail * found.f_frsize >= _ENOUGH


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory for one test; it is removed afterwards."""
    if not _has_room():
        factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        yield factory.mktemp("test")
        return
    name = re.sub(r"\W", "_", request.node.name)[:30]
    place = Path(tempfile.mkdtemp(prefix=f"treadle-{name}-", dir=_PLACE))
    yield place
    shutil.rmtree(place, ignore_errors=True)
