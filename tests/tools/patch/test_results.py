from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from treadle.tools.patch import (
    ChangedFile,
    FileDiff,
    PatchFailed,
    apply_patch,
    plan_diffs,
    plan_patch,
)

from .trees import patch, plant

MANY = patch(
    "*** Delete File: gone",
    "*** Add File: n/new",
    "+1",
    "*** Update File: kept",
    "@@",
    " b",
    "-c",
    "+C",
    "*** Update File: from",
    "*** Move to: to",
    "-x",
    "+y",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    plant(
        tmp_path, {"gone": b"g\n", "kept": b"a\nb\nc\n", "from": b"x\n", "to": b"old\n", "d/f": b""}
    )
    return tmp_path


def test_the_summary_groups_files_by_what_happened_to_them(root):
    assert apply_patch(MANY, root).summary == snapshot("""\
Success. Updated the following files:
A n/new
M kept
M to
D gone
""")


def test_a_plan_knows_every_file_before_and_after(root):
    assert plan_patch(MANY, root).changes == (
        ChangedFile(kind="delete", path="gone", before=b"g\n", after=None),
        ChangedFile(kind="add", path="n/new", before=None, after=b"1\n"),
        ChangedFile(kind="update", path="kept", before=b"a\nb\nc\n", after=b"a\nb\nC\n"),
        ChangedFile(
            kind="update",
            path="from",
            move_to="to",
            before=b"x\n",
            after=b"y\n",
            overwritten=b"old\n",
        ),
    )


def test_diffs_are_for_people(root):
    diffs = plan_diffs(plan_patch(MANY, root))
    assert diffs[0] == FileDiff(
        "delete", "gone", None, 0, 1, "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n"
    )
    assert "".join(diff.text for diff in diffs[1:]) == snapshot("""\
--- /dev/null
+++ b/n/new
@@ -0,0 +1 @@
+1
--- a/kept
+++ b/kept
@@ -1,3 +1,3 @@
 a
 b
-c
+C
--- a/from
+++ b/to
@@ -1 +1 @@
-x
+y
""")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "No files were modified."),
        (["*** Update File: none", "-x"], NONE := "No such file or directory (os error 2)"),
        (["*** Delete File: none"], NONE),
        (["*** Delete File: d"], "Failed to read {root}/d: Is a directory (os error 21)"),
        (
            ["*** Update File: kept", "@@ nowhere", "-x"],
            "Failed to find context 'nowhere' in {root}/kept",
        ),
        (
            ["*** Update File: kept", "-c", "-d"],
            "Failed to find expected lines in {root}/kept:\nc\nd",
        ),
        (
            ["*** Update File: kept", "@@ b", "-a"],
            "Failed to find expected lines in {root}/kept:\na",
        ),
        (
            ["*** Delete File: kept", "*** Add File: kept", "+"],
            "multiple operations target {root}/kept",
        ),
    ],
)
def test_a_patch_that_does_not_fit_says_why(root, lines, said):
    with pytest.raises(PatchFailed) as caught:
        plan_patch(patch(*lines), root)
    assert str(caught.value).endswith(said.format(root=root))
    assert caught.value.report == f"apply_patch verification failed: {caught.value}"


def test_a_big_file_is_patched_at_many_places(tmp_path):
    lines = [f"line {n}" for n in range(50_000)]
    plant(tmp_path, {"big": "\n".join(lines).encode()})
    wanted = range(10, 50_000, 500)
    chunks = [part for n in wanted for part in ("@@", f"-  line {n} ", f"+LINE {n}")]
    apply_patch(patch("*** Update File: big", *chunks), tmp_path)
    found = (tmp_path / "big").read_text().splitlines()
    assert [n for n, line in enumerate(found) if line == f"LINE {n}"] == list(wanted)
