"""The contract of executors, on what stands in for other machines."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.tools.far_ends import Connection, far_environ
from treadle.executors import ExecutorChoice, RemoteExecutor, SshSource
from treadle.testing.contracts.tool_executor import ExecutorContract
from treadle.tools.executor import ToolExecutor
from treadle.tools.pipe import PipeExecutor

from .conftest import bubblewrap
from .ssh_machine import ssh_machine


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def over_ssh(
    shared_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Connection[RemoteExecutor]]:
    place = tmp_path_factory.mktemp("ssh")
    async with ssh_machine(place, far_environ(shared_home)) as machine:
        choice = ExecutorChoice(where="ssh:box", workspace=str(place / "there"))
        source = SshSource("box", choice, client=machine.client)
        connection = Connection(lambda: source.start("thr_1"))
        yield connection
        await connection.close()


@pytest.mark.asyncio(loop_scope="class")
class TestSshExecutor(ExecutorContract):
    @pytest_asyncio.fixture(loop_scope="class")
    async def executor(self, over_ssh: Connection[RemoteExecutor]) -> ToolExecutor:
        return await over_ssh.get()


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def in_namespaces(shared_home: Path) -> AsyncIterator[Connection[PipeExecutor]]:
    command = (
        str(bubblewrap(shared_home).binary),
        *("--bind", "/", "/", "--proc", "/proc", "--dev", "/dev"),
        *("--unshare-pid", "--unshare-uts", "--unshare-ipc", "--hostname", "elsewhere"),
        *("--die-with-parent", "--"),
    )
    connection = Connection(
        lambda: PipeExecutor.connect(command, env=far_environ(shared_home), name="the namespaces")
    )
    yield connection
    await connection.close()


@pytest.mark.asyncio(loop_scope="class")
class TestPipeIntoNamespaces(ExecutorContract):
    """A command that leads to other processes, another host name, and the same files."""

    @pytest_asyncio.fixture(loop_scope="class")
    async def executor(self, in_namespaces: Connection[PipeExecutor]) -> PipeExecutor:
        executor = await in_namespaces.get()
        assert executor.hello.pid != os.getpid()
        return executor
