"""The executor over ssh, with the client that needs no program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.far_ends import far_environ
from treadle.executors import ExecutorChoice, SshSource
from treadle.sandbox.policy import SandboxPolicy
from treadle.tools.executor import Bounds, ProcessSpec
from treadle.tools.executor_life import ExecutorGone

from .ssh_machine import ssh_machine


async def test_a_machine_is_reached_without_an_ssh_program(shared_home: Path, tmp_path: Path):
    async with ssh_machine(tmp_path, far_environ(shared_home)) as machine:
        there = tmp_path / "it's there"
        choice = ExecutorChoice(where=f"ssh:box:{there}", env={"OURS": "a 'word'"})
        source = SshSource(f"box:{there}", choice, client=machine.our_client)
        executor = await source.start("thr_1")
        record = executor.record
        assert (record.id, record.workspace, record.shell) == ("box", str(there), "bash")
        assert executor.locate(there / "file") == f"ssh://box{there}/file"
        bounds = Bounds(policy=SandboxPolicy(mode="danger-full-access"), workspace=there)
        spec = ProcessSpec(argv=("sh", "-c", 'pwd; echo "$OURS"'), cwd=there, bounds=bounds)
        process = await executor.start(spec)
        assert b"".join([data async for data in process.output()]) == (
            f"{there}\na 'word'\n".encode()
        )
        await executor.close()
        there.rmdir()
        with pytest.raises(ExecutorGone, match="cannot work in"):
            await source.connect(record)
        stranger = SshSource("nobody.invalid", choice, client=machine.our_client)
        with pytest.raises(ConnectionError, match="cannot reach the machine"):
            await stranger.start("thr_1")
