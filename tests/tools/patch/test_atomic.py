from __future__ import annotations

import os
import random
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from treadle.tools.patch import (
    LocalFiles,
    PatchFailed,
    PatchRefused,
    PatchStale,
    UndoFailed,
    apply_patch,
    plan_patch,
)

from .trees import patch, plant, tree

THREE = patch(
    "*** Update File: a",
    "@@",
    "-x",
    "+y",
    "*** Delete File: b",
    "*** Update File: c",
    "*** Move to: new/dir/c",
    "@@",
    "-x",
    "+y",
    "*** Add File: d",
    "+y",
)
BEFORE = {"a": b"x\n", "b": b"x\n", "c": b"x\n"}

APPLY = """
import os, resource, signal, sys
from pathlib import Path
from treadle.tools.patch import PatchFailed, apply_patch
{first}
try:
    apply_patch(sys.stdin.read(), Path(sys.argv[1]))
except PatchFailed as error:
    print(error)
"""

AS_SOMEBODY = """
if os.getuid() == 0:  # whom permissions do not bind
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
"""

WITH_LITTLE_SPACE = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
"""

KILLED = """
import sys
from pathlib import Path
from treadle.tools.patch import apply_patch
root, size = Path(sys.argv[1]), int(sys.argv[2])
old, new = "0" * 64, "1" * 64
print("ready", flush=True)
while True:
    lines = ["*** Begin Patch"]
    for n in range(4):
        lines += [f"*** Update File: {n}", "@@"] + [f"-{old}"] * size + [f"+{new}"] * size
    lines += ["*** End Patch"]
    apply_patch("\\n".join(lines), root)
    old, new = new, old
"""


@pytest.mark.parametrize(
    "meddle",
    [
        lambda root: (root / "a").write_bytes(b"x\nsomething else\n"),
        lambda root: (root / "b").unlink(),
        lambda root: (root / "d").write_bytes(b"somebody was faster\n"),
        lambda root: ((root / "a").unlink(), (root / "a").symlink_to("/etc/hostname")),
    ],
    ids=["changed", "gone", "made", "linked"],
)
def test_a_file_that_changed_after_planning_stops_the_whole_patch(tmp_path, meddle):
    plant(tmp_path, BEFORE)
    plan = plan_patch(THREE, tmp_path)
    meddle(tmp_path)
    found = tree(tmp_path)
    with pytest.raises(PatchStale, match="changed while the patch was being applied"):
        plan.apply()
    assert tree(tmp_path) == found


def test_a_directory_that_became_a_link_stops_the_patch(tmp_path):
    plant(tmp_path, {"in/a": b"x\n", "out/a": b"x\n"})
    plan = plan_patch(patch("*** Update File: in/a", "-x", "+y"), tmp_path)
    (tmp_path / "in").rename(tmp_path / "moved")
    (tmp_path / "in").symlink_to("out")
    found = tree(tmp_path)
    with pytest.raises(PatchStale):
        plan.apply()
    assert tree(tmp_path) == found


def test_a_patch_that_fails_while_it_is_written_is_undone(tmp_path):
    plant(tmp_path, BEFORE)
    inode = (tmp_path / "a").stat().st_ino
    plan = plan_patch(THREE, tmp_path)
    (tmp_path / "d").mkdir()
    found = tree(tmp_path)
    with pytest.raises(PatchFailed, match="Is a directory"):
        plan.apply()
    assert tree(tmp_path) == found
    assert (tmp_path / "a").stat().st_ino == inode


def test_a_rename_that_fails_after_others_succeeded_is_undone(tmp_path):
    plant(tmp_path, {**BEFORE, "z/inner": b"x\n"})
    found = tree(tmp_path)

    class Late(LocalFiles):
        """The content of `z/inner` changes when everything else is already in place."""

        reads = 0

        def read(self, place):
            data = super().read(place)
            if place.name == "inner":
                self.reads += 1
                return b"changed\n" if self.reads == 3 else data
            return data

    text = THREE.replace("*** End Patch", "*** Update File: z/inner\n-x\n+y\n*** End Patch")
    with pytest.raises(PatchStale):
        apply_patch(text, tmp_path, files=Late())
    assert tree(tmp_path) == found


def test_what_cannot_be_undone_is_named(tmp_path):
    plant(tmp_path, {"in/a": b"x\n", "z": b"x\n"})

    class Hostile(LocalFiles):
        """Takes a directory away when half of the patch is in place."""

        reads = 0

        def read(self, place):
            if place.name == "z":
                self.reads += 1
                if self.reads == 3:
                    (tmp_path / "in").rename(tmp_path / "away")
                    return b"changed\n"
            return super().read(place)

    text = patch("*** Add File: in/b", "+y", "*** Update File: z", "-x", "+y")
    with pytest.raises(UndoFailed) as caught:
        apply_patch(text, tmp_path, files=Hostile())
    assert caught.value.left == (tmp_path / "in/b",)
    assert (tmp_path / "z").read_bytes() == b"x\n"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that every user may write."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        root.chmod(0o777)
        yield root


@pytest.mark.parametrize(
    ("hunk", "said"),
    [
        (["*** Add File: d/b", "+y"], "write"),
        (["*** Add File: d/new", "+y"], "write"),
        (["*** Delete File: d/b"], "delete"),
        (["*** Update File: d/b", "-x", "+y"], "write"),
        (["*** Update File: d/b", "*** Move to: moved", "-x", "+y"], "delete"),
    ],
    ids=["overwrite", "add", "delete", "update", "move"],
)
def test_a_directory_that_may_not_be_written_stops_the_whole_patch(shared, hunk, said):
    plant(shared, {"a": b"x\n", "d/b": b"x\n"})
    (shared / "a").chmod(0o666)
    (shared / "d").chmod(0o555)
    found = tree(shared)
    told = told_by_a_child(AS_SOMEBODY, shared, patch("*** Update File: a", "-x", "+y", *hunk))
    name = "new" if "*** Add File: d/new" in hunk else "b"
    assert told == f"Failed to {said} file {shared}/d/{name}: Permission denied (os error 13)\n"
    assert tree(shared) == found


def test_a_file_that_may_not_be_written_is_not_replaced(shared):
    plant(shared, {"a": b"x\n"})
    (shared / "a").chmod(0o444)
    told = told_by_a_child(AS_SOMEBODY, shared, patch("*** Update File: a", "-x", "+y"))
    assert told == f"Failed to write file {shared}/a: Permission denied (os error 13)\n"
    assert tree(shared) == {"a": b"x\n"}


def told_by_a_child(first: str, root: Path, text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", APPLY.format(first=first), str(root)],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_a_disk_that_fills_up_leaves_everything_as_it_was(tmp_path):
    plant(tmp_path, BEFORE)
    text = patch("*** Update File: a", "-x", "+y", "*** Add File: big", f"+{'x' * 200_000}")
    told = told_by_a_child(WITH_LITTLE_SPACE, tmp_path, text)
    assert told == f"Failed to write file {tmp_path}/big: File too large (os error 27)\n"
    assert tree(tmp_path) == BEFORE


def test_modes_stay_and_travel_with_a_move(tmp_path):
    plant(tmp_path, BEFORE)
    (tmp_path / "a").chmod(0o750)
    (tmp_path / "c").chmod(0o4711)
    apply_patch(THREE, tmp_path)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "new/dir/c")}
    assert modes == {"a": 0o750, "new/dir/c": 0o4711}


def test_a_new_file_gets_the_usual_mode(tmp_path):
    (tmp_path / "usual").touch()
    apply_patch(patch("*** Add File: new", "+x"), tmp_path)
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_another_name_of_the_same_file_keeps_the_old_content(tmp_path):
    plant(tmp_path, {"a": b"x\n"})
    (tmp_path / "other").hardlink_to(tmp_path / "a")
    apply_patch(patch("*** Update File: a", "-x", "+y"), tmp_path)
    assert tree(tmp_path) == {"a": b"y\n", "other": b"x\n"}


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PatchFailed, match=r"Invalid argument \(os error 22\)"):
        apply_patch(patch("*** Update File: pipe", "-x", "+y"), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        patch("*** Update File: link", "-x", "+y"),
        patch("*** Add File: link", "+y"),
        patch("*** Add File: linked/new", "+y"),
        patch("*** Add File: ../out/new", "+y"),
        patch("*** Delete File: ../out/a"),
        patch("*** Update File: own", "*** Move to: ../out/b", "-x", "+y"),
        patch("*** Update File: own", "*** Move to: dangling", "-x", "+y"),
        patch("*** Update File: own", "-x", "+y", "*** Delete File: linked/a"),
    ],
)
def test_places_outside_the_root_are_refused_by_whatever_name(tmp_path, text):
    root = tmp_path / "in"
    plant(
        tmp_path,
        {
            "out/a": b"x\n",
            "in/own": b"x\n",
            "in/link": "../out/a",
            "in/linked": "../out",
            "in/dangling": "../out/nothing",
        },
    )
    found = tree(tmp_path)
    with pytest.raises(PatchRefused, match="must not be written"):
        apply_patch(text, root, allowed=lambda place: place.is_relative_to(root))
    assert tree(tmp_path) == found


@pytest.mark.parametrize("round_", range(8))
def test_a_killed_patch_leaves_every_file_old_or_new(tmp_path, round_):
    size = 2_000
    contents = {(f"{digit}" * 64 + "\n").encode() * size for digit in (0, 1)}
    root = tmp_path / "root"
    plant(root, {f"{n}": ("0" * 64 + "\n").encode() * size for n in range(4)})
    command = [sys.executable, "-c", KILLED, str(root), str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(random.Random(round_).uniform(0.05, 0.4))
        child.kill()
    left = {
        name: data for name, data in tree(root).items() if not name.startswith(".treadle-patch-")
    }
    assert sorted(left) == ["0", "1", "2", "3"]
    assert set(left.values()) <= contents
