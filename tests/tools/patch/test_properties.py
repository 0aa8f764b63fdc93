from __future__ import annotations

import difflib
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from treadle.tools.patch import PatchError, apply_patch, plan_diffs, plan_patch

from .trees import patch, plant, tree

LINES = st.lists(
    st.sampled_from(
        ["", "a", "b", "  a", "a ", "\tdef f():", "é", "“q”", "*** End Patch", "@@", "+"]
    )
    | st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8),
    max_size=12,
)
ENDINGS = st.sampled_from(["\n", "\r\n", "\r"])


def as_patch(old: list[str], new: list[str]) -> str:
    """One chunk that shows the whole file, as a model without doubts would write it."""
    lines = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [f" {line}" for line in old[a:b]]
        else:
            lines += [f"-{line}" for line in old[a:b]] + [f"+{line}" for line in new[c:d]]
    return patch("*** Update File: f", "@@", *lines)


@given(LINES.filter(bool), LINES, ENDINGS)
def test_a_patch_made_of_two_texts_turns_one_into_the_other(old, new, ending):
    before = "".join(line + ending for line in old).encode()
    after = "".join(line + ending for line in new).encode()
    with tempfile.TemporaryDirectory() as name:
        plant(Path(name), {"f": before})
        apply_patch(as_patch(old, new), Path(name))
        assert tree(Path(name)) == {"f": after}


@given(
    LINES.filter(bool), LINES, st.lists(st.sampled_from(["\n", "\r\n"]), min_size=12, max_size=12)
)
def test_lines_that_are_kept_keep_their_endings(old, new, endings):
    before = "".join(line + ending for line, ending in zip(old, endings, strict=False))
    with tempfile.TemporaryDirectory() as name:
        plant(Path(name), {"f": before.encode()})
        apply_patch(as_patch(old, [*old, *new]), Path(name))
        assert (Path(name) / "f").read_bytes().startswith(before.encode())


@given(LINES, st.lists(LINES, max_size=3), st.binary(max_size=30))
def test_a_patch_that_fails_changes_nothing(old, chunks, blob):
    body = [line for chunk in chunks for line in ("@@", *(f"-{text}" for text in chunk))]
    text = patch(
        "*** Add File: sub/new",
        "+x",
        "*** Delete File: blob",
        "*** Update File: f",
        *body,
        "-this line is nowhere",
    )
    with tempfile.TemporaryDirectory() as name:
        plant(Path(name), {"f": "\n".join(old).encode(), "blob": blob})
        before = tree(Path(name))
        failure = None
        try:
            apply_patch(text, Path(name))
        except PatchError as error:
            failure = error
        assert failure is not None
        assert tree(Path(name)) == before


@given(LINES, LINES)
def test_a_plan_shows_what_it_would_do_and_does_nothing(old, new):
    with tempfile.TemporaryDirectory() as name:
        plant(Path(name), {"f": "".join(f"{line}\n" for line in ["x", *old]).encode()})
        before = tree(Path(name))
        (diff,) = plan_diffs(plan_patch(as_patch(["x", *old], ["x", *new]), Path(name)))
        assert tree(Path(name)) == before
        assert diff.added - diff.removed == len(new) - len(old)
