from __future__ import annotations

import posixpath
from collections.abc import Sequence
from pathlib import Path

import pytest

from treadle.tools.patch import Edit, PatchStale, apply_patch, plan_patch
from treadle.tools.patch.file_edits import digest

from .trees import patch


class MemoryFiles:
    """Files that are nowhere on this machine."""

    def __init__(self, **contents: bytes) -> None:
        self.contents = {Path("/nowhere") / name: data for name, data in contents.items()}

    def locate(self, path: Path, *, follow: bool) -> Path:
        del follow
        return Path(posixpath.normpath(path))

    def read(self, place: Path) -> bytes | None:
        return self.contents.get(place)

    def replace(self, edits: Sequence[Edit]) -> None:
        after = dict(self.contents)
        for edit in edits:
            data = after.pop(edit.place, None)
            if (None if data is None else digest(data)) != edit.before:
                raise PatchStale(edit.place)
            if edit.data is not None:
                after[edit.place] = edit.data
        self.contents = after


TEXT = patch(
    "*** Update File: a",
    "*** Move to: b",
    "-x",
    "+y",
    "*** Delete File: old",
    "*** Add File: sub/new",
    "+z",
)


def test_a_patch_is_applied_to_whatever_files_there_are():
    files = MemoryFiles(a=b"x\n", old=b"")
    assert apply_patch(TEXT, Path("/nowhere"), files=files).summary == (
        "Success. Updated the following files:\nA sub/new\nM b\nD old\n"
    )
    assert files.contents == MemoryFiles(b=b"y\n", **{"sub/new": b"z\n"}).contents


def test_edits_carry_what_they_were_planned_for():
    files = MemoryFiles(a=b"x\n", old=b"")
    plan = plan_patch(TEXT, Path("/nowhere"), files=files)
    a, b, old, new = (Path("/nowhere") / name for name in ("a", "b", "old", "sub/new"))
    assert plan.edits == (
        Edit(place=b, data=b"y\n", before=None, like=a),
        Edit(place=a, data=None, before=digest(b"x\n")),
        Edit(place=old, data=None, before=digest(b"")),
        Edit(place=new, data=b"z\n", before=None),
    )
    files.contents[old] = b"somebody wrote this"
    with pytest.raises(PatchStale):
        plan.apply(files)
    assert files.contents == MemoryFiles(a=b"x\n", old=b"somebody wrote this").contents
