from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.core.files import open_replacement, read_bounded, replace_file

WATCHED = """
import sys
from pathlib import Path

from treadle.core.files import replace_file

target = Path(sys.argv[1])

def watch(event, args):
    if event == "os.rename":
        print("rename", Path(args[1]).name, flush=True)
    if event == "open" and str(args[0]) == str(target.parent):
        print("open directory", flush=True)

sys.addaudithook(watch)
replace_file(target, b"new")
"""


def test_a_file_is_replaced_whole_and_for_its_owner_only(tmp_path: Path):
    file = tmp_path / "deep" / "file.json"
    replace_file(file, b"old")
    file.chmod(0o644)
    replace_file(file, b"new")
    assert read_bounded(file, 10) == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [*file.parent.iterdir()] == [file]


def test_the_directory_is_synced_after_the_rename(tmp_path: Path):
    command = [sys.executable, "-c", WATCHED, str(tmp_path / "file")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["rename file", "open directory"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path):
    file = tmp_path / "file"
    replace_file(file, b"old")
    with pytest.raises(TypeError), open_replacement(file) as new:
        new.writelines([b"half of it", "no bytes"])  # type: ignore[list-item]
    assert file.read_bytes() == b"old"
    assert [*tmp_path.iterdir()] == [file]


def test_long_names_can_be_replaced(tmp_path: Path):
    file = tmp_path / ("名" * 80)
    replace_file(file, b"new")
    assert file.read_bytes() == b"new"


def test_only_regular_files_up_to_a_size_are_read(tmp_path: Path):
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_bounded(file, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_bounded(file, 4)
    with pytest.raises(IsADirectoryError):
        read_bounded(tmp_path, 4)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        read_bounded(tmp_path / "pipe", 4)
