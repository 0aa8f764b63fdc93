"""One provider's address: how adapters send requests and read answers.

Owns credentials, attempts and the turning of transport failures into model errors.
Invariant: credentials leave only as request headers, never in a text or a repr, and
every event that came before a failure is handed out before the failure is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, suppress
from typing import Protocol

from msgspec import field

from ..core.redact import redact
from ..core.service import Service
from ..core.stream import header_signals
from .contract import Connected, ModelError, ModelEvent, ModelRequest, StreamCut
from .failures import error_for_status, request_id
from .retry import Backoff
from .silence import Silence
from .sse import LARGEST_STREAM, EventParser, StreamTooLarge
from .transport import DEFAULT_TIMEOUTS, BodyTooLarge, Response, TimedOut, Timeouts, Transport
from .transport import TransportError as Failure

__all__ = ["LARGEST_ANSWER", "LARGEST_ERROR", "AnswerReader", "Endpoint"]

LARGEST_ERROR = 64 * 1024
"""Bytes of an error that are read; what follows them is left unread."""
LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer that comes as one document."""
_TAIL_SECONDS = 0.25
"""How long the end of a finished body is waited for, so that its connection is kept."""


class AnswerReader(Protocol):
    """Makes events of one answer in one wire format.

    Events gather in `events`. Either `complete` or `failure` is set in the end; after
    either, nothing more is read.
    """

    events: list[ModelEvent]
    complete: bool
    failure: ModelError | None

    def read(self, payload: bytes) -> None:
        """One event of the stream."""
        ...

    def read_document(self, body: bytes) -> None:
        """An answer that came as one JSON document instead of a stream."""
        ...

    def end(self, cut: ModelError) -> None:
        """Nothing more comes; `cut` is the failure unless there is a better one."""
        ...


class Endpoint(Service):
    """Where a provider is, and how to get in."""

    base_url: str
    transport: Transport
    headers: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    backoff: Backoff = field(default_factory=Backoff)
    largest: int = LARGEST_STREAM

    async def stream(
        self, path: str, request: ModelRequest, reader: AnswerReader, headers: Mapping[str, str]
    ) -> AsyncGenerator[list[ModelEvent], None]:
        """The answer to `request` in batches, one for each piece that arrives."""
        asked = {"accept": "text/event-stream", **headers, **request.headers}
        async with await self._open(path, request.body, asked, self.timeouts) as response:
            yield [_connected(response), *header_signals(response.headers)]
            async with aclosing(self._batches(response, reader)) as batches:
                async for batch in batches:
                    yield batch
        if reader.failure is not None:
            raise self._named(reader.failure, response)

    async def fetch(
        self, path: str, body: bytes, headers: Mapping[str, str], *, timeouts: Timeouts
    ) -> bytes:
        """The answer to a request that is not streamed."""
        async with await self._open(path, body, headers, timeouts) as response:
            try:
                return await response.read(LARGEST_ANSWER)
            except Failure as error:
                raise self._cut(error) from error

    async def _open(
        self, path: str, body: bytes, headers: Mapping[str, str], timeouts: Timeouts
    ) -> Response:
        url = self.base_url.rstrip("/") + path
        sent = {"content-type": "application/json", **self.headers, **headers}
        return await self.backoff.run(lambda: self._ask(url, body, sent, timeouts))

    async def _ask(
        self, url: str, body: bytes, headers: Mapping[str, str], timeouts: Timeouts
    ) -> Response:
        try:
            response = await self.transport.post(url, body, headers, timeouts=timeouts)
            if 200 <= response.status < 300:
                return response
            async with response:
                said = await self._start_of(response)
        except Failure as error:
            raise self._unreached(error) from error
        failure = error_for_status(response.status, response.headers, said)
        raise _scrubbed(failure)

    async def _batches(
        self, response: Response, reader: AnswerReader
    ) -> AsyncGenerator[list[ModelEvent], None]:
        """What the reader makes of the body; ends with `complete` or `failure` set."""
        cut: ModelError = StreamCut(
            "the stream ended before the answer was complete; try again", retryable=True
        )
        try:
            if "application/json" in response.headers.get("content-type", ""):
                body = await self._at_once(response, LARGEST_ANSWER)
                # What nests beyond all measure says nothing.
                with suppress(RecursionError):
                    reader.read_document(body)
            else:
                parser, chunks = EventParser(total=self.largest), response.chunks()
                silence = Silence(self.timeouts.idle)
                async for chunk in chunks:
                    payloads = parser.feed(chunk)
                    if batch := _read(reader, payloads):
                        yield batch
                    silence.passes(broken=bool(payloads))
                    if _is_over(reader):
                        await _finish(chunks, reader)
                        return
                _read_all(reader, parser.finish())
        except Failure as error:
            cut = self._cut(error)
        if not _is_over(reader):
            reader.end(cut)
        if batch := _taken(reader):
            yield batch

    async def _at_once(self, response: Response, limit: int) -> bytes:
        """A body that is no stream: all of it must come within the longest silence."""
        try:
            async with asyncio.timeout(self.timeouts.idle):
                return await response.read(limit)
        except TimeoutError as error:
            raise TimedOut("", "idle", self.timeouts.idle or 0.0) from error

    async def _start_of(self, response: Response) -> bytes:
        """The beginning of an error body."""
        try:
            return await self._at_once(response, LARGEST_ERROR)
        except BodyTooLarge as error:
            return error.start

    def _unreached(self, error: Failure) -> ModelError:
        timed_out = isinstance(error, TimedOut)
        return ModelError(
            redact(str(error)),
            retryable=error.retryable,
            code="timeout" if timed_out else "connection",
        )

    def _cut(self, error: Failure) -> StreamCut:
        if isinstance(error, StreamTooLarge):
            return StreamCut(str(error), code="too_large")
        idle = isinstance(error, TimedOut)
        code = "idle_timeout" if idle else "connection"
        return StreamCut(redact(str(error)), retryable=True, code=code)

    def _named(self, failure: ModelError, response: Response) -> ModelError:
        failure.request_id = failure.request_id or request_id(response.headers)
        return _scrubbed(failure)


def _scrubbed(failure: ModelError) -> ModelError:
    """A failure in the provider's words, which may repeat what it refused."""
    failure.args = tuple(redact(arg) if isinstance(arg, str) else arg for arg in failure.args)
    failure.code, failure.request_id = redact(failure.code), redact(failure.request_id)
    return failure


def _connected(response: Response) -> Connected:
    headers = response.headers
    return Connected(request_id(headers), headers.get("x-codex-turn-state", ""))


def _read(reader: AnswerReader, payloads: list[bytes]) -> list[ModelEvent]:
    _read_all(reader, payloads)
    return _taken(reader)


def _read_all(reader: AnswerReader, payloads: list[bytes]) -> None:
    left = iter(payloads)
    while not _is_over(reader):
        # What nests beyond all measure says nothing; what comes after it may.
        with suppress(RecursionError):
            _read_on(reader, left)
            return


def _read_on(reader: AnswerReader, payloads: Iterator[bytes]) -> None:
    for payload in payloads:
        reader.read(payload)
        if reader.complete or reader.failure is not None:
            return


def _is_over(reader: AnswerReader) -> bool:
    return reader.complete or reader.failure is not None


def _taken(reader: AnswerReader) -> list[ModelEvent]:
    taken, reader.events = reader.events, []
    return taken


async def _finish(chunks: AsyncIterator[bytes], reader: AnswerReader) -> None:
    """Read to the end of a body whose content is complete."""
    if not reader.complete:
        return
    with suppress(Failure, TimeoutError):
        async with asyncio.timeout(_TAIL_SECONDS):
            async for _ in chunks:
                pass
