"""Small additions to asyncio: work that starts at once, and work that cannot be cancelled.

Owns `start_now`, which differs from `asyncio.create_task` in one point: the work runs right
away until it first waits. Most hooks and engine calls never wait; a plain task would cost
each of them three rounds of the event loop. Invariant: work that was started uncancelled
runs to its end, also at the end of `asyncio.run`, and only then is its caller cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from typing import Any, TypeVar

__all__ = ["finish_uncancelled", "start_now", "start_uncancelled", "wait_uncancelled"]

T = TypeVar("T")


def start_now(
    work: Coroutine[Any, Any, T],
    *,
    name: str | None = None,
    kind: type[asyncio.Task[Any]] = asyncio.Task,
) -> asyncio.Future[T]:
    """Start `work` and return its future: done already, or a task that goes on with the rest."""
    loop, context = asyncio.get_running_loop(), copy_context()
    rest = _Rest(work)
    task: asyncio.Task[T] = kind(rest, loop=loop, name=name, context=context)
    caller = asyncio.current_task(loop)
    if caller is not None:
        asyncio._leave_task(loop, caller)  # noqa: SLF001 - documented for custom tasks
    asyncio._enter_task(loop, task)  # noqa: SLF001
    done: asyncio.Future[T]
    try:
        rest.set_awaited(context.run(work.send, None))
    except StopIteration as end:
        done = loop.create_future()
        done.set_result(end.value)
    except asyncio.CancelledError:
        done = loop.create_future()
        done.cancel()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - the future carries it
        done = loop.create_future()
        done.set_exception(error)
    else:
        done = task
    finally:
        asyncio._leave_task(loop, task)  # noqa: SLF001
        if caller is not None:
            asyncio._enter_task(loop, caller)  # noqa: SLF001
    return done


class _Rest(Coroutine[Any, Any, T]):
    """The work after its first part: nothing, until it is known to wait."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._awaited: list[object] | None = None
        self.waiters: list[asyncio.Future[None]] = []
        """Those who wait for the end: woken with it, and not a round of the event loop later."""

    def set_awaited(self, awaited: object) -> None:
        """Note what the first part of the work waits for; the task gets it at its first step."""
        self._awaited = [awaited]

    def send(self, value: Any, /) -> Any:
        if self._awaited is None:
            raise StopIteration
        if self._awaited:
            return self._awaited.pop()
        try:
            return self._work.send(value)
        except BaseException:
            self._wake()
            raise

    def throw(self, *error: Any) -> Any:
        if self._awaited is None:
            raise StopIteration
        self._awaited = []
        try:
            return self._work.throw(*error)
        except BaseException:
            self._wake()
            raise

    def _wake(self) -> None:
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()


class _Uncancelled(asyncio.Task[T]):
    """A task that nobody else knows, so that only its own timeouts can cancel it."""

    def __init__(self, rest: _Rest[T], **options: Any) -> None:
        super().__init__(rest, **options)
        self.rest = rest
        # Code that cancels all tasks finds only the task that waits for this one.
        asyncio._unregister_task(self)  # noqa: SLF001 - documented for custom tasks


async def finish_uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end and return its result; only then cancel a cancelled caller."""
    if isinstance(asyncio.current_task(), _Uncancelled):
        return await work
    return await wait_uncancelled(start_uncancelled(work))


def start_uncancelled(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Start `work`, which nobody can cancel; wait for it with `wait_uncancelled`."""
    return start_now(work, kind=_Uncancelled)


async def wait_uncancelled(work: asyncio.Future[T]) -> T:
    """Wait for uncancelled work and return its result; only then cancel a cancelled caller."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await _wait_for_end(work)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        failed = None if work.cancelled() else work.exception()
        raise cancelled from failed
    return work.result()


async def _wait_for_end(work: asyncio.Future[Any]) -> None:
    """Wait for `work` without passing a cancellation on to it."""
    assert isinstance(work, _Uncancelled), "what is not done yet was started here"
    waiter, rest = asyncio.get_running_loop().create_future(), work.rest
    rest.waiters.append(waiter)
    try:
        await waiter
    finally:
        rest.waiters.remove(waiter)
