"""Requests: a view as the exact bytes of a body.

Owns the segments of a body and the reuse of its bytes: request n+1 starts with
request n up to its closing brackets; a wire format spells them. Invariant: the bytes
depend on the head and the rows, on nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct, field

from ..core.entries import Head
from ..core.errors import NothingToSend
from ..core.service import Service
from ..core.sharing import share
from ..models.contract import ItemWriter
from ..models.formats import format_named
from ..store.contract import Segment, SegmentKind
from .outbound import outbound
from .row import Row
from .rules import closed_length, normalise
from .view import View

__all__ = ["HEAD_SEGMENTS", "Renderer", "Request", "RequestEncoder"]

HEAD_SEGMENTS = 3
"""Segments before the first item: params, tools, instructions."""


class Request(Struct, frozen=True):
    """One request, ready to be sent."""

    body: bytes
    segments: tuple[Segment, ...]
    ends: tuple[int, ...]
    """How far into the body each segment reaches."""
    rows: tuple[Row, ...]
    """The items it shows, one for each segment after the head."""
    epoch: int
    upto: int

    @property
    def digest(self) -> str:
        """The digest over all of its segments, with the name of the algorithm."""
        return f"b2:{self.segments[-1].digest}"

    def digest_of(self, first: int) -> str | None:
        """Return the digest of its `first` segments; None if it has fewer."""
        return f"b2:{self.segments[first - 1].digest}" if first <= len(self.segments) else None

    @property
    def items(self) -> int:
        """The number of items."""
        return len(self.segments) - HEAD_SEGMENTS


class RequestEncoder:
    """Encodes the growing list of one epoch, each row once.

    Rows from the first unanswered call on are put in anew each time: what stands
    in for the missing output must vanish once the real one arrives.
    """

    def __init__(self, head: Head, cache_key: str = "") -> None:
        self.head = head
        self._format = format_named(head.api)
        self._encoded = _Encoded(self._format.writer(head))
        self._read = 0
        self._open: list[Row] = []
        for kind, data in self._format.head_parts(head, cache_key if head.cache_key else ""):
            self._encoded.put_head(kind, data)

    @property
    def head_size(self) -> int:
        """Bytes before the first item."""
        return self._encoded.head_size

    def encode(self, rows: Sequence[Row], *, epoch: int, upto: int) -> Request:
        """The request that shows `rows`, which extend those of the call before."""
        self._open += self._outbound_rows(rows[self._read :])
        self._read = len(rows)
        closed = closed_length(self._open)
        self._encoded.put_rows(self._open[:closed])
        del self._open[:closed]
        encoded = self._encoded
        if self._open:
            encoded = encoded.copy()
            encoded.put_rows(self._open)
        return Request(
            body=b"".join((*encoded.head, encoded.items, encoded.writer.closing())),
            segments=tuple(encoded.segments),
            ends=tuple(encoded.ends),
            rows=tuple(encoded.rows),
            epoch=epoch,
            upto=upto,
        )

    def _outbound_rows(self, rows: Sequence[Row]) -> Iterator[Row]:
        """The rows that are sent, each with the bytes that are; only these can be paired."""
        for row in rows:
            data = outbound(row, self.head)
            if data is not None:
                yield row if data is row.body else msgspec.structs.replace(row, body=data)


class Renderer(Service):
    """Renders a thread's requests, reusing the bytes of the present epoch."""

    _epoch: int = -1
    _encoder: RequestEncoder | None = None

    def render(self, view: View) -> Request:
        """The request that `view` is."""
        if view.head is None:
            raise NothingToSend(
                f"thread {view.thread!r} has nothing to send yet; admit an input first"
            )
        encoder = self._encoder_of(view.head, view)
        return encoder.encode(view.rows, epoch=view.epoch, upto=view.upto)

    def head_size(self, view: View) -> int:
        """Bytes of a request to `view` before its first item; 0 while it has no head."""
        return 0 if view.head is None else self._encoder_of(view.head, view).head_size

    def _encoder_of(self, head: Head, view: View) -> RequestEncoder:
        if self._encoder is None or view.epoch != self._epoch:
            self._encoder, self._epoch = RequestEncoder(head, view.cache_key), view.epoch
        return self._encoder


class _Encoded(Service):
    """Bytes of a body, and the segments they fall into."""

    writer: ItemWriter
    head: list[bytes] = field(default_factory=list)
    """What stands before the items; threads share what is the same for them."""
    head_size: int = 0
    items: bytearray = field(default_factory=bytearray)
    segments: list[Segment] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    digest: bytes = b""

    def put_head(self, kind: SegmentKind, data: bytes) -> None:
        self.head.append(share(data))
        self.head_size += len(data)
        self._end_segment(kind, data)

    def put_rows(self, rows: Sequence[Row]) -> None:
        for row in normalise(rows):
            if data := self.writer.write(row.body):
                self.items += data
                self._end_segment("item", data, row.seq)
                self.rows.append(row)

    def _end_segment(self, kind: SegmentKind, data: bytes, seq: int | None = None) -> None:
        self.digest = hashlib.blake2b(self.digest + data, digest_size=16).digest()
        position = len(self.segments)
        self.segments.append(Segment(position, kind, len(data), self.digest.hex(), seq))
        self.ends.append(self.head_size + len(self.items))

    def copy(self) -> _Encoded:
        return _Encoded(
            self.writer.copy(),
            self.head,
            self.head_size,
            bytearray(self.items),
            list(self.segments),
            list(self.ends),
            list(self.rows),
            self.digest,
        )
