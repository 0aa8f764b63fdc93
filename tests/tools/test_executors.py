from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from treadle.testing.contracts.tool_executor import ExecutorContract
from treadle.tools.local import LocalExecutor
from treadle.tools.pipe import PipeExecutor

from .conftest import bubblewrap
from .far_ends import Connection, far_environ


class TestLocalExecutor(ExecutorContract):
    @pytest.fixture
    async def executor(self, shared_home: Path) -> AsyncIterator[LocalExecutor]:
        executor = LocalExecutor(home=shared_home, sandbox=bubblewrap(shared_home))
        yield executor
        await executor.close()


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def connection(shared_home: Path) -> AsyncIterator[Connection[PipeExecutor]]:
    connection = Connection(lambda: PipeExecutor.connect(env=far_environ(shared_home)))
    yield connection
    await connection.close()


@pytest.mark.asyncio(loop_scope="class")
class TestPipeExecutor(ExecutorContract):
    """One connection serves all tests, until one of them closes it."""

    @pytest_asyncio.fixture(loop_scope="class")
    async def executor(self, connection: Connection[PipeExecutor]) -> PipeExecutor:
        return await connection.get()
