"""Truncation: cutting text in the middle, visibly, and never inside a character.

Owns the cutting policies and the wording of their markers. Sizes are UTF-8
bytes; a token counts as four of them. Invariant: text that fits comes back as is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from .items import InputAudio, InputText, Output, Part

__all__ = [
    "BYTES_PER_TOKEN",
    "OUTPUT_SLACK",
    "TruncationPolicy",
    "approx_tokens",
    "truncate_ends",
    "truncate_output",
    "truncate_text",
    "whole_characters",
]

BYTES_PER_TOKEN = 4

OUTPUT_SLACK = 1.2
"""By how much a result of a tool may exceed its limit: one that is cut has a heading."""


def approx_tokens(size: int) -> int:
    """Return the number of tokens in `size` bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


class TruncationPolicy(Struct, frozen=True):
    """How much of a text to keep, and the unit in which its limit and its markers count."""

    mode: Literal["bytes", "tokens"]
    limit: int

    @property
    def byte_budget(self) -> int:
        """The limit in bytes."""
        return self.limit * BYTES_PER_TOKEN if self.mode == "tokens" else self.limit

    @property
    def token_budget(self) -> int:
        """The limit in tokens."""
        return self.limit if self.mode == "tokens" else approx_tokens(self.limit)

    def scale(self, factor: float) -> TruncationPolicy:
        """Return the policy with its limit multiplied, rounded up."""
        return TruncationPolicy(self.mode, -int(-self.limit * factor // 1))


def truncate_text(text: str, policy: TruncationPolicy) -> str:
    """Return `text` with its middle cut out where it exceeds the policy."""
    data = _bytes(text)
    if len(data) <= policy.byte_budget:
        return text
    return truncate_ends(data, data, policy, size=len(data), chars=len(text))


def truncate_ends(
    head: bytes, tail: bytes, policy: TruncationPolicy, *, size: int, chars: int
) -> str:
    """Return the beginning of `head` and the end of `tail`, with a marker for the middle.

    `size` and `chars` count the whole text, of which both are parts.
    """
    budget = policy.byte_budget
    first = _whole_prefix(head, budget // 2)
    last = _whole_suffix(tail, budget - budget // 2)
    if policy.mode == "tokens":
        return f"{first}…{approx_tokens(size - budget)} tokens truncated…{last}"
    return f"{first}…{chars - len(first) - len(last)} chars truncated…{last}"


def truncate_output(
    output: Output, policy: TruncationPolicy, audio_tokens: Callable[[InputAudio], int]
) -> Output:
    """Cut a tool output to one budget that all of its parts share.

    Texts fit whole, or the last one that has room is cut in the middle; later ones
    are left out and counted. Audio that does not fit is left out; the rest stays.
    """
    if isinstance(output, str):
        return truncate_text(output, policy)
    left = policy.limit
    kept: list[Part] = []
    omitted = {"text": 0, "audio": 0}
    for part in output:
        cost = _cost(part, policy, audio_tokens)
        if isinstance(part, InputText) and left <= 0:
            omitted["text"] += 1
        elif isinstance(part, InputText) and cost > left:
            kept.append(InputText(truncate_text(part.text, TruncationPolicy(policy.mode, left))))
            left = 0
        elif cost > left:
            omitted["audio"] += 1
        else:
            kept.append(part)
            left -= cost
    notes = [f"[omitted {n} {kind} items ...]" for kind, n in omitted.items() if n]
    return (*kept, *map(InputText, notes))


def _cost(part: Part, policy: TruncationPolicy, audio_tokens: Callable[[InputAudio], int]) -> int:
    """Return the cost of `part` in the policy's unit; images are free."""
    if isinstance(part, InputText):
        size = len(_bytes(part.text))
        return approx_tokens(size) if policy.mode == "tokens" else size
    if isinstance(part, InputAudio):
        tokens = audio_tokens(part)
        return tokens if policy.mode == "tokens" else tokens * BYTES_PER_TOKEN
    return 0


def _whole_prefix(data: bytes, size: int) -> str:
    return data[:size].decode(errors="ignore")


def _whole_suffix(data: bytes, size: int) -> str:
    start = max(len(data) - size, 0)
    while start < len(data) and data[start] & 0b1100_0000 == 0b1000_0000:
        start += 1
    return data[start:].decode(errors="ignore")


def _bytes(text: str) -> bytes:
    """Return `text` in UTF-8, also if a host has put half a character in it."""
    return text.encode(errors="surrogatepass")


def whole_characters(text: str) -> str:
    """Return `text` without half characters, which nothing can store or send.

    Names of files that are no UTF-8 have such halves, and so has text that was cut by others.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
