"""The output of tools: collected, cut to what a model may read, and reported.

Owns the one way in which output is shaped: commands and long results of other tools alike.
Invariants: memory stays bounded however much arrives, and every count is about all that
arrived; what a model cannot see is named: how much was cut, and the handle under which the
whole can be read back.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ..core.text import OUTPUT_SLACK, TruncationPolicy, approx_tokens, truncate_ends, truncate_text
from ..core.wire import json_bytes
from .contract import ToolContext, ToolResult
from .stored_output import OutputWriter, looks_binary

__all__ = [
    "BUFFER",
    "Excerpt",
    "OutputBuffer",
    "exec_report",
    "fit_result",
    "freeform_report",
    "shape_output",
    "structured_report",
]

BUFFER = 1 << 20
"""Bytes that are held in memory, one half from each end."""

_CONTINUATION = bytes(range(0x80, 0xC0))


class Excerpt(Struct, frozen=True):
    """The beginning and the end of some output, and how much there was."""

    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    chars: int = 0
    newlines: int = 0

    @property
    def omitted_bytes(self) -> int:
        """Return the number of bytes that are neither in the head nor in the tail."""
        return self.size - len(self.head) - len(self.tail)

    @property
    def lines(self) -> int:
        """Return the number of lines there were; only newlines end one."""
        last = self.tail or self.head
        return self.newlines + (not last.endswith(b"\n"))

    @property
    def tokens(self) -> int:
        """Return an estimate of the tokens there were."""
        return approx_tokens(self.size)

    @property
    def text(self) -> str:
        """Return all that is left, with a line for the gap."""
        gap = f"\n... {self.omitted_bytes} bytes omitted ...\n" if self.omitted_bytes else ""
        return _decode(self.head) + gap + _decode(self.tail)

    def fits(self, limit: TruncationPolicy) -> bool:
        """Return whether nothing has to be cut."""
        return not self.omitted_bytes and len(self.text.encode()) <= limit.byte_budget

    def cut(self, limit: TruncationPolicy) -> str:
        """Return the text with its middle cut out, as if all of it were still there."""
        if not self.omitted_bytes or limit.byte_budget >= BUFFER:
            return truncate_text(self.text, limit)
        head, tail = _decode(self.head).encode(), _decode(self.tail).encode()
        return truncate_ends(head, tail, limit, size=self.size, chars=self.chars)


class OutputBuffer:
    """Takes output as it arrives and holds both of its ends."""

    def __init__(self) -> None:
        self._reset()

    def add(self, data: bytes) -> None:
        """Take in what follows."""
        self._size += len(data)
        self._chars += len(data.translate(None, _CONTINUATION))
        self._newlines += data.count(b"\n")
        room = BUFFER // 2 - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > BUFFER:
            del self._tail[: -BUFFER // 2]

    def take(self, *, whole: bool) -> Excerpt:
        """Take out what came since the last time.

        Unless it is the `whole`, a character of which bytes are missing stays.
        """
        rest = b"" if whole else _half_character(self._tail or self._head)
        if rest:
            del (self._tail or self._head)[-len(rest) :]
        tail = bytes(self._tail[-BUFFER // 2 :])
        size = self._size - len(rest)
        chars = self._chars - len(rest.translate(None, _CONTINUATION))
        excerpt = Excerpt(bytes(self._head), tail, size, chars, self._newlines)
        self._reset()
        self.add(rest)
        return excerpt

    def _reset(self) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._size = self._chars = self._newlines = 0


async def shape_output(
    output: Excerpt, limit: TruncationPolicy, writer: OutputWriter, *, heading: bool = True
) -> str:
    """Return the text that a model reads of `output`, and store the rest where some is cut.

    With `heading`, output that was cut begins with its size.
    """
    if looks_binary(output.head):
        return f"[binary output, {output.size} bytes]\n{await _save(writer)}"
    if output.fits(limit):
        return output.text
    text = output.cut(limit)
    text = f"{text}{'' if text.endswith(chr(10)) else chr(10)}{await _save(writer)}"
    if not heading:
        return text
    return (
        f"Warning: truncated output (original token count: {output.tokens})\n"
        f"Total output lines: {output.lines}\n\n{text}"
    )


async def _save(writer: OutputWriter) -> str:
    return f"Full output: {await writer.save()} (use read_output)"


async def fit_result(result: ToolResult, context: ToolContext) -> ToolResult:
    """Return `result` as it fits the log; store a longer text whole and cut its middle."""
    if context.output_limit is None or not isinstance(result.output, str):
        return result
    data = result.output.encode(errors="replace")
    # Results that are cut already are longer than the limit by their headings.
    if len(data) <= context.output_limit * OUTPUT_SLACK:
        return result
    writer, buffer = OutputWriter(context.blobs), OutputBuffer()
    await writer.add(data)
    buffer.add(data)
    limit = TruncationPolicy("bytes", context.output_limit)
    return replace(result, output=await shape_output(buffer.take(whole=True), limit, writer))


def exec_report(
    text: str,
    *,
    seconds: float,
    chunk: str = "",
    exit_code: int | None = None,
    session: int | None = None,
    tokens: int | None = None,
) -> str:
    """Return the result of `exec_command` and `write_stdin`."""
    lines = [
        f"Chunk ID: {chunk}" if chunk else None,
        f"Wall time: {seconds:.4f} seconds",
        None if exit_code is None else f"Process exited with code {exit_code}",
        None if session is None else f"Process running with session ID {session}",
        None if tokens is None else f"Original token count: {tokens}",
        "Output:",
        text,
    ]
    return "\n".join(line for line in lines if line is not None)


def freeform_report(text: str, *, exit_code: int, seconds: float, lines: int | None = None) -> str:
    """Return the result of `shell_command` and `apply_patch`; `lines` only when some were cut."""
    parts = [
        f"Exit code: {exit_code}",
        f"Wall time: {seconds:.1f} seconds",
        None if lines is None else f"Total output lines: {lines}",
        "Output:",
        text,
    ]
    return "\n".join(part for part in parts if part is not None)


def structured_report(text: str, *, exit_code: int, seconds: float) -> str:
    """Return the result of `shell`."""
    metadata = {"exit_code": exit_code, "duration_seconds": round(seconds, 1)}
    return json_bytes({"output": text, "metadata": metadata}).decode()


def _decode(data: bytes) -> str:
    return data.decode(errors="replace")


def _half_character(data: bytearray) -> bytes:
    """Return the first bytes of a character at the end of `data` whose last ones are missing."""
    for length in (1, 2, 3):
        end = bytes(data[-length:])
        if len(end) == length and (wanted := _character_size(end[0])) is not None:
            return end if wanted > length else b""
    return b""


def _character_size(lead: int) -> int | None:
    """Return the length of a character that starts with `lead`; None when none does."""
    if lead < 0x80:
        return 1
    starts = ((0xC2, 0xE0, 2), (0xE0, 0xF0, 3), (0xF0, 0xF5, 4))
    return next((size for low, high, size in starts if low <= lead < high), None)
