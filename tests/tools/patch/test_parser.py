from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.tools.patch import (
    AddFile,
    ChangeLine,
    Chunk,
    DeleteFile,
    InvalidPatch,
    Patch,
    PatchParser,
    UpdateFile,
    parse_patch,
)

from .trees import patch

HEADERS = (
    "is not a valid hunk header. Valid hunk headers: "
    "'*** Add File: {path}', '*** Delete File: {path}', '*** Update File: {path}'"
)
KINDS = "Every line should start with ' ' (context line), '+' (added line), or '-' (removed line)"
UPDATE = "*** Update File: f"

ERRORS = {
    "": "invalid patch: The first line of the patch must be '*** Begin Patch'",
    "x\n*** End Patch": "invalid patch: The first line of the patch must be '*** Begin Patch'",
    "*** Begin Patch\nx": "invalid patch: The last line of the patch must be '*** End Patch'",
    "<<'EOF\"\n*** Begin Patch\n*** End Patch\nEOF": (
        "invalid patch: The first line of the patch must be '*** Begin Patch'"
    ),
    "<<EOF\n*** Begin Patch\nx\nEOF": (
        "invalid patch: The last line of the patch must be '*** End Patch'"
    ),
    patch("*** End Patch", "*** Delete File: f"): (
        "invalid patch: The last line of the patch must be '*** End Patch'"
    ),
    patch("*** Move File: f"): f"invalid hunk at line 2, '*** Move File: f' {HEADERS}",
    patch(""): f"invalid hunk at line 2, '' {HEADERS}",
    patch("*** Add File: "): f"invalid hunk at line 2, '*** Add File:' {HEADERS}",
    patch("*** Add File: f", "+x", " y"): f"invalid hunk at line 4, 'y' {HEADERS}",
    patch("*** Delete File: f", "-x"): f"invalid hunk at line 3, '-x' {HEADERS}",
    patch("*** Delete File: f", "*** Environment ID: e"): (
        f"invalid hunk at line 3, '*** Environment ID: e' {HEADERS}"
    ),
    patch(UPDATE): "invalid hunk at line 2, Update file hunk for path 'f' is empty",
    patch(UPDATE, "*** Move to: g"): (
        "invalid hunk at line 2, Update file hunk for path 'f' is empty"
    ),
    patch(UPDATE, "*** End of File"): (
        "invalid hunk at line 2, Update file hunk for path 'f' is empty"
    ),
    patch(UPDATE, "@@"): "invalid hunk at line 4, Update hunk does not contain any lines",
    patch(UPDATE, "@@", "*** End of File"): (
        "invalid hunk at line 4, Update hunk does not contain any lines"
    ),
    patch(UPDATE, "@@", "@@", "-x"): (
        f"invalid hunk at line 4, Unexpected line found in update hunk: '@@'. {KINDS}"
    ),
    patch(UPDATE, "@@ x", "*** Delete File: g"): (
        "invalid hunk at line 4, Unexpected line found in update hunk: "
        f"'*** Delete File: g'. {KINDS}"
    ),
    patch(UPDATE, "x"): (
        f"invalid hunk at line 3, Unexpected line found in update hunk: 'x'. {KINDS}"
    ),
    patch(UPDATE, "-x", "y"): (
        "invalid hunk at line 4, Expected update hunk to start with a @@ context marker, got: 'y'"
    ),
    patch(UPDATE, "-x", "*** Move to: g"): (
        "invalid hunk at line 4, Expected update hunk to start with a @@ context marker, "
        "got: '*** Move to: g'"
    ),
    patch(UPDATE, "-x", "*** End of File", " y"): (
        "invalid hunk at line 5, Expected update hunk to start with a @@ context marker, got: ' y'"
    ),
}

WHOLE = patch(
    "*** Add File: a b",
    "+x",
    "+",
    "*** Delete File: c",
    "*** Update File: d",
    "*** Move to: e",
    "-1",
    "+2",
    "",
    " *** Delete File: only a context line",
    "@@ class A:  ",
    " y",
    "*** End of File",
    "",
    "@@",
    "+z",
)
HUNKS = (
    AddFile("a b", "x\n\n"),
    DeleteFile("c"),
    UpdateFile(
        "d",
        (
            Chunk(
                (
                    ChangeLine("-", "1"),
                    ChangeLine("+", "2"),
                    ChangeLine(" ", ""),
                    ChangeLine(" ", "*** Delete File: only a context line"),
                )
            ),
            Chunk((ChangeLine(" ", "y"),), "class A:", at_end=True),
            Chunk((ChangeLine("+", "z"),)),
        ),
        "e",
    ),
)

LINES = st.sampled_from(
    [*"\n".join([*ERRORS, WHOLE]).split("\n"), "\r", "\t", "<<'EOF'", "EOF", "*** Begin Patch\r"]
)


@pytest.mark.parametrize(("text", "said"), ERRORS.items(), ids=range(len(ERRORS)))
def test_an_invalid_patch_says_what_is_wrong_and_where(text: str, said: str):
    with pytest.raises(InvalidPatch) as caught:
        parse_patch(text)
    assert str(caught.value) == said
    assert caught.value.report == f"apply_patch verification failed: {said}"


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        WHOLE.replace("\n", "\r\n"),
        f"\n\n {WHOLE}\t\n",
        f"<<EOF\n{WHOLE}EOF",
        f"<<'EOF'\n{WHOLE}EOF\n",
        f'<<"EOF"\n{WHOLE}EOF',
        WHOLE + "\n*** End Patch",
    ],
    ids=["plain", "crlf", "padded", "heredoc", "quoted", "double quoted", "ended twice"],
)
def test_every_leniency_gives_the_same_hunks(text: str):
    assert parse_patch(text) == Patch(HUNKS)


def test_an_environment_may_be_named_first():
    found = parse_patch(patch("*** Environment ID:  remote ", "*** Delete File: a"))
    assert found == Patch((DeleteFile("a"),), "remote")


def test_a_patch_is_understood_while_it_arrives():
    parser = PatchParser()
    assert parser.feed("<<'EOF'\n*** Begin") == ()
    assert parser.feed(" Patch\n*** Add File: a\n+x\n+y") == (AddFile("a", "x\n"),)
    assert parser.feed("\n*** Delete File: b\n") == (AddFile("a", "x\ny\n"), DeleteFile("b"))
    assert not parser.ended
    with pytest.raises(InvalidPatch):
        parser.patch()
    parser.feed("*** End Patch\nEOF\n")
    assert parser.patch() == Patch((AddFile("a", "x\ny\n"), DeleteFile("b")))


@given(st.lists(st.integers(0, len(WHOLE))))
def test_pieces_say_what_the_whole_says(cuts: list[int]):
    parser = PatchParser()
    edges = [0, *sorted(cuts), len(WHOLE)]
    for start, end in pairwise(edges):
        parser.feed(WHOLE[start:end])
    assert parser.patch() == Patch(HUNKS)


@given(st.lists(LINES).map("\n".join) | st.lists(LINES).map(lambda lines: patch(*lines)))
def test_any_lines_parse_or_fail_in_the_typed_way(text: str):
    found: Patch | InvalidPatch
    try:
        found = parse_patch(text)
    except InvalidPatch as error:
        found = error
    if isinstance(found, Patch):
        assert all(hunk.path for hunk in found.hunks)
    else:
        assert found.line is None or 2 <= found.line <= text.count("\n") + 1


@given(st.text())
def test_any_text_parses_or_fails_in_the_typed_way(text: str):
    with pytest.raises(InvalidPatch):
        parse_patch(text)
    with pytest.raises(InvalidPatch):
        parse_patch(patch(f"x{text}"))
