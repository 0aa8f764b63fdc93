"""The contract of executors, on what stands in for other machines."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.tools.far_ends import Connection, far_environ
from treadle.executors import ExecutorChoice, RemoteExecutor, SshSource, find_source
from treadle.testing.contracts.tool_executor import ExecutorContract
from treadle.tools.executor import ToolExecutor
from treadle.tools.pipe import PipeExecutor

from .conftest import bubblewrap
from .fake_e2b import fake_e2b
from .ssh_machine import ssh_machine
from .stand_ins import write_stand_ins


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


@asynccontextmanager
async def in_container(
    place: Path, choice: ExecutorChoice, environ: dict[str, str]
) -> AsyncIterator[Connection[RemoteExecutor]]:
    """An executor that is made and woken as a thread does it, on a stand-in for its service."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        source = find_source(choice, cwd=place)
        assert source is not None

        async def connect() -> RemoteExecutor:
            found = await source.start("thr_1")
            assert isinstance(found, RemoteExecutor)
            return found

        connection = Connection(connect)
        yield connection
        await connection.close()


@pytest_asyncio.fixture(scope="class", loop_scope="class", params=["docker:box", "kubernetes:box"])
async def by_program(
    request: pytest.FixtureRequest, shared_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Connection[RemoteExecutor]]:
    place = tmp_path_factory.mktemp("programs")
    environ = write_stand_ins(place, far_environ(shared_home)["PATH"])
    choice = ExecutorChoice(
        where=request.param, namespace="agents", workspace=str(place / "workspace")
    )
    async with in_container(place, choice, environ) as connection:
        yield connection


@pytest.mark.asyncio(loop_scope="class")
class TestContainersByProgram(ExecutorContract):
    """What `docker exec` and `kubectl exec` lead to, by stand-ins for both."""

    @pytest_asyncio.fixture(loop_scope="class")
    async def executor(self, by_program: Connection[RemoteExecutor]) -> ToolExecutor:
        return await by_program.get()


@pytest_asyncio.fixture(scope="class", loop_scope="class")
async def at_e2b(
    shared_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Connection[RemoteExecutor]]:
    place = tmp_path_factory.mktemp("e2b")
    async with fake_e2b(place) as fake:
        environ = {**fake.environ, "PATH": far_environ(shared_home)["PATH"]}
        choice = ExecutorChoice(where="e2b:base", workspace=str(place / "workspace"))
        async with in_container(place, choice, environ) as connection:
            yield connection


@pytest.mark.asyncio(loop_scope="class")
class TestE2BExecutor(ExecutorContract):
    """What the daemon of a sandbox of E2B leads to, by a stand-in for its API."""

    @pytest_asyncio.fixture(loop_scope="class")
    async def executor(self, at_e2b: Connection[RemoteExecutor]) -> ToolExecutor:
        return await at_e2b.get()
