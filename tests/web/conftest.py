"""A home with threads of every sort, made once for all tests that only look at it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from .inspector_home import make_home, make_long_thread

SCENES = (
    "mending",
    "delegating",
    "branching",
    "hostile",
    "lossless",
    "approvals",
    "compaction-by-hand",
    "imported-from-codex",
)


@pytest.fixture(scope="session")
def shown_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that tests look at; nobody writes it. The workers of a session share it."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    made = place / "inspected"
    with (place / "inspected.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            asyncio.run(_make(place / "inspected.new"))
            (place / "inspected.new").rename(made)
    return made / "home"


async def _make(place: Path) -> None:
    place.mkdir()
    await make_home(place, *SCENES)
    await make_long_thread(place / "home", 2_000)
