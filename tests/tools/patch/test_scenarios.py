from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from treadle.tools.patch import PatchError, apply_patch

from .trees import Tree, leaves, patch, plant


@dataclass
class Case:
    name: str
    text: str
    before: Tree = field(default_factory=dict)
    after: Tree | None = None
    """None: the patch fails, and nothing changes."""


CASES = [
    Case(
        "001 add file",
        patch("*** Add File: notes.md", "+one", "+", "+ two"),
        {},
        {"notes.md": b"one\n\n two\n"},
    ),
    Case(
        "002 multiple operations",
        patch(
            "*** Add File: deep/er/new.txt",
            "+fresh",
            "*** Delete File: old.txt",
            "*** Update File: kept.txt",
            "@@",
            "-second",
            "+2nd",
        ),
        {"old.txt": b"bye\n", "kept.txt": b"first\nsecond\n"},
        {"deep/er/new.txt": b"fresh\n", "kept.txt": b"first\n2nd\n"},
    ),
    Case(
        "003 multiple chunks",
        patch("*** Update File: n", "@@", "-2", "+two", "@@", "-4", "+four"),
        {"n": b"1\n2\n3\n4\n"},
        {"n": b"1\ntwo\n3\nfour\n"},
    ),
    Case(
        "004 move to new directory",
        patch("*** Update File: old/a", "*** Move to: new/dir/a", "@@", "-x", "+y"),
        {"old/a": b"x\n", "old/b": b"stays\n"},
        {"old/b": b"stays\n", "new/dir/a": b"y\n"},
    ),
    Case("005 rejects empty patch", patch(), {"a": b"same\n"}),
    Case(
        "006 rejects missing context",
        patch("*** Update File: a", "@@", "-absent", "+x"),
        {"a": b"1\n2\n"},
    ),
    Case("007 rejects missing file delete", patch("*** Delete File: none"), {"a": b"same\n"}),
    Case("008 rejects empty update hunk", patch("*** Update File: a"), {"a": b"same\n"}),
    Case(
        "009 requires existing file for update",
        patch("*** Update File: none", "@@", "-x", "+y"),
        {"a": b"same\n"},
    ),
    Case(
        "010 move overwrites existing destination",
        patch("*** Update File: from", "*** Move to: to/here", "@@", "-x", "+y"),
        {"from": b"x\n", "to/here": b"in the way\n"},
        {"to/here": b"y\n"},
    ),
    Case(
        "011 add overwrites existing file",
        patch("*** Add File: a", "+new"),
        {"a": b"old\n"},
        {"a": b"new\n"},
    ),
    Case("012 delete directory fails", patch("*** Delete File: d"), {"d/a": b"same\n"}),
    Case("013 rejects invalid hunk header", patch("*** Rename File: a"), {"a": b"same\n"}),
    Case(
        "014 update file appends trailing newline",
        patch("*** Update File: a", "@@", "-end", "+first", "+last"),
        {"a": b"end"},
        {"a": b"first\nlast\n"},
    ),
    Case(
        "015 failure after partial success changes nothing",
        patch("*** Add File: made", "+x", "*** Update File: none", "@@", "-x", "+y"),
        {"a": b"same\n"},
    ),
    Case(
        "016 pure addition update chunk",
        patch("*** Update File: a", "@@", "+3", "+4"),
        {"a": b"1\n2\n"},
        {"a": b"1\n2\n3\n4\n"},
    ),
    Case(
        "017 whitespace padded hunk header",
        patch("  *** Update File: a  ", "@@", "-x", "+y"),
        {"a": b"x\n"},
        {"a": b"y\n"},
    ),
    Case(
        "018 whitespace padded patch markers",
        " *** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch ",
        {"a": b"x\n"},
        {"a": b"y\n"},
    ),
    Case(
        "019 unicode simple",
        patch("*** Update File: a", "@@", " naïve", "-☕", "+🫖"),
        {"a": "naïve\n☕\n".encode()},
        {"a": "naïve\n🫖\n".encode()},
    ),
    Case(
        "020 delete file success",
        patch("*** Delete File: gone"),
        {"gone": b"x\n", "kept": b"y\n"},
        {"kept": b"y\n"},
    ),
    Case(
        "020 whitespace padded patch marker lines",
        "\n  *** Begin Patch  \n*** Update File: a\n@@\n-x\n+y\n  *** End Patch  \n\n",
        {"a": b"x\n"},
        {"a": b"y\n"},
    ),
    Case(
        "021 update file deletion only",
        patch("*** Update File: a", "@@", " 1", "-2", " 3"),
        {"a": b"1\n2\n3\n"},
        {"a": b"1\n3\n"},
    ),
    Case(
        "022 update file end of file marker",
        patch("*** Update File: a", "@@", " x", "-y", "+z", "*** End of File"),
        {"a": b"x\ny\nx\ny\n"},
        {"a": b"x\ny\nx\nz\n"},
    ),
    Case(
        "023 preserves crlf line endings",
        patch("*** Update File: a", "@@", " 1", "-2", "+two", "+and", " 3"),
        {"a": b"1\r\n2\r\n3\r\n"},
        {"a": b"1\r\ntwo\r\nand\r\n3\r\n"},
    ),
    Case(
        "024 preserves mixed line endings",
        patch("*** Update File: a", "@@", " 1", "-2", "+two", " 3", " 4"),
        {"a": b"1\r\n2\n3\n4\r5"},
        {"a": b"1\r\ntwo\r\n3\n4\r5\r\n"},
    ),
    Case(
        "context narrows down where",
        patch("*** Update File: a", "@@ def two():", "-    return 1", "+    return 2"),
        {"a": b"def one():\n    return 1\ndef two():\n    return 1\n"},
        {"a": b"def one():\n    return 1\ndef two():\n    return 2\n"},
    ),
    Case(
        "context lines stay the file's own",
        patch("*** Update File: a", "@@", ' say("hi - there")', "-2", "+3"),
        {"a": "\tsay(“hi \u2013 there”)  \n2\n".encode()},
        {"a": "\tsay(“hi \u2013 there”)  \n3\n".encode()},
    ),
    Case(
        "a stricter match further down wins",
        patch("*** Update File: a", "@@", "-x", "+y"),
        {"a": b"  x\nx  \nx\n"},
        {"a": b"  x\nx  \ny\n"},
    ),
    Case(
        "an empty last line may stand for the end",
        patch("*** Update File: a", "@@", "-x", "+y", ""),
        {"a": b"x\n"},
        {"a": b"y\n"},
    ),
    Case(
        "bytes that are no utf-8 stay",
        patch("*** Update File: a", "@@", "-b", "+é"),
        {"a": b"caf\xe9\nb\n\xff\x00\n"},
        {"a": b"caf\xe9\n\xc3\xa9\n\xff\x00\n"},
    ),
    Case(
        "a byte order mark stays",
        patch("*** Update File: a", "@@", "-x", "+y"),
        {"a": b"\xef\xbb\xbfx\n"},
        {"a": b"\xef\xbb\xbfy\n"},
    ),
    Case(
        "a byte order mark in the patch is not doubled",
        patch("*** Update File: a", "@@", "-\ufeffx", "+\ufeffy"),
        {"a": b"\xef\xbb\xbfx\n"},
        {"a": b"\xef\xbb\xbfy\n"},
    ),
    Case(
        "utf-16 is refused",
        patch("*** Update File: a", "@@", "+y"),
        {"a": "x\n".encode("utf-16")},
    ),
    Case(
        "everything may be deleted",
        patch("*** Update File: a", "@@", "-x", "-y"),
        {"a": b"x\ny\n"},
        {"a": b""},
    ),
    Case(
        "a move onto itself is an update",
        patch("*** Update File: a", "*** Move to: ./a", "@@", "-x", "+y"),
        {"a": b"x\n"},
        {"a": b"y\n"},
    ),
    Case(
        "one file twice is refused",
        patch("*** Update File: a", "@@", "-x", "+y", "*** Delete File: d/../a"),
        {"a": b"x\n", "d/b": b""},
    ),
    Case(
        "a link is followed to its content and stays a link",
        patch("*** Update File: link", "@@", "-x", "+y"),
        {"real": b"x\n", "link": "real"},
        {"real": b"y\n", "link": "real"},
    ),
    Case(
        "a link's file cannot be patched under two names",
        patch("*** Update File: link", "@@", "-x", "+y", "*** Add File: real", "+z"),
        {"real": b"x\n", "link": "real"},
    ),
    Case(
        "deleting a link leaves its target",
        patch("*** Delete File: link"),
        {"real": b"x\n", "link": "real"},
        {"real": b"x\n"},
    ),
    Case("a loop of links is refused", patch("*** Add File: a", "+x"), {"a": "b", "b": "a"}),
    Case("a file is no directory", patch("*** Add File: a/b", "+x"), {"a": b"same\n"}),
    Case("a directory is no file", patch("*** Add File: d", "+x"), {"d": None}),
    Case(
        "a file cannot be made and entered",
        patch("*** Add File: a", "+x", "*** Add File: a/b/c", "+y"),
        {"same": b""},
    ),
    Case("half a character is refused", patch("*** Add File: a", "+\ud800"), {"same": b""}),
    Case("a path cannot hold a null", patch("*** Add File: a\0b", "+x"), {"same": b""}),
    Case("a path cannot be too long", patch(f"*** Add File: {'x' * 300}", "+x"), {"same": b""}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_scenario(tmp_path: Path, case: Case):
    plant(tmp_path, case.before)
    if case.after is None:
        with pytest.raises(PatchError):
            apply_patch(case.text, tmp_path)
        assert leaves(tmp_path) == case.before
    else:
        apply_patch(case.text, tmp_path)
        assert {k: v for k, v in leaves(tmp_path).items() if v is not None} == case.after
