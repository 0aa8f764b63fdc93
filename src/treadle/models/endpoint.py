"""One provider's address: how adapters send requests and read answers.

Owns credentials and the turning of transport errors into model errors. Invariants: a request
is sent once, and whoever asks decides whether to ask again; credentials leave only as request
headers, never in a text or a repr; every event that came before an error is handed out before
the error is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Protocol

from msgspec import Struct, field

from ..core.redact import redact
from ..core.service import Service
from ..core.stream import header_signals
from .contract import Capabilities, Connected, ModelError, ModelEvent, ModelRequest, StreamCut
from .provider_address import user_agent
from .provider_errors import error_for_status, request_id
from .sse import LARGEST_STREAM, EventParser, StreamTooLarge
from .transport import (
    DEFAULT_TIMEOUTS,
    BodyTooLarge,
    Response,
    TimedOut,
    Timeouts,
    Transport,
    TransportError,
)

__all__ = ["LARGEST_ANSWER", "LARGEST_ERROR", "AnswerReader", "Endpoint", "HttpModel"]

LARGEST_ERROR = 64 * 1024
"""Bytes of an error that are read; the rest is left unread."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer that comes as one document."""
_TAIL_SECONDS = 0.25
"""How long we wait for the end of a finished body, so that its connection is kept."""


class AnswerReader(Protocol):
    """Turns one answer in one wire format into events.

    Events gather in `events`. In the end either `complete` or `failure` is set; after
    that nothing more is read.
    """

    events: list[ModelEvent]
    complete: bool
    failure: ModelError | None

    def read(self, payload: bytes) -> None:
        """Read one event of the stream."""
        ...

    def read_document(self, body: bytes) -> None:
        """Read an answer that came as one JSON document instead of a stream."""
        ...

    def end(self, cut: ModelError) -> None:
        """Handle the end of the stream; `cut` is the error unless there is a better one."""
        ...


class Endpoint(Service):
    """The address of a provider, and the credentials for it."""

    base_url: str
    transport: Transport
    headers: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    largest: int = LARGEST_STREAM
    query: str = ""
    """Stands in the URL of every request, encoded."""

    async def stream(
        self, path: str, request: ModelRequest, reader: AnswerReader, headers: Mapping[str, str]
    ) -> AsyncGenerator[list[ModelEvent], None]:
        """Send `request` and yield the answer in batches, one for each piece that arrives."""
        all_headers = {"accept": "text/event-stream", **headers, **request.headers}
        async with await self._open(path, request.body, all_headers, self.timeouts) as response:
            turn_state = response.headers.get("x-codex-turn-state", "")
            connected = Connected(request_id(response.headers), turn_state)
            yield [connected, *header_signals(response.headers)]
            async with aclosing(self._batches(response, reader)) as batches:
                async for batch in batches:
                    yield batch
        if (failure := reader.failure) is not None:
            failure.request_id = failure.request_id or request_id(response.headers)
            raise _redact_error(failure)

    async def fetch(
        self, path: str, body: bytes, headers: Mapping[str, str], *, timeouts: Timeouts
    ) -> bytes:
        """Send a request and return its answer, which is not streamed."""
        async with await self._open(path, body, headers, timeouts) as response:
            try:
                return await response.read(LARGEST_ANSWER)
            except TransportError as error:
                raise _stream_cut(error) from error

    async def _open(
        self, path: str, body: bytes, headers: Mapping[str, str], timeouts: Timeouts
    ) -> Response:
        url = self.base_url.rstrip("/") + path + (f"?{self.query}" if self.query else "")
        all_headers = {"content-type": "application/json", **self.headers, **headers}
        if not any(name.lower() == "user-agent" for name in all_headers):
            all_headers["user-agent"] = user_agent()
        try:
            response = await self.transport.post(url, body, all_headers, timeouts=timeouts)
            if 200 <= response.status < 300:
                return response
            async with response:
                error_body = await self._read_start(response)
        except TransportError as error:
            raise ModelError(
                redact(str(error)),
                retryable=error.retryable,
                code="timeout" if isinstance(error, TimedOut) else "connection",
            ) from error
        raise _redact_error(error_for_status(response.status, response.headers, error_body))

    async def _batches(
        self, response: Response, reader: AnswerReader
    ) -> AsyncGenerator[list[ModelEvent], None]:
        """Yield what the reader makes of the body; ends with `complete` or `failure` set."""
        cut: ModelError = StreamCut(
            "the stream ended before the answer was complete; try again", retryable=True
        )
        try:
            if "application/json" in response.headers.get("content-type", ""):
                body = await self._read_body(response, LARGEST_ANSWER)
                # A document that nests too deeply is skipped.
                with suppress(RecursionError):
                    reader.read_document(body)
            else:
                parser, chunks = EventParser(total=self.largest), response.chunks()
                watch = _SilenceWatch(self.timeouts.idle)
                async for chunk in chunks:
                    payloads = parser.feed(chunk)
                    _read_all(reader, payloads)
                    if batch := _take_events(reader):
                        yield batch
                    watch.note_bytes(with_event=bool(payloads))
                    if _is_over(reader):
                        await _drain(chunks, reader)
                        return
                _read_all(reader, parser.finish())
        except TransportError as error:
            cut = _stream_cut(error)
        if not _is_over(reader):
            reader.end(cut)
        if batch := _take_events(reader):
            yield batch

    async def _read_body(self, response: Response, limit: int) -> bytes:
        """Return a body that is no stream: all of it must come within the idle timeout."""
        try:
            async with asyncio.timeout(self.timeouts.idle):
                return await response.read(limit)
        except TimeoutError as error:
            raise TimedOut("", "idle", self.timeouts.idle or 0.0) from error

    async def _read_start(self, response: Response) -> bytes:
        """Return the start of an error body."""
        try:
            return await self._read_body(response, LARGEST_ERROR)
        except BodyTooLarge as error:
            return error.start


class HttpModel(Struct):
    """Base of the models behind an `Endpoint`; a subclass has a `format` and a `stream`."""

    name: str
    capabilities: Capabilities
    endpoint: Endpoint
    shared_transport: bool = False
    """Whether someone else closes the transport."""

    async def close(self) -> None:
        """Close the connections, unless the transport is shared."""
        if not self.shared_transport:
            await self.endpoint.transport.close()


class _SilenceWatch:
    """Measures how long a stream carries no event.

    Bytes that complete no event (comments, one letter at a time) are silence; the time that
    a consumer takes is not. Without a `longest` silence may last for ever.
    """

    def __init__(self, longest: float | None) -> None:
        self._longest = longest
        self._clock = asyncio.get_running_loop().time
        self._since = self._clock()

    def note_bytes(self, *, with_event: bool) -> None:
        """Note that bytes came. Raises `TimedOut` after too long without an event."""
        if with_event:
            self._since = self._clock()
        elif self._longest is not None and self._clock() - self._since > self._longest:
            raise TimedOut("", "idle", self._longest)


def _stream_cut(error: TransportError) -> StreamCut:
    if isinstance(error, StreamTooLarge):
        return StreamCut(str(error), code="too_large")
    if isinstance(error, TimedOut) and error.phase == "total":
        # Asked again it would take as long; who waits for hours is better told.
        text = (
            f"the answer was not complete after {error.seconds:g} s; "
            "if it may take longer, set `answer_timeout` of the provider"
        )
        return StreamCut(text, code="answer_timeout")
    code = "idle_timeout" if isinstance(error, TimedOut) else "connection"
    return StreamCut(redact(str(error)), retryable=True, code=code)


def _redact_error(error: ModelError) -> ModelError:
    """Remove secrets from an error in the provider's words, which may repeat what it refused."""
    error.args = tuple(redact(arg) if isinstance(arg, str) else arg for arg in error.args)
    error.code, error.request_id = redact(error.code), redact(error.request_id)
    return error


def _read_all(reader: AnswerReader, payloads: list[bytes]) -> None:
    left = iter(payloads)
    while not _is_over(reader):
        # An event that nests too deeply is skipped; those after it are read.
        with suppress(RecursionError):
            _read_until_over(reader, left)
            return


def _read_until_over(reader: AnswerReader, payloads: Iterator[bytes]) -> None:
    for payload in payloads:
        reader.read(payload)
        if reader.complete or reader.failure is not None:
            return


def _is_over(reader: AnswerReader) -> bool:
    return reader.complete or reader.failure is not None


def _take_events(reader: AnswerReader) -> list[ModelEvent]:
    events, reader.events = reader.events, []
    return events


async def _drain(chunks: AsyncIterator[bytes], reader: AnswerReader) -> None:
    """Read to the end of a body whose answer is complete."""
    if not reader.complete:
        return
    with suppress(TransportError, TimeoutError):
        async with asyncio.timeout(_TAIL_SECONDS):
            async for _ in chunks:
                pass
