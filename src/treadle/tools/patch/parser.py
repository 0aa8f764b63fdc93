"""The parser of patches: from text to hunks, line by line.

Owns the markers of the format, the values of a parsed patch, the grammar with its leniencies,
and the errors that name a line. Invariant: whatever the text, the result is a `Patch` or an
`InvalidPatch`. A patch that is still being written can be fed in pieces, to show what it will
do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn, TypeAlias

from msgspec import Struct

from .errors import InvalidPatch

__all__ = [
    "LONGEST_PATCH",
    "MOST_HUNKS",
    "WHITESPACE",
    "AddFile",
    "ChangeLine",
    "Chunk",
    "DeleteFile",
    "Hunk",
    "Patch",
    "PatchParser",
    "UpdateFile",
    "parse_patch",
]

LONGEST_PATCH = 16 << 20
"""Characters of a patch."""

MOST_HUNKS = 10_000
"""Files that one patch may touch."""

_HEREDOC_STARTS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_HEREDOC_END = "EOF"
_KINDS: dict[str, Literal[" ", "+", "-"]] = {" ": " ", "+": "+", "-": "-"}

_BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_ENVIRONMENT = "*** Environment ID: "
_ADD = "*** Add File: "
_DELETE = "*** Delete File: "
_UPDATE = "*** Update File: "
_MOVE = "*** Move to: "
_CHUNK = "@@"
_END_OF_FILE = "*** End of File"

# Unicode's White_Space; `str.strip()` alone would also take the separators \x1c to \x1f.
WHITESPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class ChangeLine(Struct, frozen=True):
    """One line of a chunk: kept (``" "``), added or removed."""

    kind: Literal[" ", "+", "-"]
    text: str


class Chunk(Struct, frozen=True):
    """A contiguous change, to be searched for after `context` if there is one."""

    lines: tuple[ChangeLine, ...]
    context: str | None = None
    at_end: bool = False
    """The change touches the last line of the file."""

    @property
    def old(self) -> list[str]:
        """Return the lines to find."""
        return [line.text for line in self.lines if line.kind != "+"]

    @property
    def new(self) -> list[str]:
        """Return the lines that replace them."""
        return [line.text for line in self.lines if line.kind != "-"]


class AddFile(Struct, frozen=True, tag="add"):
    """Writes a file, over one that may be there."""

    path: str
    content: str


class DeleteFile(Struct, frozen=True, tag="delete"):
    """Removes a file."""

    path: str


class UpdateFile(Struct, frozen=True, tag="update"):
    """Changes a file, and moves it when `move_to` is given."""

    path: str
    chunks: tuple[Chunk, ...]
    move_to: str | None = None


Hunk: TypeAlias = AddFile | DeleteFile | UpdateFile
"""What is to happen to one file."""


class Patch(Struct, frozen=True):
    """A whole patch, in the order it was written."""

    hunks: tuple[Hunk, ...]
    environment: str | None = None


def parse_patch(text: str) -> Patch:
    """Parse the patch in `text`. Raises `InvalidPatch`."""
    if len(text) > LONGEST_PATCH:
        raise _too_long()
    lines = [line.rstrip("\r") for line in text.strip(WHITESPACE).split("\n")]
    parser = PatchParser()
    for line in _without_heredoc(lines)[:-1]:
        parser.feed_line(line)
    if not parser.ended:
        parser.feed_line(_END)
    return parser.patch()


def _too_long() -> InvalidPatch:
    return InvalidPatch(f"it has more than {LONGEST_PATCH:,} characters; send several patches")


def _without_heredoc(lines: list[str]) -> list[str]:
    """Return the lines from Begin to End, taken out of a heredoc if they are in one."""
    problem = _boundary_problem(lines)
    if problem is None:
        return lines
    wrapped = lines[0] in _HEREDOC_STARTS and lines[-1].endswith(_HEREDOC_END)
    if wrapped and len(lines) >= 4:
        lines = lines[1:-1]
        problem = _boundary_problem(lines)
    if problem is not None:
        raise InvalidPatch(problem)
    return lines


def _boundary_problem(lines: Sequence[str]) -> str | None:
    if lines[0].strip(WHITESPACE) != _BEGIN:
        return f"The first line of the patch must be '{_BEGIN}'"
    if lines[-1].strip(WHITESPACE) != _END:
        return f"The last line of the patch must be '{_END}'"
    return None


@dataclass(slots=True)
class _OpenChunk:
    context: str | None = None
    lines: list[ChangeLine] = field(default_factory=list)
    at_end: bool = False

    def value(self) -> Chunk:
        return Chunk(tuple(self.lines), self.context, self.at_end)


@dataclass(slots=True)
class _OpenAdd:
    path: str
    content: list[str] = field(default_factory=list)

    def value(self) -> AddFile:
        return AddFile(self.path, "".join(f"{line}\n" for line in self.content))


@dataclass(slots=True)
class _OpenUpdate:
    path: str
    line: int
    move_to: str | None = None
    chunks: list[_OpenChunk] = field(default_factory=list)

    @property
    def last(self) -> _OpenChunk | None:
        return self.chunks[-1] if self.chunks else None

    def value(self) -> UpdateFile:
        return UpdateFile(self.path, tuple(chunk.value() for chunk in self.chunks), self.move_to)


class PatchParser:
    """Reads a patch as it arrives.

    `feed` takes any piece of text and acts on the lines that are complete;
    `hunks` is what they say so far. Only a patch that `ended` may be applied.
    """

    def __init__(self) -> None:
        self.ended = False
        self._rest: list[str] = []
        self._size = 0
        self._number = 0
        self._begun = False
        self._environment: str | None = None
        self._done: list[Hunk] = []
        self._open: _OpenAdd | _OpenUpdate | None = None

    @property
    def hunks(self) -> tuple[Hunk, ...]:
        """Return everything read so far; the last one may still grow."""
        return (*self._done, self._open.value()) if self._open else tuple(self._done)

    def patch(self) -> Patch:
        """Return the whole patch. Raises `InvalidPatch` when its end was not read."""
        if not self.ended:
            raise InvalidPatch(f"The last line of the patch must be '{_END}'")
        return Patch(tuple(self._done), self._environment)

    def feed(self, text: str) -> tuple[Hunk, ...]:
        """Read a piece of a patch and return what is known. Raises `InvalidPatch`."""
        self._size += len(text)
        if self._size > LONGEST_PATCH:
            raise _too_long()
        *lines, rest = text.split("\n")
        if lines:
            lines[0] = "".join((*self._rest, lines[0]))
            self._rest = []
        self._rest.append(rest)
        for line in lines:
            preamble = not self._begun and line.strip(WHITESPACE) in ("", *_HEREDOC_STARTS)
            if not preamble and not self.ended:
                self.feed_line(line.rstrip("\r"))
        return self.hunks

    def feed_line(self, line: str) -> None:
        """Read one complete line. Raises `InvalidPatch`."""
        self._number += 1
        if self.ended:
            self._check_after_end(line)
        elif not self._begun:
            self._begin(line)
        elif isinstance(self._open, _OpenUpdate):
            self._read_update(line, self._open)
        elif isinstance(self._open, _OpenAdd) and line.startswith("+"):
            self._open.content.append(line[1:])
        else:
            self._read_header_line(line)

    def _begin(self, line: str) -> None:
        if line.strip(WHITESPACE) != _BEGIN:
            raise InvalidPatch(f"The first line of the patch must be '{_BEGIN}'")
        self._begun = True

    def _check_after_end(self, line: str) -> None:
        if line.strip(WHITESPACE):
            raise InvalidPatch(f"The last line of the patch must be '{_END}'")

    def _read_header_line(self, line: str) -> None:
        """Read a line where only a header may be."""
        text = line.strip(WHITESPACE)
        if self._number == 2 and text.startswith(_ENVIRONMENT):
            self._environment = text.removeprefix(_ENVIRONMENT).strip(WHITESPACE)
        elif not self._read_header(text):
            self._fail(
                f"'{text}' is not a valid hunk header. Valid hunk headers: "
                f"'{_ADD}{{path}}', '{_DELETE}{{path}}', '{_UPDATE}{{path}}'"
            )

    def _read_header(self, text: str) -> bool:
        """Read a header, if `text` is one: it begins another hunk or ends the patch."""
        if not _is_header(text):
            return False
        if self._open is not None:
            self._done.append(self._open.value())
            self._open = None
        if len(self._done) >= MOST_HUNKS and text != _END:
            self._fail(f"the patch touches more than {MOST_HUNKS:,} files; send several patches")
        if text == _END:
            self.ended = True
        elif text.startswith(_ADD):
            self._open = _OpenAdd(text.removeprefix(_ADD))
        elif text.startswith(_DELETE):
            self._done.append(DeleteFile(text.removeprefix(_DELETE)))
        else:
            self._open = _OpenUpdate(text.removeprefix(_UPDATE), self._number)
        return True

    def _read_update(self, line: str, update: _OpenUpdate) -> None:
        # Leading space makes a context line, even of something that reads like a header.
        text = line.rstrip(WHITESPACE)
        chunk = update.last
        if _is_header(text):
            self._end_update(text, update)
        elif chunk is None and update.move_to is None and text.startswith(_MOVE):
            update.move_to = text.removeprefix(_MOVE)
        elif text == _CHUNK or text.startswith(f"{_CHUNK} "):
            self._begin_chunk(line, text, update)
        elif chunk is not None and chunk.at_end:
            if text:
                self._fail_no_chunk(line)
        elif text == _END_OF_FILE:
            self._read_end_of_file(chunk)
        else:
            self._read_change(line, update)

    def _end_update(self, text: str, update: _OpenUpdate) -> None:
        if update.last is None:
            raise InvalidPatch(f"Update file hunk for path '{update.path}' is empty", update.line)
        if not update.last.lines:
            if text != _END:
                self._fail_unexpected(text)
            self._fail("Update hunk does not contain any lines")
        self._read_header(text)

    def _begin_chunk(self, line: str, text: str, update: _OpenUpdate) -> None:
        if update.last is not None and not update.last.lines:
            self._fail_unexpected(line)
        context = None if text == _CHUNK else text.removeprefix(f"{_CHUNK} ")
        update.chunks.append(_OpenChunk(context))

    def _read_end_of_file(self, chunk: _OpenChunk | None) -> None:
        if chunk is None:
            return
        if not chunk.lines:
            self._fail("Update hunk does not contain any lines")
        chunk.at_end = True

    def _read_change(self, line: str, update: _OpenUpdate) -> None:
        kind = _KINDS.get(line[:1] or " ")
        if kind is None:
            if update.last is not None and update.last.lines:
                self._fail_no_chunk(line)
            self._fail_unexpected(line)
        if update.last is None:
            update.chunks.append(_OpenChunk())
        update.chunks[-1].lines.append(ChangeLine(kind, line[1:]))

    def _fail_no_chunk(self, line: str) -> NoReturn:
        self._fail(f"Expected update hunk to start with a @@ context marker, got: '{line}'")

    def _fail_unexpected(self, line: str) -> NoReturn:
        self._fail(
            f"Unexpected line found in update hunk: '{line}'. Every line should start with "
            "' ' (context line), '+' (added line), or '-' (removed line)"
        )

    def _fail(self, detail: str) -> NoReturn:
        raise InvalidPatch(detail, self._number)


def _is_header(text: str) -> bool:
    return text == _END or text.startswith((_ADD, _DELETE, _UPDATE))
