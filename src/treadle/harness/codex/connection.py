"""A connection to an app-server: requests out, answers, events and asks in.

Owns the request ids, the time-outs, how many requests are in flight and who hears of
what. Invariant: every request ends in its answer or in a typed error, also when the
connection does; nothing the other side sends stops the reading but a line too long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeVar, cast

import msgspec
from msgspec import Raw, UnsetType

from ...core.redact import redact_known
from ...core.wire import UNREADABLE, is_nested_deeper
from ...engines.words import brief
from ...models.retry import Backoff
from ...models.soundness import is_readable
from .envelope import (
    BAD_PARAMETERS,
    INTERNAL,
    NO_SUCH_METHOD,
    IncomingMessage,
    OutgoingMessage,
    RpcError,
    decode_message,
    encode_message,
    request_error,
)
from .errors import CodexProtocolError, Disconnected, Overloaded, RequestTimeout
from .lines import LONGEST_LINE, ByteReader, ByteWriter, LineBuffer
from .protocol.asks import ClientReply, parse_server_request
from .protocol.base import ClientRequest, RequestId
from .protocol.notifications import Notification, RawItemNotification, parse_notification
from .protocol.requests import OpenThreadResult
from .subscription import Handler, Subscription

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
"""Seconds a request may take unless somebody says otherwise."""
MAX_IN_FLIGHT = 100
"""Requests without an answer; beyond it an app-server loses some."""
MOST_LEVELS = 128
"""How deep a message may nest; a deeper one is no message."""

_CHUNK = 1 << 16
_QUOTING = frozenset({"error", "turn/completed", "warning"})
"""Notifications that may repeat what a provider said."""

_log = logging.getLogger(__name__)


class NotificationListener(Protocol):
    """Hears what is about no thread."""

    def __call__(self, notification: Notification, /) -> None:
        """Take a notification; it must not block."""
        ...


@dataclass(slots=True)
class IgnoredMessages:
    """How often something came that could not be used."""

    malformed: int = 0
    batches: int = 0
    unknown_notifications: int = 0
    unknown_answers: int = 0
    """Answers to no request, or to one that was given up."""


@dataclass(slots=True)
class _Pending:
    method: str
    decode: Callable[[Raw], Any]
    claim: Callable[[Any], None]
    future: asyncio.Future[Any]


def _nothing(_: object) -> None:
    """Take a value and do nothing with it."""


async def _hung_up() -> Exception:
    return Disconnected("the Codex app-server closed the connection; the next turn starts another")


@dataclass(eq=False)
class AppServerConnection:
    """Speaks with one app-server over a pair of streams. Made inside a running loop.

    `farewell` says why the stream ended; `generation` counts the processes that one
    server has started, so that its users see when their threads are gone.
    """

    reader: ByteReader
    writer: ByteWriter
    listener: NotificationListener = _nothing
    explain_end: Callable[[], Awaitable[Exception]] = _hung_up
    generation: int = 1
    request_seconds: float = REQUEST_SECONDS
    backoff: Backoff = field(default_factory=lambda: Backoff(retries=6, base=0.1, jitter=0.5))
    longest_line: int = LONGEST_LINE

    def __post_init__(self) -> None:
        self.ended: Exception | None = None
        """What ended the connection; None while it lives."""
        self.ignored = IgnoredMessages()
        self._ids = count(1)
        self._slots = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._pending: dict[RequestId, _Pending] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._reading = asyncio.create_task(self._read(), name="codex connection")

    @property
    def subscribed_threads(self) -> frozenset[str]:
        """The threads that somebody hears of."""
        return frozenset(self._subscriptions)

    async def call(self, request: ClientRequest[R], *, seconds: float | None = None) -> R:
        """The answer to a request. Raises a `CodexError`."""
        answer = await self.request(request.method, request, request.result_type, seconds=seconds)
        return cast("R", answer)

    async def open_thread(
        self,
        request: ClientRequest[OpenThreadResult],
        handler: Handler,
        *,
        seconds: float | None = None,
    ) -> tuple[OpenThreadResult, Subscription]:
        """Start, resume or fork a thread and hear of it from its first event on."""
        made: list[Subscription] = []

        def claim(opened: OpenThreadResult) -> None:
            made.append(self.subscribe(opened.thread.id, handler))

        try:
            opened = await self.request(
                request.method, request, OpenThreadResult, seconds=seconds, claim=claim
            )
        except BaseException:
            for subscription in made:
                await subscription.close()
            raise
        return opened, made[0]

    async def request(
        self,
        method: str,
        params: object,
        result_type: type[R],
        *,
        seconds: float | None = None,
        claim: Callable[[R], None] = _nothing,
    ) -> R:
        """Ask `method` and wait for the answer; `claim` gets it before the next event.

        Tried again while the server is overloaded. `seconds` count from the sending.
        """
        patience = self.request_seconds if seconds is None else seconds
        attempt = 0
        while True:
            try:
                async with self._slots:
                    return await self._ask(method, params, result_type, patience, claim)
            except Overloaded:
                if attempt >= self.backoff.retries:
                    raise
            await self.backoff.sleep(self.backoff.delay(attempt))
            attempt += 1

    def notify(self, method: str) -> None:
        """Tell the server something that needs no answer."""
        self._write(OutgoingMessage(method=method))

    def subscribe(self, thread_id: str, handler: Handler) -> Subscription:
        """Hear of a thread from now on, in the place of whoever did before."""
        if (former := self._subscriptions.get(thread_id)) is not None:
            former.stop()
        subscription = Subscription(thread_id, handler, self, self._forget)
        self._subscriptions[thread_id] = subscription
        if self.ended is not None:
            subscription.fail(self.ended)
        return subscription

    def answer(self, request: RequestId, result: ClientReply) -> None:
        """Send the result of a server request."""
        self._write(OutgoingMessage(id=request, result=result))

    def refuse(self, request: RequestId) -> None:
        """Send an error instead of a result."""
        self._refuse(request, INTERNAL, "the client could not answer")

    async def close(self, reason: Exception | None = None) -> None:
        """End the connection; what is unanswered fails with `reason`."""
        self._finish(reason or Disconnected("the connection to the Codex app-server was closed"))
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def wait_ended(self) -> None:
        """Return when the connection has ended."""
        await asyncio.gather(asyncio.shield(self._reading), return_exceptions=True)

    async def _ask(
        self,
        method: str,
        params: object,
        result_type: type[R],
        seconds: float,
        claim: Callable[[R], None],
    ) -> R:
        if self.ended is not None:
            raise self.ended
        request = next(self._ids)
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        decode = msgspec.json.Decoder(result_type).decode
        self._pending[request] = _Pending(method, decode, claim, answer)
        try:
            async with asyncio.timeout(seconds):
                self._write(OutgoingMessage(id=request, method=method, params=params))
                # A broken pipe is told by the end of the stream, with its reason.
                with suppress(OSError):
                    await self.writer.drain()
                return await answer
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
                    self._take(line)
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

    def _take(self, data: bytes) -> None:
        try:
            line = _read(data)
        except UNREADABLE:
            self._count_malformed(data)
            return
        if isinstance(line.method, str):
            if not isinstance(line.id, int | str):
                self._take_notification(line.method, line.params)
            else:
                self._take_ask(line.id, line.method, line.params)
        elif isinstance(line.id, int | str):
            self._take_answer(line.id, line)
        else:
            self._count_malformed(data)

    def _count_malformed(self, data: bytes) -> None:
        if data.lstrip().startswith(b"["):
            self.ignored.batches += 1
        else:
            self.ignored.malformed += 1
        _log.debug("ignored a line of %d bytes that is no message", len(data))

    def _take_answer(self, request: RequestId, line: IncomingMessage) -> None:
        pending = self._pending.pop(request, None)
        if pending is None or pending.future.done():
            self.ignored.unknown_answers += 1
            _log.debug("ignored an answer to no request")
        elif isinstance(line.error, RpcError):
            pending.future.set_exception(request_error(pending.method, line.error))
        else:
            self._resolve(pending, line.result)

    def _resolve(self, pending: _Pending, result: Raw | UnsetType) -> None:
        try:
            value = pending.decode(result if isinstance(result, Raw) else Raw(b"{}"))
        except UNREADABLE as error:
            said = f"the Codex app-server answered {pending.method!r} in another shape: {error}"
            pending.future.set_exception(
                CodexProtocolError(f"{said}; try another version of Codex")
            )
        else:
            pending.claim(value)
            pending.future.set_result(value)

    def _take_notification(self, method: str, params: Raw) -> None:
        try:
            notification = _sound(parse_notification(method, self._scrubbed(method, params)))
        except UNREADABLE:
            self.ignored.malformed += 1
            _log.debug("ignored a %s in another shape", brief(method))
            return
        if notification is None:
            self.ignored.unknown_notifications += 1
            _log.debug("ignored a %s", brief(method))
        elif notification.thread_id is None:
            self._tell(notification)
        elif subscription := self._subscriptions.get(notification.thread_id):
            subscription.deliver(notification)

    def _scrubbed(self, method: str, params: Raw) -> Raw:
        """`params` without secrets: some providers repeat the key they refuse."""
        if method not in _QUOTING:
            return params
        return Raw(redact_known(bytes(params).decode(errors="replace")).encode())

    def _tell(self, notification: Notification) -> None:
        try:
            self.listener(notification)
        except Exception as error:  # noqa: BLE001 - a listener's fault is not the connection's
            _log.warning("the listener failed: %s at %s", type(error).__name__, notification.method)

    def _take_ask(self, request: RequestId, method: str, params: Raw) -> None:
        try:
            ask = parse_server_request(method, params)
        except UNREADABLE:
            self._refuse(request, BAD_PARAMETERS, "the parameters have another shape")
            return
        if ask is None:
            self._refuse(request, NO_SUCH_METHOD, "the client has no such method")
        elif subscription := self._subscriptions.get(ask.thread_id):
            subscription.ask(request, ask)
        else:
            self.refuse(request)

    def _refuse(self, request: RequestId, code: int, message: str) -> None:
        self._write(OutgoingMessage(id=request, error=RpcError(code, message)))

    def _forget(self, subscription: Subscription) -> None:
        if self._subscriptions.get(subscription.thread_id) is subscription:
            del self._subscriptions[subscription.thread_id]


def _read(data: bytes) -> IncomingMessage:
    """The message in a line; text throughout, also where nobody has looked yet."""
    data.decode()
    if is_nested_deeper(data, MOST_LEVELS):
        raise msgspec.DecodeError(f"it nests deeper than {MOST_LEVELS} levels")
    return decode_message(data)


def _sound(notification: Notification | None) -> Notification | None:
    """A notification whose item, if it brings one for the log, everyone can read later."""
    if isinstance(notification, RawItemNotification) and not is_readable(notification.item):
        raise msgspec.ValidationError("its item cannot be read")
    return notification
