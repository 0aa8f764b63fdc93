"""Far ends for tests: where they run, and connections that serve many tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Generic, TypeVar

from treadle.executors import RemoteExecutor
from treadle.tools.pipe import PipeExecutor

from .conftest import bubblewrap


def far_environ(home: Path) -> dict[str, str]:
    """Return the variables of a far end on this machine: it finds bubblewrap like a program."""
    programs = home.parent / f"{home.name}-programs"
    if not programs.exists():
        programs.mkdir()
        shutil.copy(bubblewrap(home).binary, programs / "bwrap")
    search = f"{programs}:{os.environ['PATH']}"
    return {**os.environ, "TREADLE_HOME": str(home), "PATH": search}


T = TypeVar("T", PipeExecutor, RemoteExecutor)


class Connection(Generic[T]):
    """A connection to a far end, made again when a test has closed it."""

    def __init__(self, connect: Callable[[], Awaitable[T]]) -> None:
        self._connect: Callable[[], Awaitable[T]] = connect
        self._executor: T | None = None

    async def get(self) -> T:
        if self._executor is None or not self._executor.is_connected:
            self._executor = await self._connect()
        return self._executor

    async def close(self) -> None:
        if self._executor is not None:
            await self._executor.close()
