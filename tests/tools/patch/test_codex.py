from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.prompt.codex_import import find_codex
from treadle.tools.patch import InvalidPatch, PatchError, apply_patch

from .test_parser import ERRORS
from .test_scenarios import CASES, Case
from .trees import Tree, leaves, patch, plant

Outcome = tuple[str, Tree]

# Theirs keeps what was done before a failure; ours takes nothing half.
SAME = [case for case in CASES if case.name[:3].isdigit() and not case.name.startswith("015")]

TEXTS = ["a", "b", "", "  a", "a ", "“q”", '"q"', "x\u00a0y", "x y"]
FILES = st.lists(
    st.tuples(st.sampled_from(TEXTS), st.sampled_from(["\n", "\n", "\r\n", "\r"])), max_size=7
).map(lambda lines: "".join(text + ending for text, ending in lines))
# Naming a file twice is refused by ours and by their tool, but not by their command.
CHANGES = (
    st.lists(
        st.sampled_from(
            ["@@", "@@ a", "@@ b", "*** End of File", "*** Move to: m", "*** Delete File: h"]
            + [kind + text for kind in " -+" for text in TEXTS]
        ),
        min_size=1,
        max_size=7,
    )
    .filter(lambda lines: lines.count("*** Delete File: h") < 2)
    .map(lambda lines: patch("*** Update File: f", *lines))
)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path, str], Outcome]:
    """Applies a patch with the real thing, which goes by the name it is called."""
    place = tmp_path_factory.mktemp("codex")
    (place / "apply_patch").symlink_to(find_codex())
    environ = {
        **os.environ,
        "CODEX_HOME": str(place),
        "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS": "1",
    }

    def outcome(root: Path, text: str) -> Outcome:
        done = subprocess.run(
            [place / "apply_patch"],
            input=text.encode(),
            capture_output=True,
            cwd=root,
            env=environ,
            check=False,
        )
        return (done.stdout + done.stderr).decode().rstrip("\n"), leaves(root)

    return outcome


def ours(root: Path, text: str) -> Outcome:
    try:
        said = apply_patch(text, root).summary
    except InvalidPatch as error:
        where = "Invalid patch" + (f" hunk on line {error.line}" if error.line else "")
        said = f"{where}: {error.detail}"
    except PatchError as error:
        said = str(error)
    return said.rstrip("\n"), leaves(root)


def compare(theirs: Callable[[Path, str], Outcome], before: Tree, text: str) -> None:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        roots = Path(first).resolve(), Path(second).resolve()
        for root in roots:
            plant(root, before)
        expected, found = theirs(roots[0], text), ours(roots[1], text)
    said = found[0].replace(str(roots[1]), str(roots[0]))
    # Ours tells in advance why a file cannot be deleted; theirs only that it could not.
    if expected[0].startswith("Failed to delete file "):
        said = said.replace("Failed to read ", "Failed to delete file ").partition(": ")[0]
    assert (said, found[1]) == expected


@pytest.mark.parametrize("case", SAME, ids=lambda case: case.name)
def test_codex_does_the_same(theirs, case: Case):
    compare(theirs, case.before, case.text)


@pytest.mark.parametrize("text", list(filter(None, ERRORS)), ids=range(1, len(ERRORS)))
def test_codex_says_the_same_of_an_invalid_patch(theirs, text: str):
    compare(theirs, {"f": b"x\n"}, text)


@given(FILES, CHANGES)
def test_codex_changes_any_file_in_the_same_way(theirs, content: str, text: str):
    compare(theirs, {"f": content.encode(), "h": b""}, text)
