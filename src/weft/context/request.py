"""Requests: a view as the exact bytes of a Responses body.

Owns field order and the reuse of encoded bytes: the body of request n+1 starts
with the body of request n up to its closing brackets. Invariant: the bytes depend
on the head and the rows, on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec import UNSET, Raw, Struct

from ..entries import Head
from ..errors import NothingToSend
from ..store.contract import Segment, SegmentKind
from ..wire import json_bytes
from .outbound import outbound
from .row import Row
from .rules import closed_length, normalise
from .view import View

__all__ = ["CLOSING", "HEAD_SEGMENTS", "Renderer", "Request", "RequestEncoder"]

HEAD_SEGMENTS = 3
"""Segments before the first item: params, tools, instructions."""

CLOSING = b"]}"
"""What ends every body."""


class Request(Struct, frozen=True):
    """One request, ready to be sent."""

    body: bytes
    segments: tuple[Segment, ...]
    epoch: int
    upto: int

    @property
    def digest(self) -> str:
        """What identifies it: the digest over all of its segments, and which digest that is."""
        return f"b2:{self.segments[-1].digest}"

    @property
    def items(self) -> int:
        """How many items it shows."""
        return len(self.segments) - HEAD_SEGMENTS


@dataclass(slots=True)
class RequestEncoder:
    """Encodes the growing list of one epoch, each row once.

    Rows from the first unanswered call on are put in anew each time: what stands
    in for the missing output must vanish once the real one arrives.
    """

    head: Head
    cache_key: str = ""
    _encoded: _Encoded = field(init=False)
    _read: int = field(init=False, default=0)
    _open: list[Row] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._encoded = _Encoded()
        for kind, data in _head_segments(self.head, self.cache_key):
            self._encoded.put(kind, data)

    def encode(self, rows: Sequence[Row], *, epoch: int, upto: int) -> Request:
        """The request that shows `rows`, which extend those of the call before."""
        self._open += self._sent(rows[self._read :])
        self._read = len(rows)
        closed = closed_length(self._open)
        _put(self._encoded, self._open[:closed])
        del self._open[:closed]
        encoded = self._encoded
        if self._open:
            encoded = encoded.copy()
            _put(encoded, self._open)
        return Request(
            bytes(encoded.data) + CLOSING, tuple(encoded.segments), epoch=epoch, upto=upto
        )

    def _sent(self, rows: Sequence[Row]) -> Iterator[Row]:
        """The rows that are sent, each with the bytes that are; only these can be paired."""
        for row in rows:
            data = outbound(row, self.head)
            if data is not None:
                yield row if data is row.body else msgspec.structs.replace(row, body=data)


def _put(encoded: _Encoded, rows: Sequence[Row]) -> None:
    for row in normalise(rows):
        encoded.put("item", row.body, row.seq)


@dataclass(slots=True)
class Renderer:
    """Renders a thread's requests, reusing the bytes of the present epoch."""

    _epoch: int = field(init=False, default=-1)
    _encoder: RequestEncoder | None = field(init=False, default=None)

    def render(self, view: View) -> Request:
        """The request that `view` is."""
        if view.head is None:
            raise NothingToSend(
                f"thread {view.thread!r} has nothing to send yet; admit an input first"
            )
        if self._encoder is None or view.epoch != self._epoch:
            self._encoder, self._epoch = RequestEncoder(view.head, view.cache_key), view.epoch
        return self._encoder.encode(view.rows, epoch=view.epoch, upto=view.upto)


@dataclass(slots=True)
class _Encoded:
    """Bytes of a body, and the segments they fall into."""

    data: bytearray = field(default_factory=bytearray)
    segments: list[Segment] = field(default_factory=list)
    digest: bytes = b""

    def put(self, kind: SegmentKind, data: bytes, seq: int | None = None) -> None:
        comma = b"," if self.segments and self.segments[-1].kind == "item" else b""
        chained = hashlib.blake2b(self.digest + comma, digest_size=16)
        chained.update(data)
        self.digest = chained.digest()
        self.data += comma
        self.data += data
        size = len(comma) + len(data)
        position = len(self.segments)
        self.segments.append(Segment(position, kind, size, chained.hexdigest(), seq))

    def copy(self) -> _Encoded:
        return _Encoded(bytearray(self.data), list(self.segments), self.digest)


def _head_segments(head: Head, cache_key: str) -> Iterator[tuple[SegmentKind, bytes]]:
    """The body up to the first item; `input` comes last, so that bytes can be reused."""
    yield "params", json_bytes(_params(head, cache_key))[:-1]
    yield "tools", b',"tools":[%s]' % b",".join(bytes(tool) for tool in head.tools)
    instructions = b',"instructions":' + json_bytes(head.instructions) if head.instructions else b""
    yield "instructions", instructions + b',"input":['


def _params(head: Head, cache_key: str) -> dict[str, object]:
    reasoning = {"effort": head.effort, "summary": head.summary}
    fields: dict[str, object] = {
        "model": head.model,
        "tool_choice": head.tool_choice,
        "parallel_tool_calls": head.parallel_tool_calls,
        "reasoning": _present(reasoning) or None,
        "store": False,
        "stream": True,
        "include": list(head.include),
        "service_tier": head.service_tier,
        "prompt_cache_key": cache_key or None,
        "text": _text(head) or None,
    }
    return _present(fields)


def _text(head: Head) -> dict[str, object]:
    text: dict[str, object] = {"verbosity": head.verbosity}
    if head.output_schema is not UNSET:
        text["format"] = {
            "type": "json_schema",
            "strict": True,
            "schema": Raw(head.output_schema),
            "name": "weft_output",
        }
    return _present(text)


def _present(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
