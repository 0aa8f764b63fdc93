"""Excerpts: the beginning and the end of output of any length.

Owns the buffer and what is said about the middle that is gone. Invariant: memory
stays bounded however much arrives, and every count speaks of all that arrived.
"""

from __future__ import annotations

from msgspec import Struct

from ..core.text import TruncationPolicy, approx_tokens, truncate_text

__all__ = ["BUFFER", "Excerpt", "HeadTail", "looks_binary"]

BUFFER = 1 << 20
"""Bytes that are held in memory, one half from each end."""

_SAMPLE = 1 << 13
_CONTINUATION = bytes(range(0x80, 0xC0))
_REPLACEMENT = "\ufffd"


class Excerpt(Struct, frozen=True):
    """What is left of some output, and how much there was."""

    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    chars: int = 0
    newlines: int = 0

    @property
    def omitted(self) -> int:
        """Bytes that are neither in the head nor in the tail."""
        return self.size - len(self.head) - len(self.tail)

    @property
    def lines(self) -> int:
        """Lines there were; only newlines end one."""
        last = self.tail or self.head
        return self.newlines + (not last.endswith(b"\n"))

    @property
    def tokens(self) -> int:
        """Tokens there were, as estimated."""
        return approx_tokens(self.size)

    @property
    def text(self) -> str:
        """All that is left, with a line for the gap."""
        gap = f"\n... {self.omitted} bytes omitted ...\n" if self.omitted else ""
        return _decoded(self.head) + gap + _decoded(self.tail)

    def fits(self, policy: TruncationPolicy) -> bool:
        """Whether nothing has to be cut."""
        return not self.omitted and len(self.text.encode()) <= policy.byte_budget

    def cut(self, policy: TruncationPolicy) -> str:
        """The text with its middle cut out, as if all of it were still there."""
        budget = policy.byte_budget
        if not self.omitted or budget >= BUFFER:
            return truncate_text(self.text, policy)
        head = _decoded(self.head).encode()[: budget // 2].decode(errors="ignore")
        tail = _suffix(_decoded(self.tail).encode(), budget - budget // 2)
        if policy.mode == "tokens":
            return f"{head}…{approx_tokens(self.size - budget)} tokens truncated…{tail}"
        return f"{head}…{self.chars - len(head) - len(tail)} chars truncated…{tail}"


class HeadTail:
    """Takes in output and holds both of its ends."""

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
        """What came since the last time. Unless it is the `whole`, half a character waits."""
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


def looks_binary(data: bytes) -> bool:
    """Whether `data` is no text: it has zero bytes, or hardly anything readable."""
    sample = data[:_SAMPLE]
    if b"\0" in sample:
        return True
    text = _decoded(sample)
    return text.count(_REPLACEMENT) * 10 > len(text) * 3


def _decoded(data: bytes) -> str:
    return data.decode(errors="replace")


def _suffix(data: bytes, size: int) -> str:
    start = max(len(data) - size, 0)
    while start < len(data) and data[start] & 0b1100_0000 == 0b1000_0000:
        start += 1
    return data[start:].decode()


def _half_character(data: bytearray) -> bytes:
    """The first bytes of a character at the end of `data` whose last ones are missing."""
    for length in (1, 2, 3):
        end = bytes(data[-length:])
        if len(end) == length and (wanted := _character_size(end[0])) is not None:
            return end if wanted > length else b""
    return b""


def _character_size(lead: int) -> int | None:
    """The length of a character that starts with `lead`; None when none does."""
    if lead < 0x80:
        return 1
    starts = ((0xC2, 0xE0, 2), (0xE0, 0xF0, 3), (0xF0, 0xF5, 4))
    return next((size for low, high, size in starts if low <= lead < high), None)
