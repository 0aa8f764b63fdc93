"""From text to hunks, line by line.

Owns the grammar with its leniencies and the errors that name a line. Invariant:
whatever the text, the outcome is a `Patch` or an `InvalidPatch`. A patch that is
still being written can be fed in pieces, to show what it will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from .errors import InvalidPatch
from .hunks import (
    ADD,
    BEGIN,
    CHUNK,
    DELETE,
    END,
    END_OF_FILE,
    ENVIRONMENT,
    MOVE,
    UPDATE,
    WHITESPACE,
    AddFile,
    ChangeLine,
    Chunk,
    DeleteFile,
    Hunk,
    Patch,
    UpdateFile,
)

__all__ = ["LONGEST_PATCH", "MOST_HUNKS", "PatchParser", "parse_patch"]

LONGEST_PATCH = 16 << 20
"""Characters of a patch."""

MOST_HUNKS = 10_000
"""Files that one patch may touch."""

_HEREDOC_STARTS = ("<<EOF", "<<'EOF'", '<<"EOF"')
_HEREDOC_END = "EOF"
_KINDS: dict[str, Literal[" ", "+", "-"]] = {" ": " ", "+": "+", "-": "-"}


def parse_patch(text: str) -> Patch:
    """The patch in `text`. Raises `InvalidPatch`."""
    if len(text) > LONGEST_PATCH:
        raise _too_long()
    lines = [line.rstrip("\r") for line in text.strip(WHITESPACE).split("\n")]
    parser = PatchParser()
    for line in _without_heredoc(lines)[:-1]:
        parser.feed_line(line)
    if not parser.ended:
        parser.feed_line(END)
    return parser.patch()


def _too_long() -> InvalidPatch:
    return InvalidPatch(f"it has more than {LONGEST_PATCH:,} characters; send several patches")


def _without_heredoc(lines: list[str]) -> list[str]:
    """The lines from Begin to End, taken out of a heredoc if they stand in one."""
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
    if lines[0].strip(WHITESPACE) != BEGIN:
        return f"The first line of the patch must be '{BEGIN}'"
    if lines[-1].strip(WHITESPACE) != END:
        return f"The last line of the patch must be '{END}'"
    return None


@dataclass(slots=True)
class _OpenChunk:
    context: str | None = None
    lines: list[ChangeLine] = field(default_factory=list)
    at_end: bool = False

    def closed(self) -> Chunk:
        return Chunk(tuple(self.lines), self.context, self.at_end)


@dataclass(slots=True)
class _OpenAdd:
    path: str
    content: list[str] = field(default_factory=list)

    def closed(self) -> AddFile:
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

    def closed(self) -> UpdateFile:
        return UpdateFile(self.path, tuple(chunk.closed() for chunk in self.chunks), self.move_to)


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
        """Everything read so far; the last one may still grow."""
        return (*self._done, self._open.closed()) if self._open else tuple(self._done)

    def patch(self) -> Patch:
        """The whole patch. Raises `InvalidPatch` when its end was not read."""
        if not self.ended:
            raise InvalidPatch(f"The last line of the patch must be '{END}'")
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
            self._after_end(line)
        elif not self._begun:
            self._begin(line)
        elif isinstance(self._open, _OpenUpdate):
            self._in_update(line, self._open)
        elif isinstance(self._open, _OpenAdd) and line.startswith("+"):
            self._open.content.append(line[1:])
        else:
            self._between(line)

    def _begin(self, line: str) -> None:
        if line.strip(WHITESPACE) != BEGIN:
            raise InvalidPatch(f"The first line of the patch must be '{BEGIN}'")
        self._begun = True

    def _after_end(self, line: str) -> None:
        if line.strip(WHITESPACE):
            raise InvalidPatch(f"The last line of the patch must be '{END}'")

    def _between(self, line: str) -> None:
        """A line where only a header can stand."""
        text = line.strip(WHITESPACE)
        if self._number == 2 and text.startswith(ENVIRONMENT):
            self._environment = text.removeprefix(ENVIRONMENT).strip(WHITESPACE)
        elif not self._header(text):
            self._fail(
                f"'{text}' is not a valid hunk header. Valid hunk headers: "
                f"'{ADD}{{path}}', '{DELETE}{{path}}', '{UPDATE}{{path}}'"
            )

    def _header(self, text: str) -> bool:
        """Whether `text` begins another hunk or ends the patch."""
        if not _is_header(text):
            return False
        if self._open is not None:
            self._done.append(self._open.closed())
            self._open = None
        if len(self._done) >= MOST_HUNKS and text != END:
            self._fail(f"the patch touches more than {MOST_HUNKS:,} files; send several patches")
        if text == END:
            self.ended = True
        elif text.startswith(ADD):
            self._open = _OpenAdd(text.removeprefix(ADD))
        elif text.startswith(DELETE):
            self._done.append(DeleteFile(text.removeprefix(DELETE)))
        else:
            self._open = _OpenUpdate(text.removeprefix(UPDATE), self._number)
        return True

    def _in_update(self, line: str, update: _OpenUpdate) -> None:
        # Leading space makes a context line, even of something that reads like a header.
        text = line.rstrip(WHITESPACE)
        chunk = update.last
        if _is_header(text):
            self._end_update(text, update)
        elif chunk is None and update.move_to is None and text.startswith(MOVE):
            update.move_to = text.removeprefix(MOVE)
        elif text == CHUNK or text.startswith(f"{CHUNK} "):
            self._new_chunk(line, text, update)
        elif chunk is not None and chunk.at_end:
            if text:
                self._expected_chunk(line)
        elif text == END_OF_FILE:
            self._end_of_file(chunk)
        else:
            self._change(line, update)

    def _end_update(self, text: str, update: _OpenUpdate) -> None:
        if update.last is None:
            raise InvalidPatch(f"Update file hunk for path '{update.path}' is empty", update.line)
        if not update.last.lines:
            if text != END:
                self._unexpected(text)
            self._fail("Update hunk does not contain any lines")
        self._header(text)

    def _new_chunk(self, line: str, text: str, update: _OpenUpdate) -> None:
        if update.last is not None and not update.last.lines:
            self._unexpected(line)
        context = None if text == CHUNK else text.removeprefix(f"{CHUNK} ")
        update.chunks.append(_OpenChunk(context))

    def _end_of_file(self, chunk: _OpenChunk | None) -> None:
        if chunk is None:
            return
        if not chunk.lines:
            self._fail("Update hunk does not contain any lines")
        chunk.at_end = True

    def _change(self, line: str, update: _OpenUpdate) -> None:
        kind = _KINDS.get(line[:1] or " ")
        if kind is None:
            if update.last is not None and update.last.lines:
                self._expected_chunk(line)
            self._unexpected(line)
        if update.last is None:
            update.chunks.append(_OpenChunk())
        update.chunks[-1].lines.append(ChangeLine(kind, line[1:]))

    def _expected_chunk(self, line: str) -> NoReturn:
        self._fail(f"Expected update hunk to start with a @@ context marker, got: '{line}'")

    def _unexpected(self, line: str) -> NoReturn:
        self._fail(
            f"Unexpected line found in update hunk: '{line}'. Every line should start with "
            "' ' (context line), '+' (added line), or '-' (removed line)"
        )

    def _fail(self, detail: str) -> NoReturn:
        raise InvalidPatch(detail, self._number)


def _is_header(text: str) -> bool:
    return text == END or text.startswith((ADD, DELETE, UPDATE))
