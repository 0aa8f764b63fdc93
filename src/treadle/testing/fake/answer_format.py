"""What the three answer formats of the fake server have in common."""

from __future__ import annotations

import re
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from ..script import Answer, Call, ScriptedError

__all__ = ["AnswerFormat", "ScriptedResponse", "frame", "words"]

_WORD = re.compile(r"\s*\S+\s*|\s+")


class ScriptedResponse(Struct, frozen=True):
    """An answer with its ids and token counts."""

    answer: Answer
    model: str
    id: str
    """A part of every id in it, made from the request."""
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int

    def call_id(self, index: int, call: Call) -> str:
        """Return the id of a call."""
        return call.id or f"call_{self.id}_{index}"


class AnswerFormat(Protocol):
    """Writes answers in one wire format."""

    def frames(self, response: ScriptedResponse) -> list[bytes]:
        """Return the events of a stream as the bytes to send, piece by piece."""
        ...

    def document(self, response: ScriptedResponse) -> dict[str, Any]:
        """Return the answer to a client that wants no stream."""
        ...

    def error(self, failure: ScriptedError) -> dict[str, Any]:
        """Return the body of an error."""
        ...


def frame(event: dict[str, Any], *, named: bool = True) -> bytes:
    """Return an event as it is sent."""
    data = b"data: %s\n\n" % msgspec.json.encode(event)
    return b"event: %s\n%s" % (str(event["type"]).encode(), data) if named else data


def words(text: str) -> list[str]:
    """Return `text` in the pieces in which it is streamed."""
    return _WORD.findall(text)
