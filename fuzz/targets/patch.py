"""Patches: any text is a patch or an `InvalidPatch`, and one that does not fit changes nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.cutting import head_and_rest
from treadle.tools.patch import Edit, InvalidPatch, PatchError, PatchParser, parse_patch, plan_patch
from treadle.tools.patch.file_edits import digest
from treadle.tools.patch.patch_plan import plan_diffs

__all__ = ["WORDS", "check"]

WORDS = (
    *(b"*** Begin Patch\n", b"*** End Patch", b"*** Add File: ", b"*** Update File: a\n"),
    *(
        b"*** Delete File: ",
        b"*** Move to: ",
        b"*** End of File\n",
        b"@@ one\n",
        b"@@\n",
        b"<<EOF\n",
    ),
    *(b"+new\n", b"-one\n", b" one\n", b"-two \n", b"\r\n", b"\t", b"../", b"/", b"\0", b"\n"),
    *("“q”\n".encode(), b"\xed\xa0\x80", b"\xff", b"*** Environment ID: x\n"),
)
_OLD = {
    "/w/a": "one\ntwo\n\nthree\r\n“q”\n".encode() + b"\xff\n",
    "/w/b": b"",
    "/w/c/d": b"x",
}


@dataclass(slots=True)
class _Memory:
    """Files that are only remembered."""

    held: dict[str, bytes] = field(default_factory=lambda: dict(_OLD))

    def locate(self, path: Path, *, follow: bool) -> Path:  # noqa: ARG002 - there are no links
        if "\0" in str(path):
            raise ValueError("embedded null byte")
        return Path(os.path.normpath(path))

    def read(self, place: Path) -> bytes | None:
        if any(name.startswith(f"{place}/") for name in self.held):
            raise IsADirectoryError(21, "Is a directory")
        return self.held.get(str(place))

    def replace(self, edits: Sequence[Edit]) -> None:
        for edit in edits:
            now = self.held.get(str(edit.place))
            assert edit.before == (None if now is None else digest(now))
            if edit.data is None:
                del self.held[str(edit.place)]
            else:
                self.held[str(edit.place)] = edit.data


def check(data: bytes) -> None:
    """A text is refused by name, or planned; what is planned stays where it may be."""
    pattern, body = head_and_rest(data)
    text = body.decode(errors="surrogateescape")
    _streamed(text, pattern)
    files = _Memory()
    root = Path("/w")
    try:
        plan = plan_patch(text, root, files=files, allowed=lambda at: at.is_relative_to(root))
        plan_diffs(plan)
        plan.apply(files)
    except PatchError as error:
        str(error).encode(errors="surrogateescape")
        return
    assert all(Path(name).is_relative_to(root) for name in files.held)
    plan.summary.encode()


def _streamed(text: str, pattern: bytes) -> None:
    """A patch that came in pieces says what the whole one says, where it is not refused."""
    parser = PatchParser()
    size = pattern[0] % 16 or len(text) or 1
    try:
        whole = parse_patch(text)
        for start in range(0, len(text), size):
            parser.feed(text[start : start + size])
        parser.feed("\n")
    except InvalidPatch:
        return
    assert not parser.ended or parser.patch().hunks == whole.hunks
