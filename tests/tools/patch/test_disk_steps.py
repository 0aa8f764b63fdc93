from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.tools.patch import disk_steps

from .trees import plant, tree

STEPS: dict[str, Callable[[Path, Path], object]] = {
    "read": lambda here, _: disk_steps.open_file(here / "secret"),
    "look": lambda here, _: disk_steps.can_write(here / "secret"),
    "write": lambda here, _: disk_steps.write_new(here / "new", b"x", None),
    "imitate": lambda here, safe: disk_steps.write_new(safe / "new", b"x", here / "secret"),
    "rename": lambda here, safe: disk_steps.rename(here / "secret", safe / "stolen"),
    "rename onto": lambda here, safe: disk_steps.rename(safe / "mine", here / "secret"),
    "link": lambda here, safe: disk_steps.link(here / "secret", safe / "stolen"),
    "link into": lambda here, safe: disk_steps.link(safe / "mine", here / "planted"),
    "unlink": lambda here, _: disk_steps.unlink(here / "secret"),
    "make a directory": lambda here, _: disk_steps.make_directory(here / "made"),
    "remove a directory": lambda here, _: disk_steps.remove_directory(here / "empty"),
    "sync": lambda here, _: disk_steps.sync_directory(here / "empty"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("depth", ["", "deep"])
def test_no_step_goes_through_a_directory_that_became_a_link(tmp_path: Path, step: str, depth: str):
    outside = tmp_path / "outside" / depth
    there = {"secret": b"secret", "empty": None}
    plant(outside, there)
    plant(tmp_path / "work", {"mine": b"mine", "here": "../outside"})
    with pytest.raises(NotADirectoryError):
        STEPS[step](tmp_path / "work/here" / depth, tmp_path / "work")
    assert tree(outside) == there
    assert not (tmp_path / "work/stolen").exists()


def test_a_file_that_became_a_link_is_not_opened(tmp_path: Path):
    plant(tmp_path, {"secret": b"secret"})
    (tmp_path / "link").symlink_to("secret")
    with pytest.raises(OSError, match="symbolic links"):
        disk_steps.open_file(tmp_path / "link")


def test_a_link_gets_a_second_name_itself(tmp_path: Path):
    (tmp_path / "link").symlink_to("secret")
    disk_steps.link(tmp_path / "link", tmp_path / "second")
    assert (tmp_path / "second").readlink() == Path("secret")


def test_a_directory_that_may_only_be_passed_through_is_passed_through(tmp_path: Path):
    plant(tmp_path / "locked/open", {"a": b"x"})
    (tmp_path / "locked").chmod(0o311)
    disk_steps.rename(tmp_path / "locked/open/a", tmp_path / "locked/open/b")
    (tmp_path / "locked").chmod(0o755)
    assert tree(tmp_path / "locked/open") == {"b": b"x"}
