"""The events of one thread, in the order in which they came.

Owns the one queue for the notifications and the server requests of a thread, and the
tasks that answer the requests. Invariant: a request is handed over only when everything
before it has been taken, and each request gets exactly one reply, unless the server or
the end of its turn withdraws it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from msgspec import Struct

from .protocol.notifications import (
    Notification,
    RawItemNotification,
    RawResponseNotification,
    RequestResolvedNotification,
    TurnCompletedNotification,
)
from .protocol.server_requests import ClientReply, ServerRequest
from .protocol.types import RequestId
from .rollout_tail import RolloutTail

__all__ = ["Handler", "Replies", "Subscription"]

_log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[ServerRequest], Awaitable[ClientReply]]
"""Answers a server request. If it raises, the server gets an error without details."""


class Replies(Protocol):
    """Sends replies to server requests."""

    def reply(self, request: RequestId, result: ClientReply) -> None:
        """Send the reply to a request."""
        ...

    def refuse(self, request: RequestId) -> None:
        """Send an error as the reply to a request."""
        ...


class _QueuedRequest(Struct, frozen=True):
    id: RequestId
    request: ServerRequest


class _End(Struct, frozen=True):
    """Wakes the consumer."""


class Subscription:
    """An async iterator over the notifications of one thread.

    `handler` answers the server requests, each in a task of its own, which starts when the
    iteration reaches the request. The iteration stops with `close`. When the connection
    has ended, it raises the reason after everything that came before. It has one consumer.
    """

    def __init__(
        self,
        thread_id: str,
        handler: Handler,
        replies: Replies,
        forget: Callable[[Subscription], None],
    ) -> None:
        self.thread_id = thread_id
        self._handler, self._replies, self._forget = handler, replies, forget
        self._queue: asyncio.Queue[Notification | _QueuedRequest | _End] = asyncio.Queue()
        self._answering: dict[RequestId, tuple[_QueuedRequest, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._error: Exception | None = None
        self._ready: deque[Notification | _QueuedRequest] = deque()
        """What comes before anything in the queue."""
        self._held: Notification | _QueuedRequest | None = None
        """Taken from the queue; what the rollout has before it is not read yet."""
        self.tail: RolloutTail | None = None
        """Where the raw items come from, if the server does not send them."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notification:
        """Return the next notification."""
        while not self._closed:
            event = await self._next()
            if isinstance(event, _QueuedRequest):
                self._start_answer(event)
            elif not isinstance(event, _End):
                self._withdraw(event)
                return event
        raise StopAsyncIteration

    async def _next(self) -> Notification | _QueuedRequest | _End:
        """Return the next event, after what the rollout has before it."""
        if self._ready:
            return self._ready.popleft()
        if self._held is None:
            if self._queue.empty() and self._error is not None:
                raise self._error
            event = await self._queue.get()
            if self.tail is None or isinstance(event, _End):
                return event
            self._held = event
        assert self.tail is not None, "only what waits for the rollout is held"
        held = self._held
        if isinstance(held, _QueuedRequest):
            self._ready += await self.tail.before_request(held.request)
        else:
            self._ready += await self.tail.before(held)
        self._held = None
        # A thread that was not unloaded may still send raw items; the rollout has them all.
        if not isinstance(held, RawItemNotification | RawResponseNotification):
            self._ready.append(held)
        return self._ready.popleft() if self._ready else _End()

    async def close(self) -> None:
        """End the subscription; open requests get an error.

        When it returns, no handler runs any more.
        """
        self.stop()
        for task in self._tasks:
            # A task that is being cancelled already may clean up.
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A task that is cancelled before its first step never runs.
        for request in list(self._answering):
            self._refuse(request)

    def stop(self) -> None:
        """End the iteration, and refuse the requests that are still in the queue."""
        self._closed = True
        self._forget(self)
        waiting: list[Notification | _QueuedRequest | _End | None] = [*self._ready, self._held]
        self._ready.clear()
        self._held = None
        while not self._queue.empty():
            waiting.append(self._queue.get_nowait())
        for event in waiting:
            if isinstance(event, _QueuedRequest):
                self._replies.refuse(event.id)
        self._queue.put_nowait(_End())

    def deliver(self, notification: Notification) -> None:
        """Add a notification to the queue."""
        if not self._closed:
            self._queue.put_nowait(notification)

    def deliver_request(self, request_id: RequestId, request: ServerRequest) -> None:
        """Add a server request to the queue."""
        self._queue.put_nowait(_QueuedRequest(request_id, request))

    def fail(self, error: Exception) -> None:
        """End the iteration with `error`: the connection has ended, and no reply is needed."""
        self._error = error
        self._queue.put_nowait(_End())
        answering, self._answering = self._answering, {}
        for _, task in answering.values():
            task.cancel()

    def _start_answer(self, queued: _QueuedRequest) -> None:
        if self._error is None:
            task = asyncio.create_task(self._answer(queued), name=f"answer {queued.request.method}")
            self._answering[queued.id] = (queued, task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, queued: _QueuedRequest) -> None:
        try:
            reply = await self._handler(queued.request)
        except Exception as error:  # noqa: BLE001 - the server must not wait for ever
            _log.warning("%s was not answered: %s", queued.request.method, type(error).__name__)
            self._refuse(queued.id)
        except asyncio.CancelledError:
            self._refuse(queued.id)
            raise
        else:
            if self._answering.pop(queued.id, None) is not None:
                self._replies.reply(queued.id, reply)

    def _withdraw(self, event: Notification) -> None:
        """Cancel the answers that the server does not need after `event`."""
        for queued, task in list(self._answering.values()):
            if _withdraws(event, queued):
                del self._answering[queued.id]
                task.cancel()

    def _refuse(self, request: RequestId) -> None:
        if self._answering.pop(request, None) is not None:
            self._replies.refuse(request)


def _withdraws(event: Notification, queued: _QueuedRequest) -> bool:
    if isinstance(event, RequestResolvedNotification):
        return event.request_id == queued.id
    # An interrupted turn drops its requests without a notification.
    return isinstance(event, TurnCompletedNotification) and event.turn.id == queued.request.turn_id
