"""A thread's events, in the order they came.

Owns the one queue that notifications and asks of a thread share, and the tasks that
answer the asks. Invariant: an ask is handed over only when everything before it has
been taken, and each ask is answered exactly once, unless the server or the end of its
turn settles it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from msgspec import Struct

from .protocol.asks import ClientReply, ServerRequest
from .protocol.base import RequestId
from .protocol.notifications import (
    Notification,
    RequestResolvedNotification,
    TurnCompletedNotification,
)

__all__ = ["Handler", "Replies", "Subscription"]

_log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[ServerRequest], Awaitable[ClientReply]]
"""Answers an ask. What it raises becomes an error answer that says nothing of it."""


class Replies(Protocol):
    """Where answers to the server's requests go."""

    def answer(self, request: RequestId, result: ClientReply) -> None:
        """Send the result of a request."""
        ...

    def refuse(self, request: RequestId) -> None:
        """Send an error instead of a result."""
        ...


class _Asked(Struct, frozen=True):
    id: RequestId
    ask: ServerRequest


class _Ended(Struct, frozen=True):
    """Wakes whoever waits."""


class Subscription:
    """Iterate over it for the notifications of one thread.

    Asks are answered by `handler`, each in a task of its own, which begins when the
    iteration reaches the ask. The iteration stops with `close` and raises what ended the
    connection once all that came before has been taken. One consumer at a time.
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
        self._queue: asyncio.Queue[Notification | _Asked | _Ended] = asyncio.Queue()
        self._answering: dict[RequestId, tuple[_Asked, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._failure: Exception | None = None

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
        """The next notification."""
        while not self._closed:
            if self._queue.empty() and self._failure is not None:
                raise self._failure
            event = await self._queue.get()
            if isinstance(event, _Asked):
                self._begin(event)
            elif not isinstance(event, _Ended):
                self._withdraw(event)
                return event
        raise StopAsyncIteration

    async def close(self) -> None:
        """Take no more; what is still asked is answered with an error.

        When it returns no handler runs any more.
        """
        self.stop()
        for task in self._tasks:
            # One that is tidying up already is left to it.
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A task that is cancelled before its first step never sees it.
        for request in list(self._answering):
            self._refuse(request)

    def stop(self) -> None:
        """End the iteration, and refuse what was not yet handed over."""
        self._closed = True
        self._forget(self)
        while not self._queue.empty():
            if isinstance(event := self._queue.get_nowait(), _Asked):
                self._replies.refuse(event.id)
        self._queue.put_nowait(_Ended())

    def deliver(self, notification: Notification) -> None:
        """Put a notification at the end of the queue."""
        if not self._closed:
            self._queue.put_nowait(notification)

    def ask(self, request: RequestId, ask: ServerRequest) -> None:
        """Put an ask at the end of the queue."""
        self._queue.put_nowait(_Asked(request, ask))

    def fail(self, failure: Exception) -> None:
        """The connection has ended: nobody waits for answers any more."""
        self._failure = failure
        self._queue.put_nowait(_Ended())
        answering, self._answering = self._answering, {}
        for _, task in answering.values():
            task.cancel()

    def _begin(self, asked: _Asked) -> None:
        if self._failure is None:
            task = asyncio.create_task(self._answer(asked), name=f"answer {asked.ask.method}")
            self._answering[asked.id] = (asked, task)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, asked: _Asked) -> None:
        try:
            answer = await self._handler(asked.ask)
        except Exception as error:  # noqa: BLE001 - the server must not wait for ever
            _log.warning("%s was not answered: %s", asked.ask.method, type(error).__name__)
            self._refuse(asked.id)
        except asyncio.CancelledError:
            self._refuse(asked.id)
            raise
        else:
            if self._answering.pop(asked.id, None) is not None:
                self._replies.answer(asked.id, answer)

    def _withdraw(self, event: Notification) -> None:
        """Stop answering what nobody waits for any more."""
        for asked, task in list(self._answering.values()):
            if _is_settled(asked, event):
                del self._answering[asked.id]
                task.cancel()

    def _refuse(self, request: RequestId) -> None:
        if self._answering.pop(request, None) is not None:
            self._replies.refuse(request)


def _is_settled(asked: _Asked, event: Notification) -> bool:
    if isinstance(event, RequestResolvedNotification):
        return event.request_id == asked.id
    # An interrupted turn drops its requests without a word.
    return isinstance(event, TurnCompletedNotification) and event.turn.id == asked.ask.turn_id
