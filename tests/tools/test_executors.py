from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from treadle.testing.contracts.tool_executor import ExecutorContract
from treadle.tools.local import LocalExecutor
from treadle.tools.pipe import PipeExecutor

from .conftest import bubblewrap


class TestLocalExecutor(ExecutorContract):
    @pytest.fixture
    async def executor(self, shared_home: Path) -> AsyncIterator[LocalExecutor]:
        executor = LocalExecutor(home=shared_home, sandbox=bubblewrap(shared_home))
        yield executor
        await executor.close()


class TestPipeExecutor(ExecutorContract):
    @pytest.fixture
    async def executor(self, shared_home: Path) -> AsyncIterator[PipeExecutor]:
        executor = await PipeExecutor.connect(env={**os.environ, "TREADLE_HOME": str(shared_home)})
        yield executor
        await executor.close()
