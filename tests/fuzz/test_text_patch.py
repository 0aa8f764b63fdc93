from __future__ import annotations

import os
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.patch.trees import patch, plant, tree
from treadle.tools.patch import (
    InvalidPatch,
    PatchError,
    PatchFailed,
    PatchParser,
    PatchRefused,
    apply_patch,
    parse_patch,
    plan_patch,
)
from treadle.tools.patch.file_edits import LARGEST_FILE
from treadle.tools.patch.parser import LONGEST_PATCH, MOST_HUNKS
from treadle.tools.patch.patch_plan import MOST_HELD
from treadle.tools.patch.update import LineSearch

STEPS = st.sampled_from(
    ["..", ".", "a", "out", "loop", "sub", "", "-rf", "n\x1bl", "\udcff", "x\0", "é" * 200, "~"]
)
PATHS = st.lists(STEPS, min_size=1, max_size=5).map("/".join)
LINES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=30)


def hunks(path: str, other: str) -> st.SearchStrategy[list[str]]:
    return st.sampled_from(
        [
            [f"*** Add File: {path}", "+x"],
            [f"*** Delete File: {path}"],
            [f"*** Update File: {path}", "@@", "-a", "+b"],
            [f"*** Update File: {path}", f"*** Move to: {other}", "@@", "-a", "+b"],
        ]
    )


@given(st.data())
def test_no_path_leads_a_patch_out_of_where_it_may_write(data: st.DataObject):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        inside = root / "inside"
        plant(
            root,
            {
                "secret": b"a\n",
                "inside/a": b"a\n",
                "inside/sub/a": b"a\n",
                "inside/out": "..",
                "inside/loop": "loop",
            },
        )
        paths = PATHS | st.just(f"{root}/secret")
        body = data.draw(hunks(data.draw(paths), data.draw(paths)))
        before = tree(root)
        try:
            apply_patch(patch(*body), inside, allowed=lambda at: at.is_relative_to(inside))
        except PatchError:
            assert tree(root) == before
        outside = {name: held for name, held in tree(root).items() if not name.startswith("inside")}
        assert outside == {"secret": b"a\n"}


@given(LINES, st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4), st.integers(0, 9))
def test_lines_are_found_where_a_plain_search_finds_them(lines, wanted, start):
    plain = [
        at
        for at in range(start, len(lines) - len(wanted) + 1)
        if lines[at : at + len(wanted)] == wanted
    ]
    assert LineSearch(lines).find(wanted, start) == (plain[0] if plain else None)
    many = ["a"] * 100 + lines
    shifted = LineSearch(many).find(["a"] * 40 + wanted, 0)
    whole = "".join(many).find("a" * 40 + "".join(wanted))
    assert shifted == (None if whole < 0 else whole)


def test_lines_that_nearly_fit_everywhere_are_looked_at_once():
    lines = ["a"] * 200_000
    assert LineSearch(lines).find([*lines[:100_000], "b"], 0) is None


def test_searches_without_end_are_refused(tmp_path):
    plant(tmp_path, {"f": b"y \n" * 300 + b"x\n" * 100_000})
    chunks = ["@@", "-y", "+y"] * 300
    with pytest.raises(PatchFailed, match="too many chunks for files this long; send fewer"):
        plan_patch(patch("*** Update File: f", *chunks), tmp_path)


def test_a_patch_that_is_too_long_is_refused_whole_and_in_pieces():
    text = patch("*** Add File: f", "+" + "x" * LONGEST_PATCH)
    for read in (parse_patch, PatchParser().feed):
        with pytest.raises(InvalidPatch, match="more than 16,777,216 characters; send several"):
            read(text)


def test_a_patch_of_too_many_files_is_refused():
    with pytest.raises(InvalidPatch, match="touches more than 10,000 files; send several"):
        parse_patch(patch(*(f"*** Delete File: {n}" for n in range(MOST_HUNKS + 1))))
    assert len(parse_patch(patch(*(f"*** Delete File: {n}" for n in range(MOST_HUNKS)))).hunks)


def test_a_line_without_an_end_costs_what_it_is_long():
    parser = PatchParser()
    parser.feed("*** Begin Patch\n*** Add File: f\n+")
    for _ in range(100_000):
        parser.feed("x" * 10)
    parser.feed("\n*** End Patch\n")
    assert parser.patch().hunks[0].content == "x" * 1_000_000 + "\n"  # type: ignore[union-attr]


@pytest.mark.parametrize("verb", ["Update", "Delete", "Add"])
@pytest.mark.parametrize("strange", ["pipe", "device", "huge", "directory", "loop"])
def test_what_is_no_ordinary_file_is_refused_in_little_memory(tmp_path, verb, strange):
    place = tmp_path / "f"
    match strange:
        case "pipe":
            os.mkfifo(place)
        case "device":
            place.symlink_to("/dev/zero")
        case "huge":
            with place.open("wb") as made:
                made.truncate(1 << 40)
        case "directory":
            place.mkdir()
        case "loop":
            place.symlink_to("f")
    lines = {"Update": ["@@", "-a", "+b"], "Delete": [], "Add": ["+x"]}[verb]
    tracemalloc.start()
    try:
        with pytest.raises(PatchFailed):
            apply_patch(patch(f"*** {verb} File: f", *lines), tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 3 * LARGEST_FILE
    finally:
        tracemalloc.stop()


def test_many_large_files_are_refused_together(tmp_path):
    count = MOST_HELD // LARGEST_FILE + 1
    for number in range(count):
        with (tmp_path / f"f{number}").open("wb") as made:
            made.truncate(LARGEST_FILE)
    text = patch(*(f"*** Delete File: f{number}" for number in range(count)))
    with pytest.raises(PatchFailed, match="changes more than 134,217,728 bytes; send several"):
        apply_patch(text, tmp_path)
    assert len(list(tmp_path.iterdir())) == count


def test_a_link_in_the_middle_is_followed_before_it_is_judged(tmp_path):
    plant(tmp_path, {"inside/out": "..", "secret": b"a\n"})
    inside = tmp_path / "inside"
    with pytest.raises(PatchRefused, match="must not be written"):
        apply_patch(
            patch("*** Update File: out/secret", "@@", "-a", "+b"),
            inside,
            allowed=lambda at: at.is_relative_to(inside),
        )
