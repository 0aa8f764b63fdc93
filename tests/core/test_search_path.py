from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.arena import NOBODY
from tests.sandbox.runner import become
from treadle.core.errors import SandboxUnavailable
from treadle.core.search_path import explain_missing, find_program
from treadle.sandbox.probe import find_bubblewrap

SYSTEM = "/usr/bin:/bin"


def holds_for_nobody(check: Callable[[], bool], cwd: Path) -> bool:
    """Whether `check` holds in a process in `cwd`, which is not root's."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.chdir(cwd)
            become(NOBODY if os.geteuid() == 0 else os.geteuid())
            code = 0 if check() else 1
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def program(directory: Path, name: str = "tool") -> str:
    directory.mkdir(mode=0o755, exist_ok=True)
    file = directory / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return str(directory)


def test_a_program_below_the_working_directory_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    search = program(tmp_path / "bin")
    assert find_program("tool", search) == tmp_path / "bin" / "tool"
    for here in (tmp_path, tmp_path / "bin", Path("/")):
        monkeypatch.chdir(here)
        assert find_program("tool", search) is None
    assert "lies below the working directory '/'" in explain_missing("tool", "x", search)
    assert explain_missing("other", "x", search) == "'other' is not on the search path; install x"


def test_whoever_is_not_root_finds_the_systems_programs_from_the_top_of_the_disk():
    assert holds_for_nobody(lambda: find_program("prlimit", SYSTEM) is not None, Path("/"))
    assert holds_for_nobody(lambda: find_program("prlimit", SYSTEM) is not None, Path("/usr"))


def test_what_others_can_write_is_not_taken_from_there():
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        search = program(Path(made) / "bin")
        assert holds_for_nobody(lambda: find_program("tool", search) is None, Path("/"))


def test_it_is_said_that_the_working_directory_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    search = program(tmp_path / "bin", "prlimit")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SandboxUnavailable, match="start Treadle in another directory"):
        find_bubblewrap(tmp_path, {"PATH": search})
