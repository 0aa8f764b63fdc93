"""Which programs Treadle itself runs to reach another machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from treadle.executors.choice import ExecutorChoice
from treadle.executors.pipe import PipeSource
from treadle.executors.program import run_program
from treadle.executors.ssh import SshSource

NAME = "reach-a-far-machine"


@pytest.fixture
def evil(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a program that a command left in the working directory writes when it runs."""
    marker = workspace.parent / "evil"
    programs = workspace / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in (NAME, "ssh"):
        (programs / name).write_text(f"#!/bin/sh\n: >{marker}\n")
        (programs / name).chmod(0o755)
    module = workspace / "treadle" / "executors"
    module.mkdir(parents=True)
    for package in (module.parent, module):
        (package / "__init__.py").touch()
    (module / "ssh_client.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}.")
    return marker


async def test_a_program_of_the_working_directory_makes_no_container(evil: Path):
    with pytest.raises(OSError, match="lies below the working directory"):
        await run_program(NAME, "ps")
    assert not evil.exists()


async def test_a_program_of_the_working_directory_is_no_pipe(evil: Path):
    source = PipeSource((NAME, "box"), ExecutorChoice(where=f"pipe:{NAME} box"))
    with pytest.raises(OSError, match="lies below the working directory"):
        await source.start("thr_a")
    assert not evil.exists()


async def test_no_client_of_the_working_directory_reaches_another_machine(evil: Path):
    # Nobody speaks ssh on this port; the client that tries must be Treadle's own.
    source = SshSource("127.0.0.1", ExecutorChoice(where="ssh:127.0.0.1"))
    with pytest.raises(OSError, match=r"the machine '127\.0\.0\.1'"):
        await source.start("thr_a")
    assert not evil.exists()
