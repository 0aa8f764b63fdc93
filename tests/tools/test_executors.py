from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from weft.testing.contracts.executor import ExecutorContract
from weft.tools.local import LocalExecutor
from weft.tools.pipe import PipeExecutor

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
        executor = await PipeExecutor.connect(env={**os.environ, "WEFT_HOME": str(shared_home)})
        yield executor
        await executor.close()
