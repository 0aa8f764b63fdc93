"""A connection to an app-server: it sends requests and receives results, events and requests.

Owns the request ids, the timeouts, the number of requests in flight and the
subscriptions. Invariant: every request ends with its result or with a typed error, also
when the connection ends; only a line that is too long stops the reading.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Raw, UnsetType

from ...core.redact import blank_json, one_line, redact_registered
from ...core.typed import json_decoder
from ...core.wire import UNREADABLE, is_nested_deeper
from ...models.item_checks import is_readable
from ...models.retry import Backoff
from .errors import CodexProtocolError, Disconnected, Overloaded, RequestTimeout
from .framing import (
    BAD_PARAMETERS,
    INTERNAL,
    LONGEST_LINE,
    NO_SUCH_METHOD,
    ByteReader,
    ByteWriter,
    IncomingMessage,
    LineBuffer,
    OutgoingMessage,
    RpcError,
    decode_message,
    encode_message,
    request_error,
)
from .protocol.client_requests import OpenThreadResult
from .protocol.notifications import Notification, RawItemNotification, parse_notification
from .protocol.server_requests import ClientReply, parse_server_request
from .protocol.types import ClientRequest, RequestId
from .thread_events import Handler, Subscription

__all__ = [
    "MAX_IN_FLIGHT",
    "MOST_LEVELS",
    "REQUEST_SECONDS",
    "AppServerConnection",
    "IgnoredMessages",
    "NotificationListener",
]

R = TypeVar("R")

REQUEST_SECONDS = 60.0
"""Seconds that a request may take by default."""
MAX_IN_FLIGHT = 100
"""Requests that wait for a result at the same time; with more an app-server loses some."""
MOST_LEVELS = 128
"""How deep a message may nest; deeper ones are ignored."""

_CHUNK = 1 << 16

_MAY_QUOTE_PROVIDER = frozenset({"error", "turn/completed", "warning"})
"""Notifications that may repeat the text of a provider."""

_log = logging.getLogger(__name__)

NotificationListener: TypeAlias = Callable[[Notification], None]
"""Receives notifications that belong to no thread. It must not block."""


@dataclass(slots=True)
class IgnoredMessages:
    """How many messages could not be used."""

    malformed: int = 0
    batches: int = 0
    unknown_notifications: int = 0
    unknown_results: int = 0
    """Results of no request, or of one that has timed out."""


@dataclass(slots=True)
class _Pending:
    method: str
    decode: Callable[[Raw], Any]
    on_result: Callable[[Any], None]
    future: asyncio.Future[Any]


def _ignore(_: object) -> None:
    """Do nothing with a value."""


async def _stream_closed() -> Exception:
    return Disconnected("the Codex app-server closed the connection; the next turn starts another")


@dataclass(eq=False)
class AppServerConnection:
    """A connection to one app-server over a pair of streams. Create it inside a running loop.

    `explain_end` returns the error for a stream that ended. `generation` counts the
    processes that one server has started, so that users see when their threads are gone.
    """

    reader: ByteReader
    writer: ByteWriter
    listener: NotificationListener = _ignore
    explain_end: Callable[[], Awaitable[Exception]] = _stream_closed
    generation: int = 1
    request_seconds: float = REQUEST_SECONDS
    backoff: Backoff = field(default_factory=lambda: Backoff(retries=6, base=0.1, jitter=0.5))
    longest_line: int = LONGEST_LINE

    def __post_init__(self) -> None:
        self.ended: Exception | None = None
        """What ended the connection; None while it lives."""
        self.ignored = IgnoredMessages()
        self._ids = count(1)
        self._in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._pending: dict[RequestId, _Pending] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._reading = asyncio.create_task(self._read(), name="codex connection")

    @property
    def subscribed_threads(self) -> frozenset[str]:
        """Return the ids of the threads that have a subscription."""
        return frozenset(self._subscriptions)

    async def call(self, request: ClientRequest[R], *, seconds: float | None = None) -> R:
        """Send a request and return its result. Raises a `CodexError`."""
        result = await self.request(request.method, request, request.result_type, seconds=seconds)
        return cast("R", result)

    async def open_thread(
        self,
        request: ClientRequest[OpenThreadResult],
        handler: Handler,
        *,
        seconds: float | None = None,
    ) -> tuple[OpenThreadResult, Subscription]:
        """Start, resume or fork a thread and subscribe to it before its first event."""
        subscriptions: list[Subscription] = []

        def subscribe(result: OpenThreadResult) -> None:
            subscriptions.append(self.subscribe(result.thread.id, handler))

        try:
            result = await self.request(
                request.method, request, OpenThreadResult, seconds=seconds, on_result=subscribe
            )
        except BaseException:
            for subscription in subscriptions:
                await subscription.close()
            raise
        return result, subscriptions[0]

    async def request(
        self,
        method: str,
        params: object,
        result_type: type[R],
        *,
        seconds: float | None = None,
        on_result: Callable[[R], None] = _ignore,
    ) -> R:
        """Send a request and return its result; `on_result` gets it before the next event.

        Tries again while the server is overloaded. `seconds` count from the sending.
        """
        limit = self.request_seconds if seconds is None else seconds
        attempt = 0
        while True:
            try:
                async with self._in_flight:
                    return await self._send_request(method, params, result_type, limit, on_result)
            except Overloaded:
                if attempt >= self.backoff.retries:
                    raise
            await self.backoff.sleep(self.backoff.delay(attempt))
            attempt += 1

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._write(OutgoingMessage(method=method))

    def subscribe(self, thread_id: str, handler: Handler) -> Subscription:
        """Subscribe to a thread; a former subscription to it ends."""
        if (former := self._subscriptions.get(thread_id)) is not None:
            former.stop()
        subscription = Subscription(thread_id, handler, self, self._forget)
        self._subscriptions[thread_id] = subscription
        if self.ended is not None:
            subscription.fail(self.ended)
        return subscription

    def reply(self, request: RequestId, result: ClientReply) -> None:
        """Send the reply to a server request."""
        self._write(OutgoingMessage(id=request, result=result))

    def refuse(self, request: RequestId) -> None:
        """Send an error as the reply to a server request."""
        self._refuse(request, INTERNAL, "the client could not answer")

    async def close(self, reason: Exception | None = None) -> None:
        """End the connection; requests without a result fail with `reason`."""
        self._finish(reason or Disconnected("the connection to the Codex app-server was closed"))
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def wait_ended(self) -> None:
        """Wait until the connection has ended."""
        await asyncio.gather(asyncio.shield(self._reading), return_exceptions=True)

    async def _send_request(
        self,
        method: str,
        params: object,
        result_type: type[R],
        seconds: float,
        on_result: Callable[[R], None],
    ) -> R:
        if self.ended is not None:
            raise self.ended
        request = next(self._ids)
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        decode = json_decoder(result_type).decode
        self._pending[request] = _Pending(method, decode, on_result, result)
        try:
            async with asyncio.timeout(seconds):
                self._write(OutgoingMessage(id=request, method=method, params=params))
                # A broken pipe also ends the reading, which then sets the reason.
                with suppress(OSError):
                    await self.writer.drain()
                return await result
        except TimeoutError:
            raise RequestTimeout(method, seconds) from None
        finally:
            self._pending.pop(request, None)

    def _write(self, message: OutgoingMessage) -> None:
        if self.ended is None:
            self.writer.write(encode_message(message))

    async def _read(self) -> None:
        lines = LineBuffer(self.longest_line)
        try:
            while chunk := await self.reader.read(_CHUNK):
                for line in lines.feed(chunk):
                    self._handle_line(line)
        except CodexProtocolError as error:
            self._finish(error)
        except OSError:
            _log.debug("the stream broke")
        self._finish(await self.explain_end())

    def _finish(self, reason: Exception) -> None:
        if self.ended is not None:
            return
        self.ended = reason
        with suppress(OSError):
            self.writer.close()
        for pending in self._pending.values():
            if not pending.future.done():
                pending.future.set_exception(reason)
        for subscription in list(self._subscriptions.values()):
            subscription.fail(reason)
        self._subscriptions.clear()

    def _handle_line(self, data: bytes) -> None:
        try:
            # Models, commands and files may tell a key.
            message = _parse_line(blank_json(data))
        except UNREADABLE:
            self._count_malformed(data)
            return
        if isinstance(message.method, str):
            if not isinstance(message.id, int | str):
                self._handle_notification(message.method, message.params)
            else:
                self._handle_request(message.id, message.method, message.params)
        elif isinstance(message.id, int | str):
            self._handle_result(message.id, message)
        else:
            self._count_malformed(data)

    def _count_malformed(self, data: bytes) -> None:
        if data.lstrip().startswith(b"["):
            self.ignored.batches += 1
        else:
            self.ignored.malformed += 1
        _log.debug("ignored a line of %d bytes that is no message", len(data))

    def _handle_result(self, request: RequestId, message: IncomingMessage) -> None:
        pending = self._pending.pop(request, None)
        if pending is None or pending.future.done():
            self.ignored.unknown_results += 1
            _log.debug("ignored a result of no request")
        elif isinstance(message.error, RpcError):
            pending.future.set_exception(request_error(pending.method, message.error))
        else:
            self._resolve(pending, message.result)

    def _resolve(self, pending: _Pending, result: Raw | UnsetType) -> None:
        try:
            value = pending.decode(result if isinstance(result, Raw) else Raw(b"{}"))
        except UNREADABLE as error:
            pending.future.set_exception(
                CodexProtocolError(
                    f"the Codex app-server answered {pending.method!r} in another shape: {error}; "
                    "try another version of Codex"
                )
            )
        else:
            pending.on_result(value)
            pending.future.set_result(value)

    def _handle_notification(self, method: str, params: Raw) -> None:
        if method in _MAY_QUOTE_PROVIDER:
            # Some providers repeat the key that they refuse, whatever it is.
            params = Raw(redact_registered(bytes(params).decode(errors="replace")).encode())
        try:
            notification = _check_item(parse_notification(method, params))
        except UNREADABLE:
            self.ignored.malformed += 1
            _log.debug("ignored a %s in another shape", one_line(method))
            return
        if notification is None:
            self.ignored.unknown_notifications += 1
            _log.debug("ignored a %s", one_line(method))
        elif notification.thread_id is None:
            self._call_listener(notification)
        elif subscription := self._subscriptions.get(notification.thread_id):
            subscription.deliver(notification)

    def _call_listener(self, notification: Notification) -> None:
        try:
            self.listener(notification)
        except Exception as error:  # noqa: BLE001 - an error of the listener must not end the connection
            _log.warning("the listener failed: %s at %s", type(error).__name__, notification.method)

    def _handle_request(self, request: RequestId, method: str, params: Raw) -> None:
        try:
            parsed = parse_server_request(method, params)
        except UNREADABLE:
            self._refuse(request, BAD_PARAMETERS, "the parameters have another shape")
            return
        if parsed is None:
            self._refuse(request, NO_SUCH_METHOD, "the client has no such method")
        elif subscription := self._subscriptions.get(parsed.thread_id):
            subscription.deliver_request(request, parsed)
        else:
            self.refuse(request)

    def _refuse(self, request: RequestId, code: int, message: str) -> None:
        self._write(OutgoingMessage(id=request, error=RpcError(code, message)))

    def _forget(self, subscription: Subscription) -> None:
        if self._subscriptions.get(subscription.thread_id) is subscription:
            del self._subscriptions[subscription.thread_id]


def _parse_line(data: bytes) -> IncomingMessage:
    """Decode a message. All of it must be text, also the parts that stay `Raw`."""
    data.decode()
    if is_nested_deeper(data, MOST_LEVELS):
        raise msgspec.DecodeError(f"it nests deeper than {MOST_LEVELS} levels")
    return decode_message(data)


def _check_item(notification: Notification | None) -> Notification | None:
    """Refuse a raw item that nobody could read from the log later."""
    if isinstance(notification, RawItemNotification) and not is_readable(notification.item):
        raise msgspec.ValidationError("its item cannot be read")
    return notification
